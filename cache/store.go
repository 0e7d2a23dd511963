package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/disk"
)

// Config of a Store. WithDefaults fills zero fields.
type Config struct {
	// Capacity bounds the bytes on disk. Default 10 GiB.
	Capacity int64
	// Segment is the size at which a segment file is full. Default 64 MiB, or a sixteenth of
	// Capacity if that is less: eviction goes by segments.
	Segment int64
	// Flights bounds the fetches under way that somebody waits for, and as many ahead of readers.
	// Default 64.
	Flights int
	// WarmQueue bounds the blobs waiting to be warmed; more are not taken. Default 16384.
	WarmQueue int
	// Batch is the most blobs that one fetch asks for. Default 256.
	Batch int
}

// WithDefaults returns c with its zero fields filled.
func (c Config) WithDefaults() Config {
	if c.Capacity == 0 {
		c.Capacity = 10 << 30
	}
	if c.Segment == 0 {
		c.Segment = max(min(64<<20, c.Capacity/16), 1<<20)
	}
	if c.Flights == 0 {
		c.Flights = 64
	}
	if c.WarmQueue == 0 {
		c.WarmQueue = 16384
	}
	if c.Batch == 0 {
		c.Batch = 256
	}
	return c
}

// Deps are what a Store stands on.
type Deps struct {
	Disk disk.Dir
	// Blobs is where missing blobs come from. SetBlobs changes it.
	Blobs storage.Blobs
	// Verify checks a blob against its name and gives its raw bytes, in dst if they fit.
	Verify func(b storage.Blob, dst []byte) ([]byte, error)
	Slog   *slog.Logger
}

// Stats counts what a Store did since it was opened.
type Stats struct {
	Hits, Misses, Late            int64 // blobs read: here, fetched, joined a flight
	HitBytes, FetchedRaw, Fetched int64 // bytes read from disk; fetched, uncompressed and as shipped
	Corrupt, Evicted, Unwritten   int64 // blobs
	Bytes, Limit                  int64 // on disk
	Warmed, WarmedUsed            int64 // blobs fetched before they were asked for; of them read
}

// Store is the chunk cache of one namespace at one node.
type Store struct {
	cfg  Config
	deps Deps

	mu       sync.Mutex // guards what follows
	blobs    storage.Blobs
	index    map[storage.Ref]*place
	segments []*segment // oldest first; the last is appended to
	bytes    int64
	flights  map[storage.Ref]*flight
	warmed   map[storage.Ref]struct{} // by warming, and not read yet
	full     bool                     // the disk was, at the last write

	stats   [12]atomic.Int64
	scratch sync.Pool
	warm    chan warming
	slots   chan struct{} // of fetches that somebody waits for
	ahead   chan struct{} // of others
	ctx     context.Context
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// Indexes into Store.stats.
const (
	nHits = iota
	nMisses
	nLate
	nHitBytes
	nFetchedRaw
	nFetched
	nCorrupt
	nEvicted
	nUnwritten
	nWarmed
	nWarmedUsed
)

// Open opens the cache in a folder, or makes it. What in it cannot be read is removed: it can be
// fetched again.
func Open(cfg Config, deps Deps) (*Store, error) {
	s := &Store{
		cfg: cfg.WithDefaults(), deps: deps, blobs: deps.Blobs,
		index: map[storage.Ref]*place{}, flights: map[storage.Ref]*flight{}, warmed: map[storage.Ref]struct{}{},
	}
	s.scratch.New = func() any { p := make([]byte, blockSize); return &p }
	s.warm = make(chan warming, s.cfg.WarmQueue)
	s.slots = make(chan struct{}, s.cfg.Flights)
	s.ahead = make(chan struct{}, s.cfg.Flights)
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.done.Go(s.warmer)
	return s, nil
}

// load finds the segments of earlier runs.
func (s *Store) load() error {
	entries, err := s.deps.Disk.List()
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, ok := segmentNumber(e.Name)
		if !ok {
			continue
		}
		seg := &segment{number: n, name: e.Name, refs: 1}
		if seg.file, err = s.deps.Disk.Open(e.Name, disk.ReadWrite); err == nil {
			err = seg.load(func(ref storage.Ref, p *place) { s.index[ref] = p })
		}
		if err == nil && seg.size == 0 {
			err = errors.Join(errNoRecord, seg.file.Close())
		}
		if err != nil {
			s.deps.Slog.Warn("cache: a segment cannot be read and is removed", "segment", e.Name, "err", err)
			if err := s.deps.Disk.RemoveAll(e.Name); err != nil {
				return err
			}
			continue
		}
		s.segments = append(s.segments, seg)
		s.bytes += seg.size
	}
	slices.SortFunc(s.segments, func(a, b *segment) int { return int(int64(a.number) - int64(b.number)) })
	return nil
}

