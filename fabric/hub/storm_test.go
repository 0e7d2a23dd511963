package hub_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/consensus/model"
	"github.com/spokefs/spokefs/fabric/hub"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// TestCreateStorm: while files are made with W by the dozen, others list them and look them up.
// Lists come to an end, and nobody is granted R on what is under another's W, fresh as it may be.
func TestCreateStorm(t *testing.T) {
	run(t, model.Config{Seed: 4, Unknown: 0.02}, func(w *world) {
		a := w.openRetry("a")
		w.bg.Go(a.listen)
		b := w.openRetry("b")
		w.bg.Go(b.listen)
		const makers, each = 12, 40
		var making sync.WaitGroup
		for m := range makers {
			making.Go(func() {
				for k := range each {
					g, r, err := a.doIn(uint16(m), &namespace.Make{Dir: fabric.RootIno, Name: fmt.Sprintf("%d.%d", m, k),
						Spec: fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o600}, WantW: true})
					if err != nil || r.Code != fabric.OK || len(g) != 1 {
						t.Error("make", g, r.Code, err)
						return
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { making.Wait(); close(done) }()
		check := func(grants []rights.Grant) {
			v, free := w.state.View()
			defer free()
			for _, g := range grants {
				if owner, ok := namespace.GetW(v, g.Ino); ok && owner != b.ticket.Session {
					t.Errorf("R on %#x, which is under another's W", uint64(g.Ino))
				}
			}
		}
		met := 0
		for k := 0; ; k++ {
			select {
			case <-done:
				if met == 0 {
					t.Error("nothing was met on the way")
				}
				return
			default:
			}
			began := time.Now()
			grants, page, _, err := b.List(w.ctx, fabric.RootIno, fabric.Pos{}, 1000)
			if err != nil || time.Since(began) > 6*time.Second {
				t.Error("list", time.Since(began), err)
			}
			check(grants)
			met += len(page)
			for m := range makers {
				grants, _, err := b.Lookup(w.ctx, fabric.RootIno, []string{fmt.Sprintf("%d.%d", m, k%each)}, 0)
				if err != nil {
					t.Error("lookup", err)
				}
				check(grants)
			}
		}
	})
}

// TestGivingUp: callers that give up leave no mark and no want behind.
func TestGivingUp(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a := w.open("a", func(rights.Recall) (rights.Ack, bool) { return rights.Ack{}, false })
		b, c := w.open("b", nil), w.open("c", nil)
		if _, _, err := a.acquire(fabric.RootIno, rights.D); err != nil {
			t.Fatal(err)
		}
		_, f := a.make(fabric.RootIno, "f", true)
		short := func(do func(ctx context.Context) error) {
			t.Helper()
			ctx, stop := context.WithTimeout(w.ctx, 100*time.Millisecond)
			defer stop()
			if err := do(ctx); !errors.Is(err, fabric.Canceled) {
				t.Error(err)
			}
		}
		short(func(ctx context.Context) error {
			_, _, err := b.Apply(ctx, namespace.Command{From: b.origin(1), Ops: fileNamed("x")})
			return err
		})
		short(func(ctx context.Context) error {
			_, _, err := b.Acquire(ctx, []rights.Want{{Ino: f.Attr.Ino, Right: rights.W}, {Ino: 99, Right: rights.R}})
			return err
		})
		short(func(ctx context.Context) error {
			_, _, err := b.Lookup(ctx, fabric.RootIno, []string{"f"}, 0)
			return err
		})
		if st := w.hub.Status().Rights; st.Changes != 0 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		if r, _, err := c.acquire(fabric.RootIno, rights.D); err != nil || r != rights.D {
			t.Error("the directory is still pending", r, err)
		}
		if i, err := c.Peek(w.ctx, []fabric.Ino{f.Attr.Ino, 12345}); err != nil || i[0].Ino != f.Attr.Ino || i[1].Ino != 0 {
			t.Error("peek", i, err)
		}
		if u, err := c.StatFS(w.ctx); err != nil || u.Inodes == 0 {
			t.Error("statfs", u, err)
		}
	})
}

// TestEventsOverflow: a node that does not listen loses notices and its stream, not recalls.
func TestEventsOverflow(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		s, _, _, _, err := w.hub.Open(w.ctx, "a", false, namespace.Ticket{})
		if err != nil {
			t.Fatal(err)
		}
		b := w.open("b", nil)
		a := &node{Session: s, w: w}
		_, f := b.make(fabric.RootIno, "f", false)
		if r, _, err := a.acquire(f.Attr.Ino, rights.R); err != nil || r != rights.R {
			t.Fatal(r, err)
		}
		w.bg.Go(func() {
			_, _, _ = b.do(&namespace.SetAttr{Ino: f.Attr.Ino, Set: fabric.SetAttr{Set: fabric.SetMode, Mode: 0o600}})
		})
		for range 3 { // each new stream begins with what was not answered
			for m, err := range s.Events(w.ctx) {
				if r, ok := m.(*rights.Recall); err != nil || !ok || r.Ino != f.Attr.Ino {
					t.Error(m, err)
				}
				break
			}
		}
		if err := s.Ack(w.ctx, []rights.Ack{{Ino: f.Attr.Ino, Seq: ^uint64(0)}}); err != nil {
			t.Error(err)
		}
	})
}

var _ hub.Log = (*slowLog)(nil)
