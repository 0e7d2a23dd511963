package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage/disk"
)

// found is a record of an earlier run.
type found struct {
	rec   Record
	place Place
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
