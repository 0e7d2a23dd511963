package spoke

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/spokefs/spokefs/cache"
	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
)

// lateHub is a hub of one session, which grants all that is asked for. It can keep the answer to a
// command back after it has carried it out.
type lateHub struct {
	info   namespace.Info
	ticket namespace.Ticket

	mu    sync.Mutex // guards what follows
	state kv.Mem
	index uint64
	seq   uint64
	hold  chan struct{} // not nil: commands are answered when it is closed
	held  chan struct{} // gets one for each answer that is kept back
}

func newLateHub() *lateHub {
	h := &lateHub{info: namespace.Info{ID: 1, Name: "n", History: 1, Chunking: namespace.Chunking{Algorithm: 1}}, held: make(chan struct{}, 16)}
	h.ticket.Session[0] = 1
	h.apply(namespace.Command{Wall: 1, Ops: []namespace.Op{&namespace.Init{Info: h.info, Mode: 0o777}}})
	h.ticket.Epoch = h.apply(namespace.Command{Wall: 1, Ops: []namespace.Op{&namespace.OpenSession{ID: h.ticket.Session, Node: "n"}}}).Ops[0].Epoch
	return h
}

func (h *lateHub) apply(c namespace.Command) namespace.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.index++
	return namespace.Apply(&h.state, h.index, c)
}

func (h *lateHub) lease() rights.Lease {
	return rights.Lease{Epoch: h.ticket.Epoch, Term: 1, Length: time.Hour}
}

// grant grants a right; mu is held.
func (h *lateHub) grant(ino fabric.Ino, r rights.Right) rights.Grant {
	h.seq++
	return rights.Grant{Ino: ino, Right: r, Seq: h.seq, Epoch: h.ticket.Epoch, Term: 1}
}

func (h *lateHub) Connect(context.Context, namespace.Ticket) (Link, error) {
	return Link{Hub: h, Info: h.info, Ticket: h.ticket, Lease: h.lease()}, nil
}

func (h *lateHub) Renew(context.Context, fabric.Term, []fabric.Ino) (rights.Lease, error) {
	return h.lease(), nil
}

func (h *lateHub) Acquire(_ context.Context, wants []rights.Want) (gs []rights.Grant, out []namespace.Inode, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range wants {
		n, _ := namespace.GetInode(&h.state, w.Ino)
		gs, out = append(gs, h.grant(w.Ino, w.Right)), append(out, n)
	}
	return gs, out, nil
}

func (h *lateHub) Lookup(_ context.Context, dir fabric.Ino, path []string, _ int) (gs []rights.Grant, out []namespace.Found, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, _ := namespace.GetInode(&h.state, dir)
	out = append(out, namespace.Found{Inode: at})
	for _, name := range path {
		gs = append(gs, h.grant(at.Ino, rights.R|rights.D))
		f := namespace.Found{Dir: at.Ino, Name: name}
		if ino, cookie, ok := namespace.GetDentry(&h.state, at.Ino, name); ok {
			f.Cookie = cookie
			f.Inode, _ = namespace.GetInode(&h.state, ino)
		}
		out = append(out, f)
		if at = f.Inode; at.Ino == 0 {
			return gs, out, nil
		}
	}
	return append(gs, h.grant(at.Ino, rights.R)), out, nil
}

func (h *lateHub) List(_ context.Context, dir fabric.Ino, from fabric.Pos, n int) ([]rights.Grant, []namespace.Dirent, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	page, eof := namespace.ListByCookie(&h.state, dir, from.After, n)
	return nil, page, eof, nil
}

func (h *lateHub) Apply(_ context.Context, c namespace.Command) ([]rights.Grant, namespace.Result, error) {
	c.Wall = 2
	for _, o := range c.Ops {
		if o, ok := o.(*namespace.Remove); ok {
			o.Expect.Unchecked = true
		}
	}
	res := h.apply(c)
	h.mu.Lock()
	hold := h.hold
	h.mu.Unlock()
	if hold != nil {
		h.held <- struct{}{}
		<-hold
	}
	return nil, res, nil
}

func (h *lateHub) Events(ctx context.Context) iter.Seq2[rights.Message, error] {
	return func(func(rights.Message, error) bool) { <-ctx.Done() }
}

