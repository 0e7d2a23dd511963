package journal

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/spokefs/spokefs/storage/disk"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// goldenRecords are one record of each type.
var goldenRecords = []struct {
	rec  Record
	data string
}{
	{Record{Type: Write, Ino: 0x1122334455667788, Base: 9, Off: 4096, Len: 11, Seq: 1, At: 1_700_000_000_000_000_001}, "hello world"},
	{Record{Type: Truncate, Ino: 3, Base: 10, Off: 5, Seq: 2, At: 2}, ""},
	{Record{Type: Punch, Ino: 3, Base: 10, Off: 1, Len: 3, Seq: 3, At: 3}, ""},
	{Record{Type: Published, Ino: 3, Base: 11, Seq: 3}, ""},
	{Record{Type: Write, Ino: 3, Base: 11, Off: 0, Len: 3, Seq: 4, At: 4}, "abc"},
}

// TestGolden holds docs/formats/journal.md: a journal that exists must stay readable, and what is
// written must be what the page says.
func TestGolden(t *testing.T) {
	const name = "testdata/segment-v1.golden"
	d := disk.NewMem()
	j, err := Open(Config{}, d, "node")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range goldenRecords {
		r := g.rec
		if r.Type != Published {
			r.Seq = 0 // Append sets it
		}
		if _, _, err := j.Append(r, []byte(g.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got := content(t, d, segmentName(1))
	if *rewrite {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if the format changed on purpose, it needs a new version:\n%x", name, got)
	}
	readGolden(t, want)
}

// readGolden reads the file as a journal of an earlier run.
func readGolden(t *testing.T, segment []byte) {
	d := disk.NewMem()
	f, err := d.Open(segmentName(1), disk.Create)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(segment, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	j, err := Open(Config{}, d, "node")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if len(j.old) != len(goldenRecords) {
		t.Fatalf("%d records", len(j.old))
	}
	for i, g := range goldenRecords {
		p := make([]byte, len(g.data))
		if err := j.ReadAt(j.old[i].place, p, 0); err != nil || j.old[i].rec != g.rec || string(p) != g.data {
			t.Errorf("record %d is %+v with %q, %v", i, j.old[i].rec, p, err)
		}
	}
}

// content reads a file whole.
func content(t *testing.T, d disk.Dir, name string) []byte {
	t.Helper()
	f, err := d.Open(name, disk.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, n)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	return p
}