// SetBlobs changes where missing blobs come from: a new session with the hub.
func (s *Store) SetBlobs(b storage.Blobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs = b
}

// find gives a blob's place with its segment held; release it.
func (s *Store) find(ref storage.Ref) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.index[ref]
	if p == nil {
		return nil
	}
	p.seg.refs++
	p.used = true
	if _, ok := s.warmed[ref]; ok {
		delete(s.warmed, ref)
		s.stats[nWarmedUsed].Add(1)
	}
	return p
}

func (s *Store) release(seg *segment) {
	s.mu.Lock()
	seg.refs--
	last := seg.refs == 0
	s.mu.Unlock()
	if last {
		seg.file.Close() // its file is removed already
	}
}

// Has says whether a blob is here.
func (s *Store) Has(ref storage.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index[ref] != nil
}

// ReadAt copies bytes of a blob from offset off on into p: len(p), or fewer at the blob's end. It
// fetches the blob if it is not here. Errors are those of storage.Blobs.
func (s *Store) ReadAt(ctx context.Context, ref storage.Ref, p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(ref.Len) {
		return 0, nil
	}
	p = p[:min(int64(len(p)), int64(ref.Len)-off)]
	if s.hit(ref, p, off) {
		return len(p), nil
	}
	f, started := s.join(ref, storage.Demand)
	if started {
		s.stats[nMisses].Add(1)
	} else {
		s.stats[nLate].Add(1)
	}
	raw, err := f.wait(ctx)
	if err != nil {
		return 0, err
	}
	return copy(p, raw[off:]), nil
}

// hit reads a blob that is here. A bad one is dropped, and is not.
func (s *Store) hit(ref storage.Ref, p []byte, off int64) bool {
	at := s.find(ref)
	if at == nil {
		return false
	}
	buf := s.scratch.Get().(*[]byte)
	err := at.readAt(p, off, ref.Len, *buf)
	s.scratch.Put(buf)
	s.release(at.seg)
	if err != nil {
		s.drop(ref, at, err)
		return false
	}
	s.stats[nHits].Add(1)
	s.stats[nHitBytes].Add(int64(len(p)))
	return true
}

// drop forgets a blob whose bytes are bad.
func (s *Store) drop(ref storage.Ref, at *place, err error) {
	s.stats[nCorrupt].Add(1)
	s.deps.Slog.Warn("cache: a bad blob is dropped", "blob", ref, "segment", at.seg.name, "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index[ref] == at {
		delete(s.index, ref)
	}
}

// Add takes a blob whose bytes are known to be right, such as one just uploaded.
func (s *Store) Add(ref storage.Ref, kind storage.Kind, raw []byte) {
	if s.Has(ref) {
		return
	}
	s.write(ref, kind, raw, false, 0)
}

// Keep gives blobs a score: those with a higher one stay longer; 0 ends it.
func (s *Store) Keep(refs []storage.Ref, score uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		if p := s.index[r]; p != nil {
			p.keep = score
		}
	}
}

// write appends a blob. A disk that is full, or fails, loses the blob and no more (case F9).
func (s *Store) write(ref storage.Ref, kind storage.Kind, raw []byte, used bool, keep uint32) {
	if recordLen(ref.Len) > s.cfg.Segment {
		return
	}
	sums := sumBlocks(raw)
	p := &place{kind: kind, sums: sums, used: used, keep: keep}
	seg, off, err := s.reserve(ref)
	if err == nil {
		head := appendHead(make([]byte, 0, recordFixed+4*len(sums)), ref, kind, sums)
		p.seg, p.off = seg, off+int64(len(head))
		if _, err = seg.file.WriteAt(raw, p.off); err == nil {
			_, err = seg.file.WriteAt(head, off) // last, so that a torn record has no head
		}
	}
	s.mu.Lock()
	wasFull := s.full
	s.full = err != nil
	if err == nil && s.index[ref] == nil && !seg.gone {
		s.index[ref] = p
		seg.items = append(seg.items, ref)
	}
	s.mu.Unlock()
	if seg != nil {
		s.release(seg)
	}
	if err != nil {
		s.stats[nUnwritten].Add(1)
		if !wasFull {
			s.deps.Slog.Warn("cache: cannot write; reads go past the cache", "err", err)
		}
	}
}

