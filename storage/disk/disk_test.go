package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) (Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := OS(path)
	if err != nil {
		t.Fatal(err)
	}
	return d, path
}

func TestNamesArePlain(t *testing.T) {
	d, _ := open(t)
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\x00b"} {
		if _, err := d.Open(name, Create); !errors.Is(err, ErrName) {
			t.Errorf("open %q: %v", name, err)
		}
		if _, err := d.Dir(name); !errors.Is(err, ErrName) {
			t.Errorf("dir %q: %v", name, err)
		}
		if err := d.RemoveAll(name); !errors.Is(err, ErrName) {
			t.Errorf("remove all %q: %v", name, err)
		}
	}
}

// What is not a regular file is refused, and nothing behind it is touched (D52).
func TestOpenTakesRegularFilesOnly(t *testing.T) {
	d, path := open(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(path, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(path, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dir("dir"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "fifo", "dir"} {
		for _, m := range []Mode{ReadOnly, ReadWrite, Create} {
			if f, err := d.Open(name, m); err == nil {
				f.Close()
				t.Errorf("%s opened with mode %d", name, m)
			}
		}
	}
	if p, _ := os.ReadFile(outside); string(p) != "keep" {
		t.Errorf("the file behind the link is %q", p)
	}
}

func TestModes(t *testing.T) {
	d, _ := open(t)
	for _, m := range []Mode{ReadOnly, ReadWrite} {
		if _, err := d.Open("x", m); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("mode %d of a missing file: %v", m, err)
		}
	}
	f, err := d.Open("x", CreateNew)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := d.Open("x", CreateNew); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	if _, err := f.WriteAt([]byte("abc"), 2); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), d.Sync(), d.Rename("x", "y")); err != nil {
		t.Fatal(err)
	}
	list, err := d.List()
	if err != nil || len(list) != 1 || list[0] != (Info{Name: "y", Size: 5, Plain: true}) {
		t.Fatalf("list is %+v, %v", list, err)
	}
}

func TestOneProcessHoldsALock(t *testing.T) {
	d, _ := open(t)
	l, err := d.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock("lock"); !errors.Is(err, ErrLocked) {
		t.Fatalf("locked twice: %v", err)
	}
	l.Close()
	if l, err = d.Lock("lock"); err != nil {
		t.Fatal(err)
	}
	l.Close()
}
