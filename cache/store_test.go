package cache

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
	"github.com/spokefs/spokefs/storage/mem"
)

// counting counts what is fetched from the blobs behind it.
type counting struct {
	storage.Blobs
	mu      sync.Mutex
	fetched map[storage.Ref]int
	gate    chan struct{} // if not nil: fetches wait for it
}

func (c *counting) Fetch(ctx context.Context, class storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	c.mu.Lock()
	for _, r := range refs {
		c.fetched[r]++
	}
	c.mu.Unlock()
	if c.gate != nil {
		<-c.gate
	}
	return c.Blobs.Fetch(ctx, class, refs)
}

type rig struct {
	t      testing.TB
	path   string
	hasher *chunk.Hasher
	blobs  *counting
	store  *Store
}

func newRig(t testing.TB, cfg Config) *rig {
	h := chunk.New([32]byte{1})
	r := &rig{t: t, path: t.TempDir(), hasher: h, blobs: &counting{Blobs: mem.New(h), fetched: map[storage.Ref]int{}}}
	r.open(cfg)
	t.Cleanup(func() { r.store.Close() })
	return r
}

func (r *rig) open(cfg Config) {
	d, err := disk.OS(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.store, err = Open(cfg, Deps{Disk: d, Blobs: r.blobs, Verify: r.hasher.Verify, Slog: slog.New(slog.DiscardHandler)}); err != nil {
		r.t.Fatal(err)
	}
}

// put stores a chunk behind the cache.
func (r *rig) put(seed byte, n int) (storage.Ref, []byte) {
	r.t.Helper()
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = seed ^ byte(i*7) ^ byte(i>>8)
	}
	b := r.hasher.Seal(storage.Chunk, raw, nil)
	if err := r.blobs.Put(r.t.Context(), storage.Upload, []storage.Blob{b}); err != nil {
		r.t.Fatal(err)
	}
	return b.Ref, raw
}

func (r *rig) read(ref storage.Ref, want []byte) {
	r.t.Helper()
	p := make([]byte, len(want))
	if n, err := r.store.ReadAt(r.t.Context(), ref, p, 0); err != nil || n != len(want) || !bytes.Equal(p, want) {
		r.t.Fatalf("read %v: %d bytes, %v", ref, n, err)
	}
}

func TestReadsAnyRangeAndFetchesOnce(t *testing.T) {
	r := newRig(t, Config{})
	ref, raw := r.put(3, 200_000)
	for _, span := range [][2]int{{0, 200_000}, {0, 1}, {199_999, 1}, {65_535, 2}, {1, 65_536}, {100_000, 100_000}} {
		p := make([]byte, span[1])
		n, err := r.store.ReadAt(t.Context(), ref, p, int64(span[0]))
		if err != nil || !bytes.Equal(p[:n], raw[span[0]:span[0]+span[1]]) {
			t.Errorf("%v: %d bytes, %v", span, n, err)
		}
	}
	if n, err := r.store.ReadAt(t.Context(), ref, make([]byte, 10), 200_000); n != 0 || err != nil {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if r.blobs.fetched[ref] != 1 {
		t.Errorf("fetched %d times", r.blobs.fetched[ref])
	}
}

func TestABadBitIsNeverServed(t *testing.T) {
	r := newRig(t, Config{})
	ref, raw := r.put(4, 150_000)
	r.read(ref, raw)
	files, _ := filepath.Glob(filepath.Join(r.path, "*"+suffix))
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0xff ^ raw[80_000]}, recordFixed+4*3+80_000); err != nil {
		t.Fatal(err)
	}
	r.read(ref, raw)
	if s := r.store.Stats(); s.Corrupt != 1 || r.blobs.fetched[ref] != 2 {
		t.Errorf("%d corrupt, fetched %d times", s.Corrupt, r.blobs.fetched[ref])
	}
}

func TestItSurvivesARestartAndATornEnd(t *testing.T) {
	r := newRig(t, Config{})
	a, rawA := r.put(5, 100_000)
	b, rawB := r.put(6, 100_000)
	r.read(a, rawA)
	r.read(b, rawB)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(r.path, "*"+suffix))
	st, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(files[0], st.Size()-10); err != nil {
		t.Fatal(err)
	}
	r.open(Config{})
	r.read(a, rawA)
	r.read(b, rawB)
	if r.blobs.fetched[a] != 1 || r.blobs.fetched[b] != 2 {
		t.Errorf("fetched %d and %d times", r.blobs.fetched[a], r.blobs.fetched[b])
	}
}

