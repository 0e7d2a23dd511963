package spoke

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spokefs/spokefs/cache"
	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// Config of a Spoke. WithDefaults fills zero fields.
type Config struct {
	// Inodes bounds the inodes whose state is kept; beyond, the least used are released. Default
	// 262,144: about 200 MB.
	Inodes int
	// Linger is how long a write waits for more before it is flushed, unless it is synced, closed
	// or recalled. Default 1 s.
	Linger time.Duration
	// Flushes bounds the files flushed at once. Default 16.
	Flushes int
	// UploadBatch is how many raw bytes are cut before they are uploaded. Default 8 MiB.
	UploadBatch int
	// ReadAhead is the most that is fetched ahead of a sequential reader, in bytes. Default 16 MiB.
	ReadAhead int64
	// Ahead is how many of the next files of a listing are fetched when files are opened in its
	// order. Default 64; negative: none.
	Ahead int
	// Nodes bounds the manifest nodes kept in memory. Default 4096.
	Nodes int
	// Page is how many entries are asked for at a time. Default 512.
	Page int
	// FullWait is how long a writer waits on a full journal that does not drain. Default 10 s (A25).
	FullWait time.Duration
}

// WithDefaults returns c with its zero fields filled.
func (c Config) WithDefaults() Config {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&c.Inodes, 256<<10)
	set(&c.Flushes, 16)
	set(&c.UploadBatch, 8<<20)
	set(&c.Ahead, 64)
	set(&c.Nodes, 4096)
	set(&c.Page, 512)
	if c.Linger == 0 {
		c.Linger = time.Second
	}
	if c.ReadAhead == 0 {
		c.ReadAhead = 16 << 20
	}
	if c.FullWait == 0 {
		c.FullWait = 10 * time.Second
	}
	return c
}

// Tickets keeps the ticket of the last session over a restart (A10).
type Tickets interface {
	Load() (namespace.Ticket, error) // the zero ticket if there is none
	Save(namespace.Ticket) error     // durable when it returns
}

// Deps are what a Spoke stands on.
type Deps struct {
	Connector Connector
	Tickets   Tickets
	// OpenCache makes the chunk cache once the namespace's digest key is known.
	OpenCache func(h *chunk.Hasher, blobs storage.Blobs) (*cache.Store, error)
	Journal   *journal.Journal
	Boot      func() fabric.Instant
	Wall      func() time.Time
	Slog      *slog.Logger
}

// Spoke is one namespace at one node. It serves from New on and until Close.
type Spoke struct {
	cfg    Config
	deps   Deps
	info   namespace.Info
	hasher *chunk.Hasher
	cache  *cache.Store
	jrn    *journal.Journal

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup

	// mu guards the session, what is held, and all that is known of names and attributes. It is
	// never held across I/O. The order of locks is in file.go.
	mu       sync.Mutex
	sess     *session
	inodes   map[fabric.Ino]*inode
	dirs     map[fabric.Ino]*directory
	clock    uint64 // of use, for what to forget first
	dirty    map[fabric.Ino]*inode
	verifier uint64
	watchers map[fabric.Watcher]*watcher
	watcher  fabric.Watcher
	skew     fabric.Time // hub's wall clock minus ours
	parked   int
	answers  uint64 // to changes of our own
	flights  flights
	walk     walks

	nodes    nodeCache
	kick     chan struct{} // wakes the flusher; room for one
	flushing chan struct{}
	ahead    chan aheadOf
	asked    atomic.Int64 // bytes that clients have read
	stamp    atomic.Int64 // the last mtime given out
}

