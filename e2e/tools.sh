#!/usr/bin/env bash
# tools.sh: installs what the tests and the linter use, and prints the environment that finds it.
#
#   eval "$(e2e/tools.sh)"          all of it
#   eval "$(e2e/tools.sh lint)"     the linter alone
#   eval "$(e2e/tools.sh bench)"    all of it, and servers to compare with
#
# Programs of Debian come by apt if we are root; Go programs are built once per version into the
# user's cache folder, outside the work tree, so that clones and jobs share them.
set -euo pipefail
minio=v0.0.0-20260212201848-7aac2a2c5b7c
versitygw=v1.8.0
staticcheck=v0.8.2
cache=${XDG_CACHE_HOME:-$HOME/.cache}/spokefs-tools

# gotool NAME PACKAGE VERSION builds one Go program, once.
gotool() {
	local d=$cache/$1@$3
	mkdir -p "$d"
	[ -x "$d/$1" ] || (
		flock 9
		[ -x "$d/$1" ] || { echo "building $1 $3" >&2; cd "$d" && GOFLAGS= GOBIN=$d nice go install "$2@$3" >&2; }
	) 9>"$d.lock"
	echo "$d/$1"
}

# debian installs the packages whose command is missing.
debian() {
	local c missing=() log
	for c; do command -v "${c%%:*}" >/dev/null || missing+=("${c#*:}"); done
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "not installed, and not root to do it: ${missing[*]}" >&2; return 0; }
	echo "installing ${missing[*]}" >&2
	log=$(mktemp)
	install() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; }
	install || { apt-get -qq update >>"$log" 2>&1 && install; } || { tail -n 20 "$log" >&2; return 1; }
	rm -f "$log"
}

export PATH=$PATH:/usr/sbin:/sbin
echo "export SPOKEFS_STATICCHECK=$(gotool staticcheck honnef.co/go/tools/cmd/staticcheck $staticcheck)"
[ "${1:-all}" != lint ] || exit 0
[ "${1:-all}" != bench ] || debian ganesha.nfsd:nfs-ganesha-vfs rclone:rclone
debian linux.uml:user-mode-linux mount.nfs:nfs-common busybox:busybox-static ip:iproute2 fusermount3:fuse3 \
	fio:fio sqlite3:sqlite3 rsync:rsync nfs-ls:libnfs-utils aws:awscli setpriv:util-linux
echo "export SPOKEFS_MINIO=$(gotool minio github.com/minio/minio $minio)"
echo "export SPOKEFS_VERSITYGW=$(gotool versitygw github.com/versity/versitygw/cmd/versitygw $versitygw)"
echo "export PATH=\$PATH:/usr/sbin:/sbin"
