# Runs as root in a guest of e2e/harness; $SERVER and $PORT are the server.
set -euo pipefail
step() { echo "== $* ($(cut -d' ' -f1 /proc/uptime))"; }
opts=vers=3,proto=tcp,nolock,soft,timeo=600,rsize=1048576,wsize=1048576
mkdir -p /tmp/a /tmp/b

step mount with ports
mount.nfs $SERVER:/main /tmp/a -o $opts,port=$PORT,mountport=$PORT
step mount without
mount.nfs $SERVER:/main /tmp/b -o $opts,nosharecache
grep nfs /proc/mounts

cat >/tmp/user.sh <<'USER'
set -euo pipefail
step() { echo "== $* ($(cut -d' ' -f1 /proc/uptime))"; }
export HOME=/tmp/home GIT_CONFIG_NOSYSTEM=1
mkdir -p $HOME
cd /tmp/a

step files
mkdir d
echo hello >d/a
cp d/a d/b
mv d/b d/c
ln d/c d/hard
ln -s c d/soft
chmod 640 d/c
[ "$(stat -c '%a %h' d/c)" = "640 2" ]
[ "$(cat d/soft)" = hello ]
cmp d/a d/hard
mkfifo d/fifo
[ -p d/fifo ]
touch -d '2020-01-02 03:04:05.123456789' d/a
[ "$(stat -c %y d/a | cut -c1-29)" = '2020-01-02 03:04:05.123456789' ]
head -c 3000000 /dev/urandom >/tmp/big
cp /tmp/big d/big
cmp /tmp/big d/big
truncate -s 100 d/big
[ "$(stat -c %s d/big)" = 100 ]
echo more >>d/a
[ "$(cat d/a | wc -l)" = 2 ]
(umask 0; : >d/readonly); chmod 444 d/readonly
if [ "$(id -u)" != 0 ] && echo no 2>/dev/null >d/readonly; then echo 'wrote a 0444 file by name'; exit 1; fi
(set -C; ! : 2>/dev/null >d/a)
exec 3<>d/c; rm d/c; echo still >&3; cat d/hard; exec 3>&-
ls -la d
df . | tail -1
rm -r d

step the other mount
echo seen >x
[ "$(cat /tmp/b/x)" = seen ]
[ "$(stat -c '%d' x | wc -l)" = 1 ]

step git
git init -q repo
cd repo
git config user.email a@b; git config user.name a
for i in $(seq 40); do echo "$i" >file$i; done
git add .
git commit -q -m one
git mv file1 renamed
git commit -q -m two
cd ..
git clone -q repo clone
git -C clone fsck --full --strict
[ -z "$(git -C clone status --porcelain)" ]
[ "$(git -C clone log --oneline | wc -l)" = 2 ]

step tar
mkdir /tmp/src
cp -r /etc/init.d /etc/default /tmp/src 2>/dev/null || true
cp -r /usr/lib/git-core/mergetools /tmp/src 2>/dev/null || true
tar cf /tmp/src.tar -C /tmp/src .
mkdir tree
tar xf /tmp/src.tar -C tree
diff -r /tmp/src tree

if command -v sqlite3 >/dev/null; then
	step sqlite
	sqlite3 db 'pragma journal_mode=wal; create table t(x); begin; insert into t values(1),(2),(3); commit;'
	sqlite3 db 'insert into t select x+3 from t; pragma integrity_check; pragma wal_checkpoint(truncate);'
	[ "$(sqlite3 db 'select sum(x) from t')" = 21 ]
fi

step many
mkdir many
cd many
seq -f 'name-%.0f' 2000 | xargs touch
[ "$(ls -U | wc -l)" = 2000 ]
[ "$(ls -l | grep -c name-)" = 2000 ]
[ "$(ls -U /tmp/b/many | wc -l)" = 2000 ]
cd ..
rm -r many
[ ! -e many ]
step done
USER
setpriv --reuid 1000 --regid 1000 --clear-groups bash /tmp/user.sh

step squash
if touch /tmp/a/repo/root 2>/dev/null; then echo 'squashed root wrote in a 0755 directory'; exit 1; fi
: >/tmp/a/byroot
[ "$(stat -c %u /tmp/a/byroot)" = 65534 ]
step umount
umount.nfs /tmp/a
umount.nfs /tmp/b
echo all is well