func TestCapacityHolds(t *testing.T) {
	r := newRig(t, Config{Capacity: 4 << 20, Segment: 1 << 20})
	hot, rawHot := r.put(200, 50_000)
	r.read(hot, rawHot)
	for i := range 100 {
		ref, raw := r.put(byte(i), 100_000)
		r.read(ref, raw)
		r.read(hot, rawHot) // used since it was written: it moves on
	}
	if s := r.store.Stats(); s.Bytes > s.Limit+1<<20 || s.Evicted == 0 {
		t.Errorf("%d bytes of %d, %d evicted", s.Bytes, s.Limit, s.Evicted)
	}
	if r.blobs.fetched[hot] != 1 {
		t.Errorf("the hot chunk was fetched %d times", r.blobs.fetched[hot])
	}
}

// One flight a chunk; a reader that gives up does not end the others' (case C3).
func TestOneFlight(t *testing.T) {
	r := newRig(t, Config{})
	ref, raw := r.put(9, 70_000)
	r.blobs.gate = make(chan struct{})
	gone, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if i%2 == 0 {
				// It gives up, or comes late enough to find the chunk.
				if _, err := r.store.ReadAt(gone, ref, make([]byte, 10), 0); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("a reader that gave up: %v", err)
				}
				return
			}
			p := make([]byte, len(raw))
			if _, err := r.store.ReadAt(t.Context(), ref, p, 0); err != nil || !bytes.Equal(p, raw) {
				t.Errorf("a reader that stayed: %v", err)
			}
		})
	}
	cancel()
	for { // the flight is on its way
		r.blobs.mu.Lock()
		n := r.blobs.fetched[ref]
		r.blobs.mu.Unlock()
		if n > 0 {
			break
		}
	}
	close(r.blobs.gate)
	wg.Wait()
	if r.blobs.fetched[ref] != 1 {
		t.Errorf("fetched %d times", r.blobs.fetched[ref])
	}
}

// What is fetched ahead waits in the queue, which is bounded, and never in front of a reader.
func TestWarmingIsBoundedAndYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Flights: 2, WarmQueue: 8, Batch: 1})
		want, raw := r.put(200, 5000)
		var refs []storage.Ref
		for i := range 150 {
			ref, _ := r.put(byte(i), 1000+i)
			refs = append(refs, ref)
		}
		r.blobs.gate = make(chan struct{})
		taken := 0
		for n := 1; n > 0 && taken < len(refs); {
			n = r.store.Warm(refs[taken:], storage.Prefetch)
			taken += n
			synctest.Wait()
		}
		if taken > 2+8+1 {
			t.Errorf("%d taken: 2 fetches, a queue of 8 and the one before a place are the most", taken)
		}
		got := make(chan error, 1)
		go func() {
			_, err := r.store.ReadAt(context.Background(), want, make([]byte, len(raw)), 0)
			got <- err
		}()
		synctest.Wait()
		r.blobs.mu.Lock()
		asked := r.blobs.fetched[want]
		r.blobs.mu.Unlock()
		if asked != 1 {
			t.Error("a reader waits behind what is fetched ahead")
		}
		close(r.blobs.gate)
		if err := <-got; err != nil {
			t.Error(err)
		}
		r.store.Close()
	})
}

func TestAHitDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("allocations are counted without the race detector, which the short run has")
	}
	r := newRig(t, Config{})
	ref, raw := r.put(7, 128<<10)
	r.read(ref, raw)
	p := make([]byte, 4096)
	n := testing.AllocsPerRun(500, func() { r.store.ReadAt(context.Background(), ref, p, 70_000) })
	if n >= 1 { // the pool may be emptied once in a while
		t.Errorf("%v allocations a hit", n)
	}
}

// A segment without a record, such as one of an older version, does not stay on the disk uncounted.
func TestASegmentOfAnotherVersionIsRemoved(t *testing.T) {
	r := newRig(t, Config{})
	ref, raw := r.put(3, 50_000)
	r.read(ref, raw)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(r.path, segmentName(1))
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p[4]-- // version
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open(Config{})
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the old segment: %v", err)
	}
	r.read(ref, raw)
	if n := r.blobs.fetched[ref]; n != 2 {
		t.Errorf("fetched %d times, not again", n)
	}
}
