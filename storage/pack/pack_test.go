package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/mem"
	"github.com/spokefs/spokefs/storage/storagetest"
)

// index is the hub's index in memory; it refuses what Apply refuses.
type index struct {
	mu    sync.Mutex
	begun map[string]bool
	at    map[storage.Ref]Location
	owner map[storage.Ref]Owner
	ended []string
}

func newIndex() *index {
	return &index{begun: map[string]bool{}, at: map[storage.Ref]Location{}, owner: map[storage.Ref]Owner{}}
}

func (x *index) Begin(_ context.Context, key string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begun[key] = true
	return nil
}

func (x *index) End(_ context.Context, key string, _ int64, entries []Entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range entries {
		for _, c := range e.Children {
			if _, ok := x.at[c]; !ok {
				return storage.ErrInvalid
			}
		}
		if _, ok := x.at[e.Ref]; !ok {
			x.at[e.Ref] = Location{Key: key, Kind: e.Kind, Form: e.Form, Off: e.Off, Len: e.Len, Sum: e.Sum}
		}
		x.owner[e.Ref] = e.Owner
	}
	x.ended = append(x.ended, key)
	return nil
}

func (x *index) Locate(_ context.Context, refs []storage.Ref, dst []Location) ([]Location, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range refs {
		dst = append(dst, x.at[r])
	}
	return dst, nil
}

// bucket counts, and fails as told.
type bucket struct {
	mem.Bucket
	mu         sync.Mutex
	x          *index
	puts, gets int
	ambiguous  int // so many PUTs succeed and say they did not
	down       bool
}

func (b *bucket) Put(ctx context.Context, key string, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.puts++
	if b.down {
		return storage.ErrUnavailable
	}
	b.x.mu.Lock()
	begun := b.x.begun[key]
	b.x.mu.Unlock()
	if !begun {
		return errors.New("written before it was registered")
	}
	err := b.Bucket.Put(ctx, key, body)
	if b.ambiguous > 0 {
		b.ambiguous--
		return storage.ErrUnavailable
	}
	return err
}

func (b *bucket) Get(ctx context.Context, key string, off int64, p []byte) error {
	b.mu.Lock()
	b.gets++
	b.mu.Unlock()
	return b.Bucket.Get(ctx, key, off, p)
}

// seeded is a source of bytes that repeats.
type seeded struct{ *rand.Rand }

func (s seeded) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.Uint32())
	}
	return len(p), nil
}

var testHasher = chunk.New([32]byte{5})

// start runs a store until the test ends.
func start(t *testing.T, cfg Config, h *chunk.Hasher) (*Store, *bucket, *index) {
	cfg.Namespace, cfg.Incarnation = "ns", "test1"
	x := newIndex()
	b := &bucket{x: x}
	s := New(cfg, Deps{Bucket: b, Index: x, Hasher: h, Wall: time.Now, Rand: seeded{rand.New(rand.NewPCG(1, 2))}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = s.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return s, b, x
}

func TestBlobs(t *testing.T) {
	for name, cfg := range map[string]Config{
		"defaults":    {Linger: time.Millisecond, Writers: 1},
		"small packs": {Linger: time.Microsecond, Target: 2000, MaxEntries: 7, Cache: 1, Gap: 1, MaxGet: 500},
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Blobs(t, func(t *testing.T, h *chunk.Hasher) storage.Blobs {
				s, _, _ := start(t, cfg, h)
				return s
			})
		})
	}
}

func noise(seed uint64, n int) storage.Blob {
	p := make([]byte, n)
	_, _ = seeded{rand.New(rand.NewPCG(seed, 9))}.Read(p)
	return testHasher.Seal(storage.Chunk, p, nil)
}

func TestManyPutsShareAPack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, x := start(t, Config{}, testHasher)
		var wg sync.WaitGroup
		for i := range uint64(50) {
			wg.Go(func() {
				if err := s.PutFor(t.Context(), storage.Upload, Owner{byte(i)}, []storage.Blob{noise(i, 1000)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if b.puts != 1 || len(x.ended) != 1 {
			t.Errorf("%d PUTs for 50 at once", b.puts)
		}
		if x.owner[noise(7, 1000).Ref] != (Owner{7}) {
			t.Error("owner lost")
		}
		key := x.ended[0]
		if parts := strings.Split(key, "/"); len(parts) != 3 || parts[0] != "ns" || len(parts[1]) != 2 || len(parts[2]) != 26+len("-test1") {
			t.Errorf("key %s", key)
		}
	})
}

func TestNeighboursComeWithOneGet(t *testing.T) {
	s, b, _ := start(t, Config{Cache: 1}, testHasher)
	var blobs []storage.Blob
	var refs []storage.Ref
	for i := range uint64(20) {
		blobs = append(blobs, noise(i, 10_000))
		refs = append(refs, blobs[i].Ref)
	}
	if err := s.Put(t.Context(), storage.Upload, blobs); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range s.Fetch(t.Context(), storage.Demand, refs) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 20 || b.gets != 1 {
		t.Errorf("%d blobs with %d GETs", n, b.gets)
	}
}

func TestAmbiguousPutIsRetriedWithTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, x := start(t, Config{}, testHasher)
		b.ambiguous = 2
		if err := s.Put(t.Context(), storage.Upload, []storage.Blob{noise(1, 100)}); err != nil {
			t.Fatal(err)
		}
		if b.puts != 3 || len(x.begun) != 1 {
			t.Errorf("%d PUTs of %d keys", b.puts, len(x.begun))
		}
		b.down = true
		if err := s.Put(t.Context(), storage.Upload, []storage.Blob{noise(2, 100)}); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("bucket down: %v", err)
		}
		if len(x.ended) != 1 {
			t.Error("indexed what is not written")
		}
	})
}