// reserve gives the place of a record in the newest segment, which is held for the caller.
func (s *Store) reserve(ref storage.Ref) (*segment, int64, error) {
	n := recordLen(ref.Len)
	s.mu.Lock()
	if len(s.segments) == 0 || s.segments[len(s.segments)-1].size+n > s.cfg.Segment {
		if err := s.roll(); err != nil {
			s.mu.Unlock()
			return nil, 0, err
		}
	}
	seg := s.segments[len(s.segments)-1]
	off := seg.size
	seg.size += n
	seg.refs++
	s.bytes += n
	over := s.bytes > s.cfg.Capacity && len(s.segments) > 1
	s.mu.Unlock()
	if over {
		s.evict()
	}
	return seg, off, nil
}

// roll starts a new segment; mu is held. Creating a file is the one I/O under it.
func (s *Store) roll() error {
	var n uint64 = 1
	if len(s.segments) > 0 {
		n = s.segments[len(s.segments)-1].number + 1
	}
	f, err := s.deps.Disk.Open(segmentName(n), disk.CreateNew)
	if err != nil {
		return err
	}
	s.segments = append(s.segments, &segment{number: n, name: segmentName(n), file: f, refs: 1})
	return nil
}

// saved is a blob that outlives its segment.
type saved struct {
	ref  storage.Ref
	at   *place
	keep uint32
}

// evict drops the oldest segment. At most half of it moves on: what was read since, kept first.
func (s *Store) evict() {
	s.mu.Lock()
	if len(s.segments) < 2 || s.bytes <= s.cfg.Capacity {
		s.mu.Unlock()
		return
	}
	seg := s.segments[0]
	s.segments = s.segments[1:]
	s.bytes -= seg.size
	seg.refs++ // for the reading below
	seg.gone = true
	var move []saved
	for _, ref := range seg.items {
		at := s.index[ref]
		if at == nil || at.seg != seg {
			continue
		}
		delete(s.index, ref)
		delete(s.warmed, ref)
		if at.used || at.keep > 0 {
			move = append(move, saved{ref, at, at.keep})
		} else {
			s.stats[nEvicted].Add(1)
		}
	}
	s.mu.Unlock()
	if err := s.deps.Disk.Remove(seg.name); err != nil {
		s.deps.Slog.Warn("cache: cannot remove a segment", "segment", seg.name, "err", err)
	}
	slices.SortStableFunc(move, func(a, b saved) int { return int(b.keep) - int(a.keep) })
	budget := seg.size / 2
	for _, m := range move {
		if budget -= recordLen(m.ref.Len); budget < 0 {
			s.stats[nEvicted].Add(1)
			continue
		}
		s.move(m)
	}
	s.release(seg)
	s.release(seg)
}

// move writes a blob of a dropped segment to the newest one.
func (s *Store) move(m saved) {
	raw := make([]byte, m.ref.Len)
	buf := s.scratch.Get().(*[]byte)
	err := m.at.readAt(raw, 0, m.ref.Len, *buf)
	s.scratch.Put(buf)
	if err != nil {
		s.stats[nCorrupt].Add(1)
		return
	}
	s.write(m.ref, m.at.kind, raw, false, m.keep)
}

// Stats reads the counters.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	bytes := s.bytes
	s.mu.Unlock()
	n := func(i int) int64 { return s.stats[i].Load() }
	return Stats{
		Hits: n(nHits), Misses: n(nMisses), Late: n(nLate), HitBytes: n(nHitBytes), FetchedRaw: n(nFetchedRaw), Fetched: n(nFetched),
		Corrupt: n(nCorrupt), Evicted: n(nEvicted), Unwritten: n(nUnwritten), Warmed: n(nWarmed), WarmedUsed: n(nWarmedUsed),
		Bytes: bytes, Limit: s.cfg.Capacity,
	}
}

// Close ends the flights and closes the files.
func (s *Store) Close() error {
	s.cancel()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, seg := range s.segments {
		errs = append(errs, seg.file.Close())
	}
	return errors.Join(errs...)
}
