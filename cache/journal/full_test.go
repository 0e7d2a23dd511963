package journal

import (
	"errors"
	"testing"

	"github.com/spokefs/spokefs/storage/disk"
)

// folder gives the embedded interface a field name that does not hide its method Dir.
type folder = disk.Dir

// filling is a folder on a disk that is full while on: a write of more than 200 bytes writes half.
type filling struct {
	folder
	on *bool
}

type fillingFile struct {
	disk.File
	on *bool
}

func (d filling) Open(n string, m disk.Mode) (disk.File, error) {
	f, err := d.folder.Open(n, m)
	return fillingFile{f, d.on}, err
}
func (f fillingFile) WriteAt(p []byte, off int64) (int, error) {
	if *f.on && len(p) > 200 {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, disk.ErrNoSpace
	}
	return f.File.WriteAt(p, off)
}

func openFilling(t *testing.T, path string, on *bool, cfg Config) (*Journal, error) {
	d, err := disk.OS(path)
	if err != nil {
		t.Fatal(err)
	}
	return Open(cfg, filling{d, on}, "node")
}

// A write that a full disk cut short does not spoil what was acknowledged before and after it.
func TestFullDiskLeavesASoundJournal(t *testing.T) {
	path, on := t.TempDir(), false
	j, _ := openFilling(t, path, &on, Config{Segment: 4000})
	w := func(n int) error {
		_, _, err := j.Append(Record{Type: Write, Ino: 2, Len: int64(n)}, make([]byte, n))
		return err
	}
	if err := w(1000); err != nil {
		t.Fatal(err)
	}
	on = true
	if err := w(1500); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	on = false
	if err := w(3500); err != nil { // does not fit: rolls
		t.Fatal(err)
	}
	j.Sync()
	j.Close()
	_, err := openFilling(t, path, &on, Config{Segment: 4000})
	if err != nil {
		t.Errorf("all acknowledged records are whole, yet the journal is refused: %v", err)
	}
}

// A number that was published is never given out again, whatever segments have gone.
func TestNumbersDoNotComeAgain(t *testing.T) {
	path, on := t.TempDir(), false
	cfg := Config{Segment: 4000}
	j, _ := openFilling(t, path, &on, cfg)
	var ps []Place
	var last uint64
	for range 3 {
		p, s, err := j.Append(Record{Type: Write, Ino: 2, Len: 1000}, make([]byte, 1000))
		if err != nil {
			t.Fatal(err)
		}
		ps, last = append(ps, p), s
	}
	on = true // the disk fills: the new segment is made, its first write is not
	if _, _, err := j.Append(Record{Type: Write, Ino: 2, Len: 1000}, make([]byte, 1000)); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	on = false
	if _, _, err := j.Append(Record{Type: Published, Ino: 2, Base: 7, Seq: last}, nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		j.Done(p)
	}
	j.Sync()
	j.Close()
	j, err := openFilling(t, path, &on, cfg) // clean restart
	if err != nil {
		t.Fatal(err)
	}
	j.Replay(func(Record, Place) error { return nil })
	_, s, err := j.Append(Record{Type: Write, Ino: 2, Base: 7, Len: 1000}, make([]byte, 1000))
	if err != nil {
		t.Fatal(err)
	}
	if s <= last {
		t.Errorf("number %d came again: %d was published", s, last)
	}
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	j.Close()
	j, err = openFilling(t, path, &on, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	j.Replay(func(Record, Place) error { n++; return nil })
	if n != 1 {
		t.Errorf("%d records replayed; one synced write was appended and not published", n)
	}
}
