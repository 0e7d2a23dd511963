package hub_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/consensus/model"
	"github.com/spokefs/spokefs/fabric/hub"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/mem"
	"github.com/spokefs/spokefs/storage/pack"
)

// state is a namespace in memory, as the log applies it.
type state struct {
	mu sync.Mutex
	kv kv.Mem
}

func (s *state) apply(index uint64, cmd []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := namespace.DecodeCommand(cmd)
	if err != nil {
		return namespace.AppendResult(nil, &namespace.Result{Verdict: namespace.Refused})
	}
	res := namespace.Apply(&s.kv, index, c)
	return namespace.AppendResult(nil, &res)
}

func (s *state) View() (kv.View, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kv.Clone(), func() {}
}

// chance is a seeded io.Reader for ids and secrets.
type chance struct{ r *rand.ChaCha8 }

func (c chance) Read(p []byte) (int, error) { return c.r.Read(p) }

// world is one hub on a model log, in a synctest bubble.
type world struct {
	t     *testing.T
	ctx   context.Context
	log   *model.Log
	state *state
	hub   *hub.Namespace

	hasher *chunk.Hasher
	start  time.Time
	bg     sync.WaitGroup // ends with ctx
}

// run makes a world in a bubble, runs f in it, and ends with fsck.
func run(t *testing.T, cfg model.Config, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		st := &state{}
		w := &world{t: t, ctx: ctx, state: st, log: model.New(cfg, st.apply)}
		start := time.Now()
		w.start = start
		log := &slowLog{Log: w.log, rng: rand.New(rand.NewPCG(cfg.Seed, 3))}
		w.hasher = chunk.New([32]byte{1})
		packs := pack.New(pack.Config{Namespace: "n", Incarnation: "t"}, pack.Deps{
			Bucket: &mem.Bucket{}, Index: hub.NewIndex(log, st, time.Now), Hasher: w.hasher, Wall: time.Now,
			Rand: chance{rand.NewChaCha8([32]byte{1, byte(cfg.Seed)})}})
		w.hub = hub.New(hub.Config{}, hub.Deps{
			Log: log, State: st, Packs: packs, Rand: chance{rand.NewChaCha8([32]byte{byte(cfg.Seed)})},
			Boot: func() fabric.Instant { return fabric.Instant(time.Since(start)) }, Wall: time.Now,
			Slog: slog.New(slog.DiscardHandler),
		})
		st.apply(0, namespace.AppendCommand(nil, &namespace.Command{Wall: 1, Ops: []namespace.Op{
			&namespace.Init{Info: namespace.Info{ID: 1, Name: "n", History: 1, Chunking: namespace.Chunking{Algorithm: 1}}, Mode: 0o777}}}))
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.hub.Run(ctx) })
		wg.Go(func() { _ = packs.Run(ctx) })
		f(w)
		stop()
		w.bg.Wait()
		wg.Wait()
		for _, p := range namespace.Check(&st.kv) {
			t.Errorf("fsck: inode %#x: %s", uint64(p.Ino), p.What)
		}
	})
}

// node is a session that answers recalls as told, by default at once and keeping nothing.
type node struct {
	*hub.Session
	w      *world
	ticket namespace.Ticket
	epoch  uint64
	mu     sync.Mutex // guards seqs and seen
	seqs   map[uint16]uint32
	seen   []rights.Recall
	answer func(r rights.Recall) (rights.Ack, bool)
}

func (w *world) open(name string, answer func(r rights.Recall) (rights.Ack, bool)) *node {
	w.t.Helper()
	s, ticket, info, lease, err := w.hub.Open(w.ctx, name, false, namespace.Ticket{})
	if err != nil || info.Name != "n" || lease.Epoch != ticket.Epoch {
		w.t.Fatal("open", err, info, lease)
	}
	n := &node{Session: s, w: w, ticket: ticket, epoch: lease.Epoch, seqs: map[uint16]uint32{}, answer: answer}
	go n.listen()
	return n
}

// openRetry opens on a log that may refuse or forget.
func (w *world) openRetry(name string) *node {
	for {
		s, ticket, _, _, err := w.hub.Open(w.ctx, name, false, namespace.Ticket{})
		if err == nil {
			return &node{Session: s, w: w, ticket: ticket, epoch: ticket.Epoch, seqs: map[uint16]uint32{}}
		}
	}
}

