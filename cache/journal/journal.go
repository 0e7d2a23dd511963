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
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage/disk"
)

// Type is the kind of a record. Values are part of the format.
type Type uint8

// The types. 16 to 31 are reserved for names (A26).
const (
	Write     Type = 1 // Len bytes at Off
	Truncate  Type = 2 // the size is Off
	Punch     Type = 3 // Len bytes at Off are a hole
	Published Type = 4 // what this file has up to Seq is at the hub, whose version of it is Base
)

// Record is what is known of one write beside its data.
type Record struct {
	Type Type
	Ino  fabric.Ino
	Base uint64 // the inode's iver when W was taken, or after the last publish
	Off  int64
	Len  int64
	Seq  uint64      // grows with each record of the journal; set by Append, but for Published
	At   fabric.Time // the file's mtime after it
}

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

// Form of a record's head, little endian: magic 4, version 1, type 1, reserved 2, ino 8, base 8,
// off 8, len 8, seq 8, at 8, reserved for an HMAC 16, CRC32C of the data 4, CRC32C of the head 4.
const (
	headLen = 84
	magic   = 0x4c4a4b53 // "SKJL"
	// MaxData bounds the data of one record, in bytes.
	MaxData = 4 << 20
	suffix  = ".journal"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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

type found struct {
	rec   Record
	place Place
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

// own reads the owner's name, or writes it.
func (j *Journal) own(owner string) error {
	f, err := j.dir.Open("OWNER", disk.Create)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size == 0 {
		if _, err := f.WriteAt([]byte(owner), 0); err != nil {
			return err
		}
		return errors.Join(f.Sync(), j.dir.Sync())
	}
	p := make([]byte, min(size, 1024))
	if _, err := f.ReadAt(p, 0); err != nil {
		return err
	}
	if string(p) != owner {
		return fmt.Errorf("%w: it is %q's, this is %q", ErrForeign, p, owner)
	}
	return nil
}

// load reads the records of earlier runs. A record that does not check ends its segment: after
// a crash the tail of the last one may be torn. In an older one that is damage, and an error,
// since what follows it was acknowledged.
func (j *Journal) load() error {
	entries, err := j.dir.List()
	if err != nil {
		return err
	}
	for _, e := range entries {
		hex, ok := strings.CutSuffix(e.Name, suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			return fmt.Errorf("%q is not a segment's name", e.Name)
		}
		f, err := j.dir.Open(e.Name, disk.ReadWrite)
		if err != nil {
			return err
		}
		j.segments = append(j.segments, &segment{number: n, file: f})
	}
	slices.SortFunc(j.segments, func(a, b *segment) int { return int(int64(a.number) - int64(b.number)) })
	for i, s := range j.segments {
		if i > 0 && s.number != j.segments[i-1].number+1 {
			return fmt.Errorf("segment %s is missing: records between are lost", segmentName(j.segments[i-1].number+1))
		}
		if err := j.read(s, i == len(j.segments)-1); err != nil {
			return fmt.Errorf("%s: %w", segmentName(s.number), err)
		}
	}
	return nil
}

// read reads one segment's records and cuts off a torn tail.
func (j *Journal) read(s *segment, last bool) error {
	size, err := s.file.Size()
	if err != nil {
		return err
	}
	data := make([]byte, MaxData)
	for s.size < size {
		rec, n, ok, err := j.decode(s, size, data)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if rec.Type != Published && rec.Seq <= j.seq {
			return fmt.Errorf("record %d at %d comes twice or out of order", rec.Seq, s.size)
		}
		// A Published too: the records it speaks of may be gone, and their numbers must not come again.
		j.seq = max(j.seq, rec.Seq)
		j.old = append(j.old, found{rec, Place{s.number, s.size, int32(n)}})
		s.size += n
		s.live += n
		j.live += n
	}
	if s.size == size {
		return nil
	}
	if !last {
		return fmt.Errorf("damaged at %d of %d bytes", s.size, size)
	}
	if sound, err := j.soundAfter(s, size); err != nil || sound {
		return errors.Join(err, fmt.Errorf("damaged at %d of %d bytes, with good records after it", s.size, size))
	}
	return errors.Join(s.file.Truncate(s.size), s.file.Sync())
}

// decode reads the record at s.size; ok is false if there is none that checks.
func (j *Journal) decode(s *segment, size int64, data []byte) (rec Record, n int64, ok bool, err error) {
	var head [headLen]byte
	if size-s.size < headLen {
		return rec, 0, false, nil
	}
	if _, err := s.file.ReadAt(head[:], s.size); err != nil {
		return rec, 0, false, err
	}
	rec, sum, ok := decodeHead(head[:])
	if !ok {
		return rec, 0, false, nil
	}
	length := dataLen(&rec)
	if size-s.size-headLen < length {
		return rec, 0, false, nil
	}
	if length > 0 {
		if _, err := s.file.ReadAt(data[:length], s.size+headLen); err != nil {
			return rec, 0, false, err
		}
	}
	if crc32.Checksum(data[:length], castagnoli) != sum {
		return rec, 0, false, nil
	}
	return rec, headLen + length, true, nil
}

// soundAfter says whether a record that checks begins anywhere after the place that did not: then
// it is not a torn tail.
func (j *Journal) soundAfter(s *segment, size int64) (bool, error) {
	const window = 1 << 20
	buf := make([]byte, window+headLen)
	for at := s.size + 1; at+headLen <= size; at += window {
		n := min(int64(len(buf)), size-at)
		if _, err := s.file.ReadAt(buf[:n], at); err != nil {
			return false, err
		}
		for i := int64(0); i < window && i+headLen <= n; i++ {
			if binary.LittleEndian.Uint32(buf[i:]) != magic {
				continue
			}
			if rec, _, ok := decodeHead(buf[i : i+headLen]); ok && rec.Seq > j.seq {
				return true, nil
			}
		}
	}
	return false, nil
}

func dataLen(r *Record) int64 {
	if r.Type == Write {
		return r.Len
	}
	return 0
}

func encodeHead(p []byte, r *Record, sum uint32) {
	le := binary.LittleEndian
	clear(p)
	le.PutUint32(p, magic)
	p[4], p[5] = 1, byte(r.Type)
	le.PutUint64(p[8:], uint64(r.Ino))
	le.PutUint64(p[16:], r.Base)
	le.PutUint64(p[24:], uint64(r.Off))
	le.PutUint64(p[32:], uint64(r.Len))
	le.PutUint64(p[40:], r.Seq)
	le.PutUint64(p[48:], uint64(r.At))
	le.PutUint32(p[72:], sum)
	le.PutUint32(p[headLen-4:], crc32.Checksum(p[:headLen-4], castagnoli))
}

func decodeHead(p []byte) (r Record, sum uint32, ok bool) {
	le := binary.LittleEndian
	if le.Uint32(p) != magic || p[4] != 1 || le.Uint32(p[headLen-4:]) != crc32.Checksum(p[:headLen-4], castagnoli) {
		return r, 0, false
	}
	r = Record{
		Type: Type(p[5]), Ino: fabric.Ino(le.Uint64(p[8:])), Base: le.Uint64(p[16:]),
		Off: int64(le.Uint64(p[24:])), Len: int64(le.Uint64(p[32:])), Seq: le.Uint64(p[40:]), At: fabric.Time(le.Uint64(p[48:])),
	}
	ok = r.Type >= Write && r.Type <= Published && r.Off >= 0 && r.Len >= 0 && (r.Type != Write || r.Len <= MaxData)
	return r, le.Uint32(p[72:]), ok
}

// Replay gives the records of earlier runs that are not known to be at the hub, in order, and
// forgets the rest. Call it once, before the first Append of a run that has any.
func (j *Journal) Replay(yield func(r Record, p Place) error) error {
	j.mu.Lock()
	old := j.old
	j.old = nil
	j.mu.Unlock()
	type state struct{ seq, base uint64 }
	published := map[fabric.Ino]state{}
	for _, f := range old {
		if f.rec.Type == Published {
			p := published[f.rec.Ino]
			published[f.rec.Ino] = state{max(p.seq, f.rec.Seq), max(p.base, f.rec.Base)}
		}
	}
	for _, f := range old {
		p, ok := published[f.rec.Ino]
		if f.rec.Type == Published || ok && f.rec.Seq <= p.seq {
			j.Done(f.place)
			continue
		}
		if ok {
			f.rec.Base = max(f.rec.Base, p.base)
		}
		if err := yield(f.rec, f.place); err != nil {
			return err
		}
	}
	return nil
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
