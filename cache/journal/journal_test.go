package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage/disk"
)

func open(t *testing.T, path string, cfg Config) (*Journal, error) {
	t.Helper()
	d, err := disk.OS(path)
	if err != nil {
		t.Fatal(err)
	}
	return Open(cfg, d, "node")
}

// fill writes n records of two files and closes the journal.
func fill(t *testing.T, path string, n int) {
	t.Helper()
	j, err := open(t, path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		p := data(i)
		if _, _, err := j.Append(Record{Type: Write, Ino: fabric.Ino(2 + i%2), Base: 1, Off: int64(i), Len: int64(len(p))}, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(j.Sync(), j.Close()); err != nil {
		t.Fatal(err)
	}
}

func data(i int) []byte { return bytes.Repeat([]byte{byte(i), 0xa5}, 50+i*7) }

// replayed opens a journal and gives its records; each one's data is checked.
func replayed(t *testing.T, path string) ([]Record, error) {
	t.Helper()
	j, err := open(t, path, Config{})
	if err != nil {
		return nil, err
	}
	defer j.Close()
	var out []Record
	err = j.Replay(func(r Record, p Place) error {
		got := make([]byte, r.Len)
		if err := j.ReadAt(p, got, 0); err != nil || r.Type == Write && !bytes.Equal(got, data(int(r.Off))) {
			t.Errorf("record %d has other data: %v", r.Seq, err)
		}
		out = append(out, r)
		return nil
	})
	return out, err
}

func segments(t *testing.T, path string) []string {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(path, "*"+suffix))
	if err != nil || len(m) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	return m
}

func TestEveryTornTailIsCutOff(t *testing.T) {
	path := t.TempDir()
	fill(t, path, 6)
	file := segments(t, path)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(whole); cut += 13 {
		if err := os.WriteFile(file, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		rs, err := replayed(t, path)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		for i, r := range rs {
			if r.Seq != uint64(i+1) {
				t.Fatalf("cut at %d: record %d has seq %d", cut, i, r.Seq)
			}
		}
	}
}

// A flip in the middle is damage to what was acknowledged: an error, never other data (D51).
func TestAFlipIsNeverOtherData(t *testing.T) {
	path := t.TempDir()
	fill(t, path, 6)
	file := segments(t, path)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 11 {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x10
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		rs, err := replayed(t, path)
		if err == nil && len(rs) == 6 {
			t.Errorf("a flip at %d was not noticed", at)
		}
	}
}

func TestZerosAndOthersAreRefused(t *testing.T) {
	path := t.TempDir()
	fill(t, path, 3)
	file := segments(t, path)[0]
	if err := os.Truncate(file, 1<<20); err != nil { // a tail of zeros, as some file systems leave
		t.Fatal(err)
	}
	if rs, err := replayed(t, path); err != nil || len(rs) != 3 {
		t.Errorf("with a tail of zeros: %d records, %v", len(rs), err)
	}
	d, _ := disk.OS(path)
	if _, err := Open(Config{}, d, "another"); !errors.Is(err, ErrForeign) {
		t.Errorf("another node's journal: %v", err)
	}
}

func TestPublishedIsNotReplayed(t *testing.T) {
	path := t.TempDir()
	fill(t, path, 4) // seqs 1 and 3 are of inode 2
	j, err := open(t, path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Replay(func(Record, Place) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.Append(Record{Type: Published, Ino: 2, Base: 9, Seq: 1}, nil); err != nil {
		t.Fatal(err)
	}
	j.Close()
	rs, err := replayed(t, path)
	if err != nil || len(rs) != 3 || rs[0].Seq != 2 || rs[0].Base != 1 || rs[1].Seq != 3 || rs[1].Base != 9 {
		t.Errorf("replayed %+v, %v", rs, err)
	}
}

func TestQuotaAndSpace(t *testing.T) {
	path := t.TempDir()
	j, err := open(t, path, Config{Quota: 10_000, Segment: 2000})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var places []Place
	p := make([]byte, 900)
	for {
		place, _, err := j.Append(Record{Type: Write, Ino: 2, Len: 900}, p)
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place)
	}
	if live, quota := j.Live(); live > quota || len(places) != 10 {
		t.Errorf("%d records, %d of %d bytes", len(places), live, quota)
	}
	for _, place := range places {
		j.Done(place)
	}
	if live, _ := j.Live(); live != 0 || len(segments(t, path)) != 1 {
		t.Errorf("all done: %d bytes live in %d segments", live, len(segments(t, path)))
	}
	if _, _, err := j.Append(Record{Type: Write, Ino: 2, Len: 900}, p); err != nil {
		t.Errorf("space did not come back: %v", err)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("allocations are counted without the race detector, which the short run has")
	}
	j, err := open(t, t.TempDir(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	p := make([]byte, 4096)
	if n := testing.AllocsPerRun(200, func() { j.Append(Record{Type: Write, Ino: 2, Len: 4096}, p) }); n > 0 {
		t.Errorf("%v allocations a record", n)
	}
}

func FuzzDecodeHead(f *testing.F) {
	var p [headLen]byte
	encodeHead(p[:], &Record{Type: Write, Ino: 2, Len: 5, Seq: 1}, 7)
	f.Add(p[:])
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) < headLen {
			return
		}
		r, sum, ok := decodeHead(p[:headLen])
		if !ok {
			return
		}
		var q [headLen]byte
		encodeHead(q[:], &r, sum)
		if again, _, ok := decodeHead(q[:]); !ok || again != r {
			t.Fatalf("%+v becomes %+v", r, again)
		}
	})
}