func (n *node) listen() {
	for m, err := range n.Events(n.w.ctx) {
		r, ok := m.(*rights.Recall)
		if err != nil || !ok {
			continue
		}
		n.mu.Lock()
		n.seen = append(n.seen, *r)
		n.mu.Unlock()
		ack, yes := rights.Ack{Ino: r.Ino, Seq: r.Seq}, true
		if n.answer != nil {
			ack, yes = n.answer(*r)
		}
		if yes {
			_ = n.Ack(n.w.ctx, []rights.Ack{ack})
		}
	}
}

func (n *node) recalls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.seen)
}

// origin takes the next seq of a slot.
func (n *node) origin(slot uint16) namespace.Origin {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seqs[slot]++
	return namespace.Origin{Session: n.ticket.Session, Epoch: n.epoch, Slot: slot, Seq: n.seqs[slot]}
}

// do applies one op and gives its result.
func (n *node) do(op namespace.Op) ([]rights.Grant, namespace.OpResult, error) {
	return n.doIn(0, op)
}

func (n *node) doIn(slot uint16, op namespace.Op) ([]rights.Grant, namespace.OpResult, error) {
	c := namespace.Command{From: n.origin(slot), Ops: []namespace.Op{op}}
	for {
		g, res, err := n.Apply(n.w.ctx, c)
		if errors.Is(err, fabric.Unavailable) && n.w.ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			if s, err := n.w.hub.Resume(n.w.ctx, "", n.ticket); err == nil {
				n.Session = s
			}
			continue
		}
		if err != nil {
			return nil, namespace.OpResult{}, err
		}
		if len(res.Ops) != 1 {
			return nil, namespace.OpResult{}, fmt.Errorf("verdict %v", res.Verdict)
		}
		return g, res.Ops[0], nil
	}
}

func (n *node) make(dir fabric.Ino, name string, w bool) ([]rights.Grant, namespace.OpResult) {
	n.w.t.Helper()
	g, r, err := n.do(&namespace.Make{Dir: dir, Name: name, Spec: fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644}, WantW: w})
	if err != nil || r.Code != fabric.OK {
		n.w.t.Fatal("make", name, err, r.Code)
	}
	return g, r
}

func (n *node) acquire(ino fabric.Ino, r rights.Right) (rights.Right, namespace.Inode, error) {
	g, i, err := n.Acquire(n.w.ctx, []rights.Want{{Ino: ino, Right: r}})
	if err != nil {
		return 0, namespace.Inode{}, err
	}
	return g[0].Right, i[0], nil
}

func TestCreateLookupList(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a, b := w.open("a", nil), w.open("b", nil)
		g, r := a.make(fabric.RootIno, "f", true)
		if len(g) != 1 || g[0].Right != rights.W || g[0].Ino != r.Attr.Ino {
			t.Fatal("no W with create", g)
		}
		// b meets it: a's W is recalled first, then b has R.
		grants, found, err := b.Lookup(w.ctx, fabric.RootIno, []string{"f"}, 0)
		if err != nil || len(found) != 2 || found[0].Inode.Ino != fabric.RootIno || found[1].Inode.Ino != r.Attr.Ino || len(grants) != 2 {
			t.Fatal("lookup", grants, found, err)
		}
		if a.recalls() != 1 {
			t.Error("recalls", a.recalls())
		}
		_, found, err = b.Lookup(w.ctx, fabric.RootIno, []string{"none", "x"}, 0)
		if err != nil || len(found) != 2 || found[1].Inode.Ino != 0 || found[1].Name != "none" {
			t.Error("absence", found, err)
		}
		_, page, eof, err := b.List(w.ctx, fabric.RootIno, fabric.Pos{}, 10)
		if err != nil || !eof || len(page) != 1 || page[0].Name != "f" || page[0].Inode.Type != fabric.TypeFile {
			t.Error("list", page, eof, err)
		}
	})
}

func TestChangeRecallsOthers(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a, b := w.open("a", nil), w.open("b", nil)
		if r, _, err := a.acquire(fabric.RootIno, rights.D); err != nil || r != rights.D {
			t.Fatal(r, err)
		}
		a.make(fabric.RootIno, "own", false)
		if a.recalls() != 0 {
			t.Error("its own D was recalled")
		}
		b.make(fabric.RootIno, "other", false)
		if a.recalls() != 1 {
			t.Error("recalls", a.recalls())
		}
	})
}

