package node

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spokefs/spokefs/e2e/harness"
)

// D58.
func TestClockThatCannotBeRight(t *testing.T) {
	for when, ok := range map[time.Time]bool{
		time.Unix(0, 0): false,
		time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC): true,
		time.Date(2106, 2, 7, 7, 0, 0, 0, time.UTC):  false,
		time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC): false,
	} {
		err := checkClock(when)
		if ok != (err == nil) {
			t.Errorf("%v: %v", when, err)
		}
		if err != nil && !strings.Contains(err.Error(), when.UTC().Format("2006-01-02")) {
			t.Errorf("%v: the error does not say what the clock says: %v", when, err)
		}
	}
}

// D59: what cannot be used is refused by name, and nothing is made in it.
func TestDataFolderThatCannotBeUsed(t *testing.T) {
	harness.Root(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	readonly := filepath.Join(dir, "readonly")
	if err := os.Mkdir(readonly, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", readonly, "tmpfs", unix.MS_RDONLY, "mode=0700"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(readonly, unix.MNT_DETACH)
	for path, want := range map[string]string{file: "not a directory", open: "chmod 700", readonly: "read-only file system"} {
		_, err := OpenSpoke(SpokeConfig{Data: path}, nil, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", path, err, want)
		}
	}
	if names, err := os.ReadDir(open); err != nil || len(names) > 0 {
		t.Errorf("the refused folder has %v, %v", names, err)
	}
}

// D59, D61: what works but should not be is said.
func TestWarnings(t *testing.T) {
	harness.Root(t)
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	said := func(want string) {
		t.Helper()
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has no %q: %s", want, &out)
		}
		out.Reset()
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := checkFolder(dir, log); err != nil || out.Len() > 0 {
		t.Errorf("a good folder: %v, %s", err, &out)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,uid=65534"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := checkFolder(dir, log); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "uid=65534") {
		t.Errorf("another owner is not named: %s", &out)
	}
	said("tmpfs")

	swaps := filepath.Join(t.TempDir(), "swaps")
	const titles = "Filename\tType\tSize\tUsed\tPriority\n"
	if err := os.WriteFile(swaps, []byte(titles), 0o600); err != nil {
		t.Fatal(err)
	}
	if warnSwap(swaps, log); out.Len() > 0 {
		t.Errorf("no swap: %s", &out)
	}
	if err := os.WriteFile(swaps, []byte(titles+"/dev/vda2 partition 1 0 -2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	warnSwap(swaps, log)
	said("areas=1")
}
