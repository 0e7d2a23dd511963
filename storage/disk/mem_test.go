package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spokefs/spokefs/storage/disk"
)

// seeds are those that a test goes through; SPOKEFS_SEED replays one.
func seeds(n uint64) (from, to uint64) {
	if s, err := strconv.ParseUint(os.Getenv("SPOKEFS_SEED"), 10, 64); err == nil {
		return s, s + 1
	}
	return 1, n + 1
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// read gives a file, or ok is false if there is none.
func read(t *testing.T, d disk.Dir, name string) (p []byte, ok bool) {
	t.Helper()
	f, err := d.Open(name, disk.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	p = make([]byte, n)
	if n > 0 {
		if _, err := f.ReadAt(p, 0); err != nil {
			t.Fatal(err)
		}
	}
	return p, true
}

// Of a file's bytes a power loss leaves what was synced, and of what came after any part.
func TestCrashKeepsWhatIsSynced(t *testing.T) {
	from, to := seeds(200)
	older, newer, between := 0, 0, 0
	for seed := from; seed < to; seed++ {
		r := rng(seed)
		m := disk.NewMem()
		f, err := m.Open("x", disk.Create)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Sync(); err != nil {
			t.Fatal(err)
		}
		var synced []byte
		for range 1 + r.IntN(30) {
			switch r.IntN(6) {
			case 0:
				err = f.Sync()
				synced, _ = read(t, m, "x")
			case 1:
				err = f.Truncate(int64(r.IntN(5000)))
			case 2:
				err = f.Punch(int64(r.IntN(5000)), 700)
			default:
				p := bytes.Repeat([]byte{byte(1 + r.IntN(255))}, 1+r.IntN(2000))
				_, err = f.WriteAt(p, int64(r.IntN(4000)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		now, _ := read(t, m, "x")
		if got, _ := read(t, m.Crash(nil, 0), "x"); !bytes.Equal(got, synced) {
			t.Fatalf("seed %d: with no luck it is not what was synced", seed)
		}
		if got, _ := read(t, m.Crash(r, 100), "x"); !bytes.Equal(got, now) {
			t.Fatalf("seed %d: with all luck it is not what it was", seed)
		}
		c := m.Crash(r, 50)
		got, _ := read(t, c, "x")
		if len(got) < min(len(synced), len(now)) || len(got) > max(len(synced), len(now)) {
			t.Fatalf("seed %d: %d bytes, synced %d, written %d", seed, len(got), len(synced), len(now))
		}
		for at := 0; at < len(got); at += 512 {
			sector := got[at:min(at+512, len(got))]
			switch {
			case prefix(synced, at, sector) && !prefix(now, at, sector):
				older++
			case prefix(now, at, sector):
				newer++
			default:
				t.Fatalf("seed %d: the sector at %d is neither what was synced nor what was written", seed, at)
			}
		}
		if len(got) != len(synced) && len(got) != len(now) {
			between++
		}
		if again, _ := read(t, c.Crash(nil, 0), "x"); !bytes.Equal(again, got) {
			t.Fatalf("seed %d: what a crash left is not durable", seed)
		}
	}
	if from+1 < to && (older == 0 || newer == 0 || between == 0) {
		t.Errorf("no chance in it: %d old sectors, %d new ones, %d sizes between", older, newer, between)
	}
}

// prefix says whether sector is what p has at at, with zeros behind its end.
func prefix(p []byte, at int, sector []byte) bool {
	want := make([]byte, len(sector))
	if at < len(p) {
		copy(want, p[at:])
	}
	return bytes.Equal(sector, want)
}

// A file that was there at the last Sync of its directory, and was only renamed, is there after a power
// loss under one of its names; what was synced under no name is nowhere for sure.
func TestCrashOfNames(t *testing.T) {
	from, to := seeds(200)
	outcomes := map[string]bool{}
	for seed := from; seed < to; seed++ {
		m := disk.NewMem()
		sub, err := m.Dir("sub")
		if err != nil {
			t.Fatal(err)
		}
		write(t, sub, "old", "content")
		if err := sub.Sync(); err != nil {
			t.Fatal(err)
		}
		write(t, sub, "gone", "x")
		if err := errors.Join(sub.Rename("old", "mid"), sub.Rename("mid", "new"), sub.Remove("gone")); err != nil {
			t.Fatal(err)
		}
		c, err := m.Crash(rng(seed), 50).Dir("sub")
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.List()
		if err != nil {
			t.Fatal(err)
		}
		names, whole := "", 0
		for _, e := range list {
			if names += e.Name + " "; e.Name == "gone" {
				continue
			}
			if p, _ := read(t, c, e.Name); string(p) == "content" {
				whole++
			}
		}
		if whole == 0 {
			t.Errorf("seed %d: the file is lost: %s", seed, names)
		}
		outcomes[names] = true
	}
	if from+1 < to && len(outcomes) < 4 {
		t.Errorf("no chance in it: %v", outcomes)
	}
}

func write(t *testing.T, d disk.Dir, name, body string) {
	t.Helper()
	f, err := d.Open(name, disk.CreateNew)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(body), 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// One seed gives one state: a failure can be replayed.
func TestCrashIsReplayed(t *testing.T) {
	m := disk.NewMem()
	for i := range 20 {
		f, err := m.Open(fmt.Sprint("f", i), disk.Create)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(bytes.Repeat([]byte{byte(i)}, 3000), 0); err != nil {
			t.Fatal(err)
		}
	}
	state := func(seed uint64) string {
		c := m.Crash(rng(seed), 50)
		list, err := c.List()
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, e := range list {
			p, _ := read(t, c, e.Name)
			out += fmt.Sprintf("%s %x\n", e.Name, p)
		}
		return out
	}
	first, again, other := state(7), state(7), state(8)
	if first != again || first == other {
		t.Error("a crash does not follow its seed")
	}
}

// A link is the same file under both names, before a power loss and after.
func TestCrashKeepsLinks(t *testing.T) {
	m := disk.NewMem()
	write(t, m, "a", "one")
	if err := errors.Join(m.Link("a", "b"), m.Sync()); err != nil {
		t.Fatal(err)
	}
	c := m.Crash(nil, 0)
	f, err := c.Open("a", disk.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("two"), 0); err != nil {
		t.Fatal(err)
	}
	if p, _ := read(t, c, "b"); string(p) != "two" {
		t.Errorf("the other name has %q", p)
	}
	if p, _ := read(t, m, "b"); string(p) != "one" {
		t.Errorf("the disk before the crash has %q", p)
	}
}

// A plan's error is what the caller gets, once, and nothing was done.
func TestFaultyFailsTheNthChange(t *testing.T) {
	m := disk.NewMem()
	d := disk.Faulty(m, disk.Nth(3, unix.EIO))
	f, err := d.Open("x", disk.Create) // 1
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		f.Size()
		d.Stat("x")
		_, err := f.WriteAt([]byte("ab"), int64(2*i)) // 2, 3, …
		if (i == 1) != errors.Is(err, unix.EIO) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if p, _ := read(t, m, "x"); string(p) != "ab\x00\x00ababab" {
		t.Errorf("the file has %q", p)
	}
}

// A full disk takes half of a write, refuses names, and gives what it has.
func TestFaultyFull(t *testing.T) {
	var full disk.Full
	m := disk.NewMem()
	d := disk.Faulty(m, full.Plan)
	f, err := d.Open("x", disk.Create)
	if err != nil {
		t.Fatal(err)
	}
	full.Set(true)
	n, err := f.WriteAt([]byte("abcd"), 0)
	if n != 2 || !errors.Is(err, disk.ErrNoSpace) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write: %d, %v", n, err)
	}
	sub := func() error { _, err := d.Dir("sub"); return err }
	for what, err := range map[string]error{"grow": f.Truncate(10), "link": d.Link("x", "y"), "rename": d.Rename("x", "y"), "dir": sub()} {
		if !errors.Is(err, disk.ErrNoSpace) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(f.Truncate(1), f.Sync(), d.Sync()); err != nil {
		t.Errorf("what needs no room: %v", err)
	}
	full.Set(false)
	if _, err := f.WriteAt([]byte("xyz"), 1); err != nil || sub() != nil {
		t.Errorf("with room again: %v", err)
	}
	if p, _ := read(t, m, "x"); string(p) != "axyz" {
		t.Errorf("the file has %q", p)
	}
}

// Pebble's door fails by the same plan.
func TestFaultyVFS(t *testing.T) {
	var full disk.Full
	fs, path := disk.Faulty(disk.NewMem(), full.Plan).VFS()
	f, err := fs.Create(fs.PathJoin(path, "x"), "")
	if err != nil {
		t.Fatal(err)
	}
	full.Set(true)
	if _, err := f.Write([]byte("abc")); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write: %v", err)
	}
	full.Set(false)
	if _, err := f.Write([]byte("abc")); err != nil {
		t.Error(err)
	}
}