// New connects to the hub, replays the journal and starts to serve. It waits for the hub until
// ctx ends.
func New(ctx context.Context, cfg Config, deps Deps) (*Spoke, error) {
	s := &Spoke{
		cfg: cfg.WithDefaults(), deps: deps, jrn: deps.Journal,
		inodes: map[fabric.Ino]*inode{}, dirs: map[fabric.Ino]*directory{}, dirty: map[fabric.Ino]*inode{}, flights: newFlights(),
		watchers: map[fabric.Watcher]*watcher{}, kick: make(chan struct{}, 1), ahead: make(chan aheadOf, 64),
		verifier: uint64(deps.Wall().UnixNano()),
	}
	s.flushing = make(chan struct{}, s.cfg.Flushes)
	s.nodes.limit = s.cfg.Nodes
	s.ctx, s.cancel = context.WithCancel(context.Background())
	old, err := deps.Tickets.Load()
	if err != nil {
		return nil, fmt.Errorf("spoke: the last session's ticket: %w", err)
	}
	link, err := s.connect(ctx, old)
	if err != nil {
		return nil, err
	}
	s.info = link.Info
	s.hasher = chunk.New(link.Info.DigestKey)
	if s.cache, err = deps.OpenCache(s.hasher, link.Blobs); err != nil {
		return nil, err
	}
	s.start(link)
	s.done.Go(s.flusher)
	for range aheadWorkers {
		s.done.Go(s.fetchAhead)
	}
	if err := s.replay(ctx); err != nil {
		s.Close(ctx)
		return nil, err
	}
	return s, nil
}

// Close flushes what is dirty, as long as ctx lasts, ends the session and stops serving.
func (s *Spoke) Close(ctx context.Context) error {
	err := s.FlushAll(ctx)
	s.cancel()
	s.mu.Lock()
	sess := s.sess
	s.mu.Unlock()
	if sess != nil && err == nil {
		if e := sess.link.Hub.Close(ctx); e == nil {
			err = s.deps.Tickets.Save(namespace.Ticket{})
		}
	}
	if sess != nil {
		sess.end()
	}
	s.done.Wait()
	if s.cache != nil {
		s.cache.Close()
	}
	return err
}

// Info is what the namespace is.
func (s *Spoke) Info() namespace.Info { return s.info }

// Cache is the chunk cache, for its counters.
func (s *Spoke) Cache() *cache.Store { return s.cache }

// Asked is the bytes that clients have read.
func (s *Spoke) Asked() int64 { return s.asked.Load() }

// Status is how the spoke is at one moment.
type Status struct {
	State   string // live, jeopardy or lapsed
	Epoch   uint64
	Term    fabric.Term
	Rights  int
	Dirty   int   // files not yet published
	Journal int64 // bytes not yet published
	Parked  int   // files set aside since the start (A27)
}

// Status tells how the spoke is.
func (s *Spoke) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, _ := s.jrn.Live()
	st := Status{State: "lapsed", Dirty: len(s.dirty), Journal: live, Parked: s.parked}
	if s.sess != nil {
		h := s.sess.held
		st.State, st.Epoch, st.Term, st.Rights = h.State(s.deps.Boot()).String(), h.Epoch(), h.Term(), h.Len()
	}
	return st
}

// now is the hub's wall clock as we guess it, and later than any time given out before (1.8).
func (s *Spoke) now() fabric.Time {
	s.mu.Lock()
	t := int64(s.deps.Wall().UnixNano()) + int64(s.skew)
	s.mu.Unlock()
	for {
		last := s.stamp.Load()
		t = max(t, last+1)
		if s.stamp.CompareAndSwap(last, t) {
			return fabric.Time(t)
		}
	}
}

// nodeCache keeps decoded manifest nodes; when full it starts anew, which costs one read each.
type nodeCache struct {
	mu    sync.Mutex // guards nodes
	limit int
	nodes map[storage.Ref]manifest.Node
}

func (c *nodeCache) get(ref storage.Ref) (manifest.Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.nodes[ref]
	return n, ok
}

func (c *nodeCache) put(ref storage.Ref, n manifest.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil || len(c.nodes) >= c.limit {
		c.nodes = make(map[storage.Ref]manifest.Node)
	}
	c.nodes[ref] = n
}

// source gives manifest nodes from memory, cache or hub.
func (s *Spoke) source(ctx context.Context) manifest.Source {
	return func(ref storage.Ref) (manifest.Node, error) {
		if n, ok := s.nodes.get(ref); ok {
			return n, nil
		}
		raw := make([]byte, ref.Len)
		if n, err := s.cache.ReadAt(ctx, ref, raw, 0); err != nil || n != len(raw) {
			return manifest.Node{}, fmt.Errorf("node %v: %w", ref, err)
		}
		n, err := manifest.Decode(raw)
		if err == nil {
			s.nodes.put(ref, n)
		}
		return n, err
	}
}

// lost says whether an error means that the session is gone.
func lost(err error) bool { return fabric.CodeOf(err) == fabric.Fenced }
