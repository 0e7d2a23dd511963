package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"github.com/spokefs/spokefs/cmd/spokefs/node"
	"github.com/spokefs/spokefs/e2e/harness"
	"github.com/spokefs/spokefs/protocols/fuse"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// local starts a hub with a spoke beside it.
func local(t *testing.T) *node.LocalSite {
	t.Helper()
	s, err := node.Local(t.Context(), t.TempDir(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// mount mounts a spoke's portal.
func mount(t *testing.T, sp *node.Spoke) string {
	t.Helper()
	if err := fuse.Available(); err != nil {
		harness.Lacking(t, err)
	}
	p, err := sp.Site.Portal("main")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m, err := fuse.New(fuse.Config{Debug: os.Getenv("SPOKEFS_FUSE_DEBUG") != ""}, p, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// run runs a shell script in dir, as an ordinary user if asked, and fails with its output.
func run(t *testing.T, dir string, user bool, script string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	home := t.TempDir()
	os.Chmod(home, 0o777)
	if user {
		reachable(home)
		reachable(filepath.Dir(dir))
	}
	cmd.Env = append(os.Environ(), "HOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if user {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// reachable lets other users pass through the folders above a test's own.
func reachable(dir string) {
	for ; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if st, err := os.Stat(dir); err == nil {
			os.Chmod(dir, st.Mode()|0o011)
		}
	}
}

// laterLocks are posixtest's cases of locks that reach across sites (A36), which this version
// leaves to the kernel: one process's locks do not meet there.
var laterLocks = []string{"FcntlFlockLocksFile"}

func TestFUSEPosix(t *testing.T) {
	dir := mount(t, local(t).Spoke)
	for name, f := range posixtest.All {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(laterLocks, name) {
				t.Skip("locks across sites come with rule A36")
			}
			sub, err := os.MkdirTemp(dir, "t")
			if err != nil {
				t.Fatal(err)
			}
			f(t, sub)
		})
	}
}

// programs are real programs that must run on a mount, as root and as an ordinary user: git opens
// its packs read-write with mode 0444, which root alone would not notice.
var programs = []struct{ name, needs, script string }{
	{"git", "git", `git init -q r && cd r && for i in $(seq 50); do echo "line $i" >f$i; done && git add . && git commit -qm one &&
		git mv f1 g1 && echo more >>f2 && git commit -qam two && cd .. && git clone -q r c && cd c && git fsck --full && test -z "$(git status --porcelain)" && git gc -q && git fsck --full`},
	{"tar", "tar", `mkdir src && for i in $(seq 200); do head -c $((i*97)) /dev/urandom >src/f$i; done && ln -s f1 src/link && ln src/f2 src/hard &&
		chmod 600 src/f3 && touch -d 2001-02-03 src/f4 && tar cf a.tar src && mkdir out && tar xpf a.tar -C out && diff -r src out/src && test "$(stat -c %Y out/src/f4)" = "$(stat -c %Y src/f4)"`},
	{"sqlite", "sqlite3", `sqlite3 db "pragma journal_mode=wal; create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<2000) insert into t select x, hex(randomblob(20)) from c;" >/dev/null &&
		test "$(sqlite3 db 'select count(*), count(distinct b) from t')" = "2000|2000" && test "$(sqlite3 db 'pragma integrity_check')" = ok`},
	{"rsync", "rsync", `mkdir a && for i in $(seq 100); do head -c $((i*331)) /dev/urandom >a/f$i; done && rsync -a a/ b/ && diff -r a b && rsync -a -n -i a/ b/ >again && { test ! -s again || { cat again; false; }; }`},
	{"go build", "go", `export GOCACHE=$HOME/gocache GOFLAGS=-mod=mod GOTOOLCHAIN=local; mkdir m && cd m && printf 'module m\n\ngo 1.26\n' >go.mod &&
		printf 'package main\n\nfunc main() { println("hello") }\n' >main.go && go build -o m . && test "$(./m 2>&1)" = hello`},
	{"fio", "fio", `fio --name=v --filename=f --size=8m --rw=randwrite --bsrange=1k-64k --ioengine=psync --verify=crc32c --end_fsync=1 >/dev/null && fio --name=v --filename=f --size=8m --rw=randwrite --bsrange=1k-64k --ioengine=psync --verify=crc32c --verify_only >/dev/null`},
	{"shell", "bash", `for i in $(seq 300); do echo $i >>log; done && test "$(wc -l <log)" = 300 && mkdir -p d/e && echo x >d/e/f && mv d/e d/g && cat d/g/f && cp -a d h && rm -r d && test "$(cat h/g/f)" = x &&
		exec 3<>u && echo one >&3 && rm u && echo two >&3 && test "$(cat /proc/$$/fd/3 | wc -l)" = 2 && exec 3>&- && truncate -s 1M s && test "$(stat -c %s s)" = 1048576 && python3 - <<'P'
import mmap, os
f = os.open("map", os.O_RDWR | os.O_CREAT); os.ftruncate(f, 65536)
m = mmap.mmap(f, 65536); m[100:105] = b"hello"; m.flush(); m.close(); os.close(f)
assert open("map", "rb").read()[100:105] == b"hello"
P`},
}

func TestFUSEPrograms(t *testing.T) {
	s := local(t)
	dir := mount(t, s.Spoke)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, user := range []bool{false, true} {
		for _, p := range programs {
			t.Run(fmt.Sprintf("%s user=%v", p.name, user), func(t *testing.T) {
				if user {
					harness.Root(t)
				}
				if _, err := exec.LookPath(p.needs); err != nil {
					harness.Lacking(t, err)
				}
				sub := filepath.Join(dir, strings.ReplaceAll(fmt.Sprint(p.name, user), " ", "-"))
				if err := errors.Join(os.Mkdir(sub, 0o777), os.Chmod(sub, 0o777)); err != nil {
					t.Fatal(err)
				}
				run(t, sub, user, p.script)
			})
		}
	}
}

// What is written and closed at one site is what an open at the other sees.
func TestFUSETwoSites(t *testing.T) {
	s := local(t)
	other, err := s.Join(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	a, b := mount(t, s.Spoke), mount(t, other)
	for i := range 200 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		want := strings.Repeat(fmt.Sprint("version ", i, "\n"), 1+i*37%3000)
		if err := os.WriteFile(filepath.Join(from, "f"), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(to, "f"))
		if err != nil || string(got) != want {
			t.Fatalf("round %d: %d bytes, %v; want %d", i, len(got), err, len(want))
		}
	}
	for i := range 200 {
		for j, dir := range []string{a, b} {
			f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(f, "site %d line %d\n", j, i)
			f.Close()
		}
	}
	got, err := os.ReadFile(filepath.Join(a, "log"))
	if n := strings.Count(string(got), "\n"); err != nil || n != 400 {
		t.Fatalf("%d lines of 400, %v", n, err)
	}
}