func TestSilentHolderIsExpired(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a := w.open("a", func(rights.Recall) (rights.Ack, bool) { return rights.Ack{}, false })
		b := w.open("b", nil)
		_, r := a.make(fabric.RootIno, "f", true)
		began := time.Now()
		renewals := time.NewTicker(rights.RenewEvery(rights.DefaultLease))
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-renewals.C:
					if _, err := b.Renew(w.ctx, 1, nil); err != nil && w.ctx.Err() == nil {
						t.Error("renew", err)
					}
				case <-done:
					return
				}
			}
		}()
		got, _, err := b.acquire(r.Attr.Ino, rights.W)
		close(done)
		if took := time.Since(began); err != nil || got != rights.W || took < rights.ExpireAfter(rights.DefaultLease) || took > 17*time.Second {
			t.Error("W after", took, got, err)
		}
		// The fenced one changes nothing.
		_, _, err = a.do(&namespace.Publish{Ino: r.Attr.Ino, Base: r.Attr.Iver, Content: namespace.Content{Size: 1, Used: 1, Inline: []byte("x")}})
		if !errors.Is(err, fabric.Fenced) {
			t.Error("late publish", err)
		}
		if _, err := a.Renew(w.ctx, 1, nil); !errors.Is(err, fabric.Fenced) {
			t.Error("late renewal", err)
		}
	})
}

func TestNewTermHoldsChanges(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a, b := w.open("a", nil), w.open("b", nil)
		if _, _, err := a.acquire(fabric.RootIno, rights.D); err != nil {
			t.Fatal(err)
		}
		_, r := a.make(fabric.RootIno, "f", true)
		w.log.Depose()
		synctest.Wait()
		if _, _, err := a.acquire(fabric.RootIno, rights.R); !errors.Is(err, fabric.Unavailable) {
			t.Error("no leader", err)
		}
		w.log.Elect()
		synctest.Wait()
		resume := func(n *node, name string) {
			s, err := w.hub.Resume(w.ctx, name, n.ticket)
			if err != nil {
				t.Fatal("resume", err)
			}
			n.Session = s
		}
		resume(a, "a")
		resume(b, "b")
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.make(fabric.RootIno, "g", false)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a change went on before all nodes named the term")
		default:
		}
		// Publishing under W does not wait.
		_, p, err := a.do(&namespace.Publish{Ino: r.Attr.Ino, Content: namespace.Content{Size: 1, Used: 1, Inline: []byte("x")}})
		if err != nil || p.Code != fabric.OK {
			t.Error("publish", p.Code, err)
		}
		for _, n := range []*node{a, b} {
			if l, err := n.Renew(w.ctx, 2, nil); err != nil || l.Term != 2 {
				t.Error("renew", l, err)
			}
		}
		<-done
		if w.hub.Status().Rights.Unnamed != 0 {
			t.Error("unnamed")
		}
	})
}

func TestUnlinkWhileOpen(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a := w.open("a", func(r rights.Recall) (rights.Ack, bool) {
			return rights.Ack{Ino: r.Ino, Seq: r.Seq, Open: r.Ino != fabric.RootIno}, true
		})
		b := w.open("b", nil)
		_, r := b.make(fabric.RootIno, "f", false)
		if got, _, err := a.acquire(r.Attr.Ino, rights.R); err != nil || got != rights.R {
			t.Fatal(got, err)
		}
		_, res, err := b.do(&namespace.Remove{Dir: fabric.RootIno, Name: "f"})
		if err != nil || res.Code != fabric.OK || res.Held {
			t.Fatal("remove", res, err)
		}
		if _, i, err := a.acquire(r.Attr.Ino, rights.R); err != nil || i.Ino != r.Attr.Ino || i.Nlink != 0 {
			t.Error("the open file is gone", i.Ino, err)
		}
		if _, res, err := a.do(&namespace.DropHold{Inos: []fabric.Ino{r.Attr.Ino}}); err != nil || res.Code != fabric.OK {
			t.Error(res, err)
		}
		if got, i, err := a.acquire(r.Attr.Ino, rights.R); err != nil || i.Ino != 0 || got != 0 {
			t.Error("still there", i.Ino, got, err)
		}
	})
}