func (h *lateHub) Peek(context.Context, []fabric.Ino) ([]namespace.Inode, error) { return nil, nil }
func (h *lateHub) Release(context.Context, []rights.Grant) error                 { return nil }
func (h *lateHub) Ack(context.Context, []rights.Ack) error                       { return nil }
func (h *lateHub) StatFS(context.Context) (u fabric.Usage, err error)            { return u, nil }
func (h *lateHub) Close(context.Context) error                                   { return nil }

// Load and Save are Tickets that forget.
func (h *lateHub) Load() (t namespace.Ticket, err error) { return t, nil }
func (h *lateHub) Save(namespace.Ticket) error           { return nil }

// keep keeps answers back from here on, until the function it gives is called.
func (h *lateHub) keep() (release func()) {
	hold := make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = hold
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hold = nil
		close(hold)
	}
}

func serve(t *testing.T, h *lateHub) fabric.FS {
	t.Helper()
	dir, err := disk.OS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sub := func(name string) disk.Dir {
		d, err := dir.Dir(name)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	jrn, err := journal.Open(journal.Config{}, sub("journal"), "n")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s, err := New(t.Context(), Config{}, Deps{
		Connector: h, Tickets: h, Journal: jrn,
		OpenCache: func(hs *chunk.Hasher, blobs storage.Blobs) (*cache.Store, error) {
			return cache.Open(cache.Config{Capacity: 1 << 20}, cache.Deps{Disk: sub("cache"), Blobs: blobs, Verify: hs.Verify, Slog: slog.New(slog.DiscardHandler)})
		},
		Boot: func() fabric.Instant { return fabric.Instant(time.Since(start)) }, Wall: time.Now, Slog: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(context.Background()), jrn.Close()); err != nil {
			t.Error(err)
		}
	})
	for s.Status().State != "live" { // before the first renewal nothing is answered from here
		runtime.Gosched()
	}
	site := NewSite()
	site.Set("n", s, "/", fabric.Policy{})
	p, err := site.Portal("n")
	if err != nil {
		t.Fatal(err)
	}
	return p.As(fabric.Root())
}

// What the hub has carried out may be known elsewhere before its answer is here: nobody is told
// what was before.
func TestCommandOnItsWayIsSeen(t *testing.T) {
	h := newLateHub()
	fs, ctx := serve(t, h), t.Context()
	root := fs.Root()
	names := func() (out []string) {
		for e, err := range fs.ReadDir(ctx, root, fabric.Pos{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Name != "." && e.Name != ".." {
				out = append(out, e.Name)
			}
		}
		return out
	}
	old, _, err := fs.Make(ctx, root, "old", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	if n := names(); len(n) != 1 { // all of the directory is known from here on
		t.Fatal("listed", n)
	}
	if _, err := fs.Lookup(ctx, root, "new"); fabric.CodeOf(err) != fabric.NotExist {
		t.Fatal(err)
	}

	if a, err := fs.Stat(ctx, old.Ino); err != nil || a.Mode != 0o755 {
		t.Fatalf("mode %o, %v", a.Mode, err)
	}

	release := h.keep()
	var made sync.WaitGroup
	for _, name := range []string{"new", "also"} {
		made.Go(func() { fs.Make(ctx, root, name, fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755}) })
	}
	made.Go(func() { fs.SetAttr(ctx, old.Ino, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o700}) })
	for range 3 {
		<-h.held
	}
	if a, err := fs.Stat(ctx, old.Ino); err != nil || a.Mode != 0o700 {
		t.Errorf("mode %o, %v", a.Mode, err)
	}
	if a, err := fs.Stat(ctx, root); err != nil || a.Nlink != 5 {
		t.Errorf("%d links, %v", a.Nlink, err)
	}
	if _, err := fs.Lookup(ctx, root, "new"); err != nil {
		t.Error("a name that was made:", err)
	}
	if n := names(); len(n) != 3 {
		t.Error("listed", n)
	}
	release()
	made.Wait()

	release = h.keep()
	made.Go(func() {
		if _, err := fs.Remove(ctx, root, "old", fabric.RemoveDir, fabric.Cond{}); err != nil {
			t.Error(err)
		}
	})
	<-h.held
	if _, err := fs.Lookup(ctx, root, "old"); fabric.CodeOf(err) != fabric.NotExist {
		t.Error("a name that was removed:", err)
	}
	release()
	made.Wait()
	if n := names(); len(n) != 2 {
		t.Error("listed", n)
	}
}
