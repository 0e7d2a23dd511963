package conform

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// errno is what a system call answered.
func errno(err error) syscall.Errno {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}

// op is one random operation; it is done alike in both trees.
type op struct {
	kind       int
	a, b       string
	off, n     int64
	fill, mode byte
}

func (o op) String() string {
	return fmt.Sprintf("%d a=%s b=%s off=%d n=%d", o.kind, o.a, o.b, o.off, o.n)
}

// do carries the operation out below dir and gives what it answered.
func (o op) do(dir string) (syscall.Errno, []byte) {
	a, b := filepath.Join(dir, o.a), filepath.Join(dir, o.b)
	switch o.kind {
	case 0, 1:
		return errno(write2(a, os.O_CREATE|os.O_RDWR, o)), nil
	case 2:
		return errno(write2(a, os.O_CREATE|os.O_WRONLY|os.O_APPEND, o)), nil
	case 3:
		return errno(write2(a, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, o)), nil
	case 4:
		return errno(os.Truncate(a, o.off)), nil
	case 5:
		return errno(syscall.Rename(a, b)), nil
	case 6:
		return errno(syscall.Unlink(a)), nil
	case 7:
		return errno(syscall.Mkdir(a, 0o755)), nil
	case 8:
		return errno(syscall.Rmdir(a)), nil
	case 9:
		return errno(syscall.Link(a, b)), nil
	case 10:
		return errno(syscall.Symlink(o.b, a)), nil
	case 11:
		return errno(os.Chmod(a, fs.FileMode(o.mode)&0o777|0o600)), nil
	case 12:
		p, err := os.ReadFile(a)
		return errno(err), p
	}
	st, err := os.Lstat(a)
	if err != nil {
		return errno(err), nil
	}
	sys := st.Sys().(*syscall.Stat_t)
	size := st.Size()
	if st.IsDir() {
		size = 0 // each file system has its own
	}
	return 0, fmt.Appendf(nil, "%v %d %d", st.Mode(), size, sys.Nlink)
}

func write2(name string, flags int, o op) error {
	f, err := os.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	p := bytes.Repeat([]byte{o.fill, o.fill + 1, o.fill + 2}, int(o.n/3)+1)[:o.n]
	if flags&os.O_APPEND != 0 {
		_, err = f.Write(p)
	} else {
		_, err = f.WriteAt(p, o.off)
	}
	return err
}

// random draws an operation on few names, so that they meet.
func random(r *rand.Rand) op {
	name := func() string {
		n := string(rune('a' + r.IntN(4)))
		if r.IntN(3) == 0 {
			n += "/" + string(rune('a'+r.IntN(4)))
		}
		return n
	}
	sizes := []int64{0, 1, 100, 4096, 16 << 10, 16<<10 + 1, 70_000, 300_000}
	return op{kind: r.IntN(14), a: name(), b: name(), off: sizes[r.IntN(len(sizes))], n: sizes[r.IntN(len(sizes))], fill: byte(r.Uint32()), mode: byte(r.Uint32())}
}

// tree gives every name below dir with what it is and holds.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			out[rel] = "-> " + target
			return err
		case d.Type().IsRegular():
			p, err := os.ReadFile(name)
			out[rel] = string(p)
			return err
		}
		out[rel] = d.Type().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Random operations on a mount answer as they do on the machine's own file system, whether they
// come at one site or at two in turn, and leave the same tree. SPOKEFS_SEED replays one
// seed, SPOKEFS_SEEDS runs that many.
func TestFUSERandomAgainstLocal(t *testing.T) {
	s := local(t)
	other, err := s.Join(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	mounts := []string{mount(t, s.Spoke), mount(t, other)}
	first, last := uint64(1), uint64(6)
	if n, err := strconv.ParseUint(os.Getenv("SPOKEFS_SEED"), 10, 64); err == nil {
		first, last = n, n
	} else if n, err := strconv.ParseUint(os.Getenv("SPOKEFS_SEEDS"), 10, 64); err == nil {
		last = n
	}
	for seed := first; seed <= last; seed++ {
		for sites := 1; sites <= 2; sites++ {
			t.Run(fmt.Sprintf("seed=%d sites=%d", seed, sites), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, uint64(sites)))
				sub := fmt.Sprintf("r%d-%d", seed, sites)
				oracle := t.TempDir()
				if err := os.Mkdir(filepath.Join(mounts[0], sub), 0o755); err != nil {
					t.Fatal(err)
				}
				for i := range 300 {
					o := random(r)
					at := mounts[r.IntN(sites)]
					want, wantData := o.do(oracle)
					got, data := o.do(filepath.Join(at, sub))
					if got != want || !bytes.Equal(data, wantData) {
						t.Fatalf("step %d, %v at %s: %v with %d bytes, the local file system says %v with %d (%.80q, %.80q)",
							i, o, filepath.Base(at), got, len(data), want, len(wantData), data, wantData)
					}
				}
				want := tree(t, oracle)
				for _, m := range mounts {
					got := tree(t, filepath.Join(m, sub))
					for name := range want {
						if got[name] != want[name] {
							t.Errorf("%s differs at %s", name, m)
						}
					}
					if len(got) != len(want) {
						t.Errorf("%d names, want %d", len(got), len(want))
					}
				}
			})
		}
	}
}
