package storagetest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/spokefs/spokefs/storage/disk"
)

// Dir holds a disk.Dir to its contract, but for what a power loss leaves. open gives an empty one.
func Dir(t *testing.T, open func(t *testing.T) disk.Dir) {
	t.Run("names are plain", func(t *testing.T) { namesArePlain(t, open(t)) })
	t.Run("modes", func(t *testing.T) { modes(t, open(t)) })
	t.Run("bytes", func(t *testing.T) { bytesOf(t, open(t)) })
	t.Run("names", func(t *testing.T) { names(t, open(t)) })
	t.Run("directories", func(t *testing.T) { directories(t, open(t)) })
	t.Run("one holds a lock", func(t *testing.T) { locks(t, open(t)) })
}

func namesArePlain(t *testing.T, d disk.Dir) {
	put(t, d, "x", "")
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\x00b"} {
		for what, err := range map[string]error{
			"open":       second(d.Open(name, disk.Create)),
			"dir":        second(d.Dir(name)),
			"stat":       second(d.Stat(name)),
			"lock":       second(d.Lock(name)),
			"remove":     d.Remove(name),
			"remove all": d.RemoveAll(name),
			"rename":     d.Rename(name, "y"),
			"rename to":  d.Rename("x", name),
			"link":       d.Link(name, "y"),
			"link to":    d.Link("x", name),
		} {
			if !errors.Is(err, disk.ErrName) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func modes(t *testing.T, d disk.Dir) {
	for _, m := range []disk.Mode{disk.ReadOnly, disk.ReadWrite} {
		if _, err := d.Open("x", m); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("mode %d of a missing file: %v", m, err)
		}
	}
	put(t, d, "x", "abc")
	if _, err := d.Open("x", disk.CreateNew); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	if _, err := d.Dir("x"); err == nil {
		t.Error("a file opened as a directory")
	}
	if _, err := d.Dir("dir"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open("dir", disk.Create); err == nil {
		t.Error("a directory opened as a file")
	}
	f, err := d.Open("x", disk.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("z"), 0); err == nil {
		t.Error("a write of a file that was opened to be read")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read of a closed file: %v", err)
	}
	same(t, d, "x", "abc")
}

func bytesOf(t *testing.T, d disk.Dir) {
	f, err := d.Open("x", disk.CreateNew)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	steps := []struct {
		what string
		do   func() error
		want string
	}{
		{"write behind the end", func() error { return second(f.WriteAt([]byte("abc"), 2)) }, "\x00\x00abc"},
		{"write over", func() error { return second(f.WriteAt([]byte("XY"), 1)) }, "\x00XYbc"},
		{"cut", func() error { return f.Truncate(2) }, "\x00X"},
		{"grow", func() error { return f.Truncate(4) }, "\x00X\x00\x00"},
		{"write at the end", func() error { return second(f.WriteAt([]byte("qrs"), 3)) }, "\x00X\x00qrs"},
		{"sync", func() error { return errors.Join(f.Sync(), d.Sync()) }, "\x00X\x00qrs"},
		{"punch", func() error { return f.Punch(0, 4) }, "\x00\x00\x00\x00rs"},
		{"punch over the end", func() error { return f.Punch(5, 4096) }, "\x00\x00\x00\x00r\x00"},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		same(t, d, "x", s.want)
	}
	p := make([]byte, 10)
	if n, err := f.ReadAt(p, 4); n != 2 || err != io.EOF {
		t.Errorf("read over the end: %d, %v", n, err)
	}
	if n, err := f.ReadAt(p, 100); n != 0 || err != io.EOF {
		t.Errorf("read behind the end: %d, %v", n, err)
	}
}

func names(t *testing.T, d disk.Dir) {
	put(t, d, "a", "1")
	put(t, d, "b", "2")
	if err := d.Link("a", "b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("link over a file: %v", err)
	}
	for _, err := range []error{d.Rename("no", "x"), d.Link("no", "x"), d.Remove("no"), second(d.Stat("no"))} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of a missing name: %v", err)
		}
	}
	if err := errors.Join(d.Link("a", "c"), d.Rename("b", "a"), d.RemoveAll("no")); err != nil {
		t.Fatal(err)
	}
	same(t, d, "a", "2")
	same(t, d, "c", "1")
	list, err := d.List()
	want := []disk.Info{{Name: "a", Size: 1, Plain: true}, {Name: "c", Size: 1, Plain: true}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("list is %+v, %v", list, err)
	}
	f, err := d.Open("c", disk.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := d.Remove("c"); err != nil {
		t.Fatal(err)
	}
	if p := make([]byte, 1); second(f.ReadAt(p, 0)) != nil || p[0] != '1' {
		t.Errorf("a removed file that is open has %q", p)
	}
}

func directories(t *testing.T, d disk.Dir) {
	sub, err := d.Dir("sub")
	if err != nil {
		t.Fatal(err)
	}
	put(t, sub, "x", "1")
	if err := d.Remove("sub"); err == nil {
		t.Error("a directory that has something was removed")
	}
	if sub, err = d.Dir("sub"); err != nil {
		t.Fatal(err)
	}
	same(t, sub, "x", "1")
	if st, err := d.Stat("sub"); err != nil || !st.IsDir || st.Plain {
		t.Errorf("it is %+v, %v", st, err)
	}
	if err := d.RemoveAll("sub"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Stat("sub"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed directory: %v", err)
	}
}

func locks(t *testing.T, d disk.Dir) {
	l, err := d.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock("lock"); !errors.Is(err, disk.ErrLocked) {
		t.Fatalf("locked twice: %v", err)
	}
	l.Close()
	if l, err = d.Lock("lock"); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// put makes a file with those bytes.
func put(t *testing.T, d disk.Dir, name, body string) {
	t.Helper()
	f, err := d.Open(name, disk.CreateNew)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(body), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// same compares a file with bytes.
func same(t *testing.T, d disk.Dir, name, want string) {
	t.Helper()
	f, err := d.Open(name, disk.ReadOnly)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	n, err := f.Size()
	p := make([]byte, n)
	if err == nil && n > 0 {
		_, err = f.ReadAt(p, 0)
	}
	if err != nil || !bytes.Equal(p, []byte(want)) {
		t.Errorf("%s is %q, want %q: %v", name, p, want, err)
	}
}