func TestRacedRenames(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		nodes := []*node{w.open("a", nil), w.open("b", nil), w.open("c", nil)}
		for i := range 3 {
			nodes[i].make(fabric.RootIno, fmt.Sprint(i), false)
		}
		var wg sync.WaitGroup
		for i, n := range nodes {
			wg.Go(func() {
				for k := range 40 {
					from, to := fmt.Sprint((i+k)%4), fmt.Sprint((i+2*k+1)%4)
					_, r, err := n.do(&namespace.Rename{From: fabric.RootIno, Old: from, To: fabric.RootIno, Name: to})
					if err != nil || r.Raced || r.Code != fabric.OK && r.Code != fabric.NotExist {
						t.Error("rename", r, err)
					}
				}
			})
		}
		wg.Wait()
		if c := w.hub.Status().Counts; c.Applied != 123 || c.Raced == 0 || c.Barriers == 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestExactlyOnce: outcomes that are not known, late entries and changes of leader double nothing.
func TestExactlyOnce(t *testing.T) {
	for seed := range uint64(8) {
		run(t, model.Config{Seed: seed, Unknown: 0.3, Refused: 0.05}, func(w *world) {
			var nodes []*node
			for i := range 3 {
				n := w.openRetry(fmt.Sprint("n", i))
				nodes = append(nodes, n)
			}
			var wg sync.WaitGroup
			const each = 30
			for i, n := range nodes {
				for slot := range uint16(3) {
					wg.Go(func() {
						for k := range each {
							_, r, err := n.doIn(slot, &namespace.Make{Dir: fabric.RootIno, Name: fmt.Sprintf("%d.%d.%d", i, slot, k),
								Spec: fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644}})
							if err != nil || r.Code != fabric.OK {
								t.Error("seed", seed, "make", r.Code, err)
								return
							}
						}
					})
				}
			}
			wg.Wait()
			_, eof := 0, false
			v, done := w.state.View()
			defer done()
			page, eof := namespace.ListByName(v, fabric.RootIno, "", 10000)
			if len(page) != len(nodes)*3*each || !eof {
				t.Error("seed", seed, "entries", len(page))
			}
			if c := w.log.Counts(); c.Unknown == 0 || c.Late == 0 {
				t.Error("nothing went wrong", c)
			}
		})
	}
}

func TestListIsNotStarved(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a := w.open("a", func(r rights.Recall) (rights.Ack, bool) { return rights.Ack{}, false })
		b := w.open("b", nil)
		a.make(fabric.RootIno, "dirty", true)
		began := time.Now()
		grants, page, _, err := b.List(w.ctx, fabric.RootIno, fabric.Pos{}, 100)
		if err != nil || len(page) != 1 || len(grants) != 0 || time.Since(began) > 6*time.Second {
			t.Error(grants, page, err, time.Since(began))
		}
	})
}

func TestBadCommands(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a, b := w.open("a", nil), w.open("b", nil)
		_, f := a.make(fabric.RootIno, "f", true)
		root := storage.Ref{Len: 10, Sum: [32]byte{1}}
		ino, iver := f.Attr.Ino, f.Attr.Iver
		cases := []struct {
			name string
			n    *node
			op   namespace.Op
			want fabric.Code
		}{
			{"unpinned root", a, &namespace.Publish{Ino: ino, Content: namespace.Content{Size: 10, Used: 10, Root: root}}, fabric.Invalid},
			{"inline too long", a, &namespace.Publish{Ino: ino, Content: namespace.Content{Size: fabric.MaxInline + 1, Used: 1, Inline: make([]byte, fabric.MaxInline+1)}}, fabric.Invalid},
			{"size not the content's", a, &namespace.Publish{Ino: ino, Content: namespace.Content{Size: 3, Used: 2, Inline: []byte("xx")}}, fabric.Invalid},
			{"negative", a, &namespace.Publish{Ino: ino, Content: namespace.Content{Size: -1}}, fabric.Invalid},
			{"a directory", a, &namespace.Publish{Ino: fabric.RootIno, Base: 1, Content: namespace.Content{}}, fabric.Invalid},
			{"no such inode", a, &namespace.Publish{Ino: 12345, Base: 1, Content: namespace.Content{}}, fabric.Stale},
			{"wrong base", b, &namespace.Publish{Ino: ino, Base: iver + 7, Content: namespace.Content{}}, fabric.Fenced},
		}
		for _, c := range cases {
			if _, r, err := c.n.do(c.op); err != nil || r.Code != c.want {
				t.Errorf("%s: %v %v, want %v", c.name, r.Code, err, c.want)
			}
		}
		refused := []struct {
			name string
			c    namespace.Command
			want fabric.Code
		}{
			{"foreign session", namespace.Command{From: namespace.Origin{Session: b.ticket.Session, Epoch: b.epoch, Seq: 1}, Ops: []namespace.Op{&namespace.DropHold{}}}, fabric.Fenced},
			{"old epoch", namespace.Command{From: namespace.Origin{Session: a.ticket.Session, Epoch: a.epoch - 1, Seq: 1}, Ops: []namespace.Op{&namespace.DropHold{}}}, fabric.Fenced},
			{"slot", namespace.Command{From: namespace.Origin{Session: a.ticket.Session, Epoch: a.epoch, Slot: namespace.Slots, Seq: 1}, Ops: []namespace.Op{&namespace.DropHold{}}}, fabric.Invalid},
			{"no seq", namespace.Command{From: namespace.Origin{Session: a.ticket.Session, Epoch: a.epoch}, Ops: []namespace.Op{&namespace.DropHold{}}}, fabric.Invalid},
			{"no op", namespace.Command{From: namespace.Origin{Session: a.ticket.Session, Epoch: a.epoch, Slot: 9, Seq: 1}}, fabric.Invalid},
			{"the hub's op", namespace.Command{From: namespace.Origin{Session: a.ticket.Session, Epoch: a.epoch, Slot: 9, Seq: 1}, Ops: []namespace.Op{&namespace.ExpireSession{ID: b.ticket.Session, Epoch: b.epoch}}}, fabric.Invalid},
			{"a gap", namespace.Command{From: namespace.Origin{Session: a.ticket.Session, Epoch: a.epoch, Slot: 9, Seq: 2}, Ops: []namespace.Op{&namespace.DropHold{}}}, fabric.Unavailable},
		}
		for _, c := range refused {
			if _, _, err := a.Apply(w.ctx, c.c); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
		for _, x := range []rights.Want{{Ino: 0, Right: rights.R}, {Ino: 5}, {Ino: 5, Right: 8}, {Ino: fabric.RootIno, Right: rights.W}} {
			if _, _, err := a.Acquire(w.ctx, []rights.Want{x}); !errors.Is(err, fabric.Invalid) {
				t.Errorf("want %+v: %v", x, err)
			}
		}
		for _, name := range []string{"", ".", "..", "a/b", "x\x00"} {
			if _, _, err := a.Lookup(w.ctx, fabric.RootIno, []string{name}, 0); !errors.Is(err, fabric.Invalid) {
				t.Errorf("lookup %q: %v", name, err)
			}
		}
	})
}

