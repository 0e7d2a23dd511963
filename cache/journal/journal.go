// Package journal keeps a node's writes to one namespace until the hub has them. A record is in
// the kernel's hands when Append returns, so it survives the process; Sync makes it survive the
// machine. Records are read back by their place: they are the dirty overlay of the files.
//
// It has its own files and its own quota, apart from the chunk cache: what is here exists nowhere
// else and is never evicted (A25 to A28).
//
// # On disk
//
// Records are appended to segment files (docs/formats/journal.md). A segment goes when all in it
// is done and no older one is left, so that the note "published" outlives what it speaks of.
//
// # Failure
//
// A failed write or fsync is final: the journal takes no more records, Append and Sync answer the
// error, and the node must stop (A28).
package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/spokefs/spokefs/storage/disk"
)

// Place is where a record's data is.
type Place struct {
	segment uint64
	off     int64
	size    int32 // of the whole record
}

// Config of a Journal. WithDefaults fills zero fields.
type Config struct {
	// Quota bounds the bytes of records not done. Default 4 GiB.
	Quota int64
	// Segment is the size at which a file is full. Default 64 MiB.
	Segment int64
}

// WithDefaults returns c with its zero fields filled.
func (c Config) WithDefaults() Config {
	if c.Quota == 0 {
		c.Quota = 4 << 30
	}
	if c.Segment == 0 {
		c.Segment = 64 << 20
	}
	return c
}

// ErrFull says that the quota is used up: wait for the flush, or give up (A25).
var ErrFull = errors.New("the journal is full")

// ErrForeign says that the folder is another node's journal, or another namespace's.
var ErrForeign = errors.New("the journal is another node's")

// segment is one file of records.
type segment struct {
	number uint64
	file   disk.File
	size   int64
	live   int64 // bytes of records not done
}

// Journal is the journal of one namespace at one node. Calls may overlap.
type Journal struct {
	cfg    Config
	dir    disk.Dir
	old    []found    // of earlier runs, until Replay
	syncMu sync.Mutex // one fsync at a time; taken before mu

	mu       sync.Mutex // guards what follows; held across the write of one record, which keeps them in order
	segments []*segment
	live     int64
	seq      uint64
	head     [headLen]byte
	failed   error
}

func segmentName(n uint64) string { return fmt.Sprintf("%016x%s", n, suffix) }

// Open opens the journal in dir, or makes it. owner names the node and the namespace; a journal
// made for another is ErrForeign, and left as it is.
func Open(cfg Config, dir disk.Dir, owner string) (*Journal, error) {
	j := &Journal{cfg: cfg.WithDefaults(), dir: dir}
	if err := j.own(owner); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := j.load(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j, nil
}

// Append writes a record; data has r.Len bytes if it is a Write. ErrFull changes nothing. The
// record's Seq and Place are returned. 0 allocations.
func (j *Journal) Append(r Record, data []byte) (Place, uint64, error) {
	n := int64(headLen + len(data))
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return Place{}, 0, j.failed
	}
	if j.live+n > j.cfg.Quota && r.Type != Published {
		return Place{}, 0, ErrFull
	}
	s, err := j.room(n)
	if err != nil {
		return Place{}, 0, err
	}
	if r.Type != Published {
		r.Seq = j.seq + 1
	}
	encodeHead(j.head[:], &r, crc32.Checksum(data, castagnoli))
	_, err = s.file.WriteAt(j.head[:], s.size)
	if err == nil && len(data) > 0 {
		_, err = s.file.WriteAt(data, s.size+headLen)
	}
	if err != nil {
		if errors.Is(err, disk.ErrNoSpace) {
			// What was written of it goes: a segment that is not the last must end with a record.
			if cut := s.file.Truncate(s.size); cut != nil {
				j.failed = fmt.Errorf("journal: %w", errors.Join(err, cut))
				return Place{}, 0, j.failed
			}
			return Place{}, 0, fmt.Errorf("%w: %w", ErrFull, err)
		}
		j.failed = fmt.Errorf("journal: %w", err)
		return Place{}, 0, j.failed
	}
	j.seq = max(j.seq, r.Seq)
	p := Place{s.number, s.size, int32(n)}
	s.size += n
	if r.Type != Published {
		s.live += n
		j.live += n
	}
	return p, r.Seq, nil
}

// room gives the segment to append to; mu is held.
func (j *Journal) room(n int64) (*segment, error) {
	if len(j.segments) > 0 {
		if s := j.segments[len(j.segments)-1]; s.size+n <= j.cfg.Segment || s.size == 0 {
			return s, nil
		}
	}
	number := uint64(1)
	if len(j.segments) > 0 {
		last := j.segments[len(j.segments)-1]
		if err := last.file.Sync(); err != nil { // Sync has only the newest to care for
			j.failed = fmt.Errorf("journal: fsync: %w", err)
			return nil, j.failed
		}
		number = last.number + 1
	}
	f, err := j.dir.Open(segmentName(number), disk.CreateNew)
	if errors.Is(err, disk.ErrNoSpace) {
		return nil, fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err == nil {
		err = j.dir.Sync()
	}
	if err != nil {
		j.failed = fmt.Errorf("journal: %w", err)
		return nil, j.failed
	}
	s := &segment{number: number, file: f}
	j.segments = append(j.segments, s)
	return s, nil
}

// ReadAt reads the data of a Write record, from offset off of it.
func (j *Journal) ReadAt(p Place, dst []byte, off int64) error {
	j.mu.Lock()
	var f disk.File
	if i := int(p.segment - j.first()); i >= 0 && i < len(j.segments) {
		f = j.segments[i].file
	}
	j.mu.Unlock()
	if f == nil || off+int64(len(dst)) > int64(p.size)-headLen {
		return fmt.Errorf("journal: no such record")
	}
	_, err := f.ReadAt(dst, p.off+headLen+off)
	return err
}

func (j *Journal) first() uint64 {
	if len(j.segments) == 0 {
		return 0
	}
	return j.segments[0].number
}

// Done says that a record is at the hub, or is not wanted: its space is free.
func (j *Journal) Done(p Place) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := int(p.segment - j.first())
	if i < 0 || i >= len(j.segments) {
		return
	}
	j.segments[i].live -= int64(p.size)
	j.live -= int64(p.size)
	for len(j.segments) > 1 && j.segments[0].live <= 0 {
		s := j.segments[0]
		s.file.Close()
		if err := j.dir.Remove(segmentName(s.number)); err != nil {
			return // it is found again, and done again, after a restart
		}
		j.segments = j.segments[1:]
	}
}

// Sync makes all records appended before the call durable. One fsync serves all who wait.
func (j *Journal) Sync() error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	err := j.failed
	var f disk.File
	if len(j.segments) > 0 {
		f = j.segments[len(j.segments)-1].file
	}
	j.mu.Unlock()
	if err != nil || f == nil {
		return err
	}
	if err := f.Sync(); err != nil {
		j.mu.Lock()
		j.failed = fmt.Errorf("journal: fsync: %w", err)
		err = j.failed
		j.mu.Unlock()
		return err
	}
	return nil
}

// Live is the bytes of records not done, and the most there may be.
func (j *Journal) Live() (live, quota int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.live, j.cfg.Quota
}

// Close closes the files; records stay.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, s := range j.segments {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}