func TestPutsEndWithTheStore(t *testing.T) {
	s := New(Config{Namespace: "n", Incarnation: "i"}, Deps{Bucket: &mem.Bucket{}, Index: newIndex(), Hasher: testHasher, Wall: time.Now, Rand: seeded{rand.New(rand.NewPCG(1, 2))}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = s.Run(ctx)
	if err := s.Put(t.Context(), storage.Upload, []storage.Blob{noise(1, 100)}); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
}

func TestDamageInTheBucketIsSeen(t *testing.T) {
	s, b, x := start(t, Config{Cache: 1}, testHasher)
	blob, whole := noise(1, 1000), noise(2, 1000)
	if err := s.Put(t.Context(), storage.Upload, []storage.Blob{blob, whole}); err != nil {
		t.Fatal(err)
	}
	// Another pack's bytes under its key.
	l := x.at[blob.Ref]
	size, _ := b.Size(t.Context(), l.Key)
	body := make([]byte, size)
	if err := b.Bucket.Get(t.Context(), l.Key, 0, body); err != nil {
		t.Fatal(err)
	}
	body[l.Off] ^= 1
	_ = b.Delete(t.Context(), l.Key)
	_ = b.Bucket.Put(t.Context(), l.Key, body)
	for got, err := range s.Fetch(t.Context(), storage.Demand, []storage.Ref{blob.Ref, whole.Ref}) {
		if bad := got.Ref == blob.Ref; bad != errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", got.Ref, err)
		}
	}
	_ = b.Delete(t.Context(), l.Key)
	for _, err := range s.Fetch(t.Context(), storage.Demand, []storage.Ref{blob.Ref}) {
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("pack gone: %v", err)
		}
	}
}

// D56.
func TestOwner(t *testing.T) {
	ctx := t.Context()
	b := &mem.Bucket{}
	for range 2 {
		if err := Own(ctx, b, "p", "cluster-a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := Own(ctx, b, "p", "cluster-b"); !errors.Is(err, storage.ErrDenied) || !strings.Contains(err.Error(), "cluster-a") {
		t.Error(err)
	}
	if err := Own(ctx, b, "", "cluster-b"); err != nil {
		t.Error(err)
	}
	for _, torn := range []string{"", "spokefs owner 1 cl", "other", strings.Repeat("x", 300)} {
		b := &mem.Bucket{}
		_ = b.Put(ctx, "p/OWNER", []byte(torn))
		if err := Own(ctx, b, "p", "cluster-a"); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%q: %v", torn, err)
		}
	}
}

func sample() ([]byte, []Entry) {
	body := appendHead(nil)
	var entries []Entry
	for i := range 3 {
		raw := bytes.Repeat(fmt.Appendf(nil, "blob %d ", i), 10)
		r := testHasher.Chunk(raw)
		entries = append(entries, Entry{Ref: r, Kind: storage.Chunk, Form: storage.Raw, Off: uint32(len(body)), Len: r.Len})
		body = append(body, raw...)
	}
	return appendFoot(body, entries), entries
}

func TestGolden(t *testing.T) {
	got, _ := sample()
	const name = "testdata/golden.pack"
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("packs are written differently; a changed format needs a new version")
	}
	if entries, err := Read(want); err != nil || len(entries) != 3 || entries[2].Len != 70 {
		t.Fatal(entries, err)
	}
}

// D48.
func TestReadRefusesDamage(t *testing.T) {
	good, entries := sample()
	if _, err := Read(good); err != nil {
		t.Fatal(err)
	}
	index := len(good) - footLen - len(entries)*entryLen
	for i := range good {
		if i >= headLen && i < index {
			continue // bodies are verified by their refs
		}
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := Read(bad); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("flip at %d: %v", i, err)
		}
	}
	for n := range good {
		if _, err := Read(good[:n]); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("cut to %d: %v", n, err)
		}
	}
	for name, f := range map[string]func(e []Entry){
		"overlap": func(e []Entry) { e[1].Off-- }, "gap": func(e []Entry) { e[1].Off++ },
		"huge": func(e []Entry) { e[2].Len = 1<<32 - 1 }, "empty": func(e []Entry) { e[2].Len = 0 },
		"short": func(e []Entry) { e[2].Len-- },
	} {
		e := append([]Entry(nil), entries...)
		f(e)
		if _, err := Read(appendFoot(bytes.Clone(good[:index]), e)); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	good, _ := sample()
	f.Add(good)
	f.Fuzz(func(t *testing.T, p []byte) {
		entries, err := Read(p)
		if err != nil {
			return
		}
		for _, e := range entries {
			_ = p[e.Off : e.Off+e.Len]
		}
	})
}

func TestULID(t *testing.T) {
	if got := ulid([16]byte{}); got != strings.Repeat("0", 26) {
		t.Error(got)
	}
	var ones [16]byte
	for i := range ones {
		ones[i] = 0xff
	}
	if got := ulid(ones); got != "7"+strings.Repeat("Z", 25) {
		t.Error(got)
	}
}