func TestReadOnlySession(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		s, ticket, info, _, err := w.hub.Open(w.ctx, "r", true, namespace.Ticket{})
		if err != nil || !info.ReadOnly {
			t.Fatal(err)
		}
		c := namespace.Command{From: namespace.Origin{Session: ticket.Session, Epoch: ticket.Epoch, Seq: 1},
			Ops: []namespace.Op{&namespace.Make{Dir: fabric.RootIno, Name: "x", Spec: fabric.NodeSpec{Type: fabric.TypeFile}}}}
		if _, _, err := s.Apply(w.ctx, c); !errors.Is(err, fabric.ReadOnly) {
			t.Error(err)
		}
		if _, _, err := s.Acquire(w.ctx, []rights.Want{{Ino: 9, Right: rights.W}}); !errors.Is(err, fabric.ReadOnly) {
			t.Error(err)
		}
		if err := s.Blobs().Put(w.ctx, storage.Upload, nil); !errors.Is(err, storage.ErrDenied) {
			t.Error(err)
		}
	})
}

func TestTickets(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a := w.open("a", nil)
		if _, err := w.hub.Resume(w.ctx, "b", a.ticket); !errors.Is(err, fabric.Denied) {
			t.Error("another node's ticket", err)
		}
		bad := a.ticket
		bad.Secret[0]++
		if _, err := w.hub.Resume(w.ctx, "a", bad); !errors.Is(err, fabric.Denied) {
			t.Error("wrong secret", err)
		}
		if _, _, _, _, err := w.hub.Open(w.ctx, "a", false, bad); !errors.Is(err, fabric.Denied) {
			t.Error("wrong secret", err)
		}
		// A restart with the ticket does not wait.
		began := time.Now()
		_, second, _, _, err := w.hub.Open(w.ctx, "a", false, a.ticket)
		if err != nil || time.Since(began) > time.Second {
			t.Error("restart", err, time.Since(began))
		}
		if _, err := w.hub.Resume(w.ctx, "a", a.ticket); !errors.Is(err, fabric.Fenced) {
			t.Error("closed one", err)
		}
		// Without, it waits until the other has expired, and that one is told.
		old, err := w.hub.Resume(w.ctx, "a", second)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			if _, err := old.Renew(w.ctx, 1, nil); !errors.Is(err, fabric.Unavailable) {
				t.Error("renewal of a retired session", err)
			}
		}()
		began = time.Now()
		if _, _, _, _, err = w.hub.Open(w.ctx, "a", false, namespace.Ticket{}); err != nil || time.Since(began) < 15*time.Second {
			t.Error("second start", err, time.Since(began))
		}
	})
}
