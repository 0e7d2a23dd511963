package pack

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// Owner is the session on whose behalf blobs are put; zero is the hub.
type Owner [16]byte

// Location is where a blob is; one without a Key is unknown.
type Location struct {
	Key      string
	Kind     storage.Kind
	Form     storage.Form
	Off, Len uint32
	Sum      uint64 // of a node: bytes of file it covers
}

// Index is the replicated index of packs; the hub's state keeps it. Of its errors those that are
// storage.ErrUnavailable may be tried again with the same arguments.
type Index interface {
	// Begin registers a key before its PUT.
	Begin(ctx context.Context, key string) error
	// End indexes a finished pack and pins its blobs for their owners. ErrInvalid: an entry names
	// what is neither indexed nor before it.
	End(ctx context.Context, key string, size int64, entries []Entry) error
	// Locate appends a Location for each ref.
	Locate(ctx context.Context, refs []storage.Ref, dst []Location) ([]Location, error)
}

// Config of a Store.
type Config struct {
	// Namespace starts all keys. Needed.
	Namespace string
	// Incarnation of this process ends them, so that no two writers share a key. Needed.
	Incarnation string
	// Target is when a pack is full, in bytes. Default 16 MiB: few requests, still one GET.
	Target int
	// Linger is how long a pack waits for company. Default 4 ms: below a bucket's PUT by far.
	Linger time.Duration
	// MaxEntries of a pack. Default 4096: with MaxChildren, its command stays below 1 MiB.
	MaxEntries int
	// MaxChildren of all nodes in a pack. Default 16,384 (576 KiB in the command).
	MaxChildren int
	// Writers is how many packs are written at once. Default 8: hides a PUT of 100 ms at 1 GB/s.
	Writers int
	// Gap is how many unwanted bytes a GET may read between wanted ones. Default 64 KiB.
	Gap int
	// MaxGet is how many bytes a GET reads at most, if it is for several blobs. Default 4 MiB.
	MaxGet int
	// Readers is how many GETs one Fetch has under way. Default 8.
	Readers int
	// Cache is how many bytes of recently written packs are kept. Default 64 MiB.
	Cache int
	// Attempts at a PUT or a log entry before the pack is given up. Default 6.
	Attempts int
	// Backoff before the second attempt; it doubles. Default 50 ms.
	Backoff time.Duration
}

// WithDefaults fills fields that are 0.
func (c Config) WithDefaults() Config {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&c.Target, 16<<20)
	set(&c.MaxEntries, 4096)
	set(&c.MaxChildren, 16<<10)
	set(&c.Writers, 8)
	set(&c.Gap, 64<<10)
	set(&c.MaxGet, 4<<20)
	set(&c.Readers, 8)
	set(&c.Cache, 64<<20)
	set(&c.Attempts, 6)
	if c.Linger <= 0 {
		c.Linger = 4 * time.Millisecond
	}
	if c.Backoff <= 0 {
		c.Backoff = 50 * time.Millisecond
	}
	return c
}

// Deps are the edges of a Store.
type Deps struct {
	Bucket storage.Bucket
	Index  Index
	Hasher *chunk.Hasher
	Wall   func() time.Time // for keys only
	Rand   io.Reader        // for keys only
}

// Store is the Blobs of one namespace at a hub node.
type Store struct {
	cfg   Config
	deps  Deps
	queue chan *batch   // opened packs, for the writers
	slots chan struct{} // one per pack not finished
	ended chan struct{} // closed when Run ends

	mu   sync.Mutex // guards open and what is in it
	open *batch     // takes blobs; nil: the next Put opens one

	randMu sync.Mutex // guards deps.Rand, which need not allow overlapping calls

	cache cache
}

var _ storage.Blobs = (*Store)(nil)

// New gives a Store; Puts wait until Run runs.
func New(cfg Config, deps Deps) *Store {
	cfg = cfg.WithDefaults()
	return &Store{
		cfg: cfg, deps: deps,
		queue: make(chan *batch, cfg.Writers+1), slots: make(chan struct{}, cfg.Writers+1), ended: make(chan struct{}),
		cache: cache{limit: cfg.Cache},
	}
}

// Run writes packs until ctx ends; Puts then waiting, and later ones, are ErrUnavailable. Once only.
func (s *Store) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range s.cfg.Writers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case b := <-s.queue:
					s.finish(ctx, b)
				}
			}
		})
	}
	wg.Wait()
	close(s.ended)
	return nil
}

// finish closes a pack when it is time, and writes it.
func (s *Store) finish(ctx context.Context, b *batch) {
	linger := time.NewTimer(s.cfg.Linger)
	select {
	case <-b.full:
	case <-linger.C:
	case <-ctx.Done():
	}
	linger.Stop()
	s.mu.Lock()
	if s.open == b {
		s.open = nil
	}
	s.mu.Unlock()
	b.err = s.write(ctx, b)
	close(b.done)
	<-s.slots
}

func (s *Store) write(ctx context.Context, b *batch) error {
	key, err := s.key()
	if err != nil {
		return err
	}
	body := appendFoot(b.body, b.entries)
	if err := s.try(ctx, func() error { return s.deps.Index.Begin(ctx, key) }); err != nil {
		return fmt.Errorf("pack %s: register: %w", key, err)
	}
	if err := s.try(ctx, func() error { return s.deps.Bucket.Put(ctx, key, body) }); err != nil {
		return fmt.Errorf("pack %s: %w", key, err)
	}
	s.cache.add(key, body)
	if err := s.try(ctx, func() error { return s.deps.Index.End(ctx, key, int64(len(body)), b.entries) }); err != nil {
		return fmt.Errorf("pack %s: index: %w", key, err)
	}
	return nil
}
