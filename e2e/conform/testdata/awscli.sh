# What people do with the AWS command line: $AWS is the program, $ENDPOINT the server, main the bucket.
# The working directory is empty.
set -euo pipefail
step() { echo "== $*"; }
s3() { "$AWS" --endpoint-url "$ENDPOINT" s3 "$@" --only-show-errors; }
api() { "$AWS" --endpoint-url "$ENDPOINT" s3api "$@"; }
mkdir -p ~/.aws
printf '[default]\ns3 =\n  signature_version = s3v4\n' >~/.aws/config # version 1 signs links by SigV2 otherwise, which is refused (A54)
fails() { if "$@" >/dev/null 2>&1; then echo "this should have failed: $*"; exit 1; fi; }

step cp there and back
head -c 100000 /dev/urandom >a
s3 cp a s3://main/cli/a
s3 cp s3://main/cli/a a.back
cmp a a.back
printf 'from a pipe' | s3 cp - s3://main/cli/pipe
[ "$(s3 cp s3://main/cli/pipe -)" = 'from a pipe' ]
s3 cp s3://main/cli/a s3://main/cli/copied
s3 cp s3://main/cli/copied copied
cmp a copied
: >empty
s3 cp empty s3://main/cli/empty
s3 cp s3://main/cli/empty empty.back
cmp empty empty.back

step multipart
head -c $((20 << 20)) /dev/urandom >big # above the 8 MiB from which it goes by parts
s3 cp big s3://main/cli/big
s3 cp s3://main/cli/big big.back
cmp big big.back
tag=$(api head-object --bucket main --key cli/big --query ETag --output text)
case $tag in *-3\") ;; *) echo "the tag of three parts is $tag"; exit 1 ;; esac
[ "$(api list-multipart-uploads --bucket main --query 'length(Uploads || `[]`)')" = 0 ]
api get-object --bucket main --key cli/big --range bytes=9000000-9000999 range >/dev/null
cmp range <(tail -c +9000001 big | head -c 1000)

step sync
mkdir -p tree/d/e
for i in 1 2 3 4 5; do head -c $((i * 1111)) /dev/urandom >tree/d/f$i; done
echo 'a b+c ü' >'tree/d/e/a b+c ü'
find tree -type f -exec touch -d '1 minute ago' {} + # S3's times are whole seconds
s3 sync tree s3://main/cli/tree
s3 sync s3://main/cli/tree back
diff -r tree back
again=$(s3 sync tree s3://main/cli/tree --dryrun)
[ -z "$again" ] || { echo "a second sync has to do: $again"; exit 1; }
echo more >>tree/d/f1
rm tree/d/f2
s3 sync tree s3://main/cli/tree --delete
s3 sync s3://main/cli/tree back --delete
diff -r tree back

step ls
[ "$("$AWS" --endpoint-url "$ENDPOINT" s3 ls s3://main/cli/tree/ --recursive | wc -l)" = 5 ]
"$AWS" --endpoint-url "$ENDPOINT" s3 ls s3://main/cli/tree/d/ | grep 'PRE e/'
"$AWS" --endpoint-url "$ENDPOINT" s3 ls | grep ' main$'
[ "$(api list-objects-v2 --bucket main --prefix cli/tree/ --page-size 2 --query 'length(Contents)')" = 5 ]

step mv
s3 mv a s3://main/cli/moved
[ ! -e a ]
s3 mv s3://main/cli/moved s3://main/cli/again
fails s3 cp s3://main/cli/moved -
s3 mv s3://main/cli/again a
cmp a a.back
fails s3 cp s3://main/cli/again -

step presign
url=$("$AWS" --endpoint-url "$ENDPOINT" s3 presign s3://main/cli/big --expires-in 60)
curl -fsS -o by.url "$url"
cmp big by.url
fails curl -fsS "${url%?}0x"
fails curl -fsS "$ENDPOINT/main/cli/big"

step rm
s3 rm s3://main/cli/a
fails s3 cp s3://main/cli/a -
s3 rm s3://main/cli/ --recursive
[ -z "$("$AWS" --endpoint-url "$ENDPOINT" s3 ls s3://main/cli/ --recursive)" ]
echo all is well
