package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spokefs/spokefs/storage/disk"
	"github.com/spokefs/spokefs/storage/storagetest"
)

func TestDir(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) disk.Dir{
		"OS":     func(t *testing.T) disk.Dir { d, _ := open(t); return d },
		"Mem":    func(*testing.T) disk.Dir { return disk.NewMem() },
		"Faulty": func(*testing.T) disk.Dir { return disk.Faulty(disk.NewMem(), new(disk.Full).Plan) },
	} {
		t.Run(name, func(t *testing.T) { storagetest.Dir(t, open) })
	}
}

func open(t *testing.T) (disk.Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := disk.OS(path)
	if err != nil {
		t.Fatal(err)
	}
	return d, path
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
		for _, m := range []disk.Mode{disk.ReadOnly, disk.ReadWrite, disk.Create} {
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
