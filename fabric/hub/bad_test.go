package hub_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/consensus/model"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

func fileNamed(name string) []namespace.Op {
	return []namespace.Op{&namespace.Make{Dir: fabric.RootIno, Name: name, Spec: fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o600}}}
}

// TestSlots is D40: replays get the first answer, gaps wait for what is missing, and no more than
// SlotSeqs are let in ahead.
func TestSlots(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a := w.open("a", nil)
		from := namespace.Origin{Session: a.ticket.Session, Epoch: a.epoch, Slot: 3, Seq: 1}
		first := namespace.Command{From: from, Ops: fileNamed("one")}
		_, r1, err := a.Apply(w.ctx, first)
		if err != nil || r1.Ops[0].Code != fabric.OK {
			t.Fatal(r1, err)
		}
		_, r2, err := a.Apply(w.ctx, namespace.Command{From: from, Ops: fileNamed("one")})
		if err != nil || r2.Ops[0].Attr.Ino != r1.Ops[0].Attr.Ino || r2.Index != r1.Index {
			t.Error("replay", r2, err)
		}
		// Other bytes under a used seq are not carried out.
		if _, r, err := a.Apply(w.ctx, namespace.Command{From: from, Ops: fileNamed("other")}); err != nil || r.Index != r1.Index {
			t.Error("replay with other bytes", r, err)
		}
		if _, found, err := a.Lookup(w.ctx, fabric.RootIno, []string{"other"}, 0); err != nil || found[1].Inode.Ino != 0 {
			t.Error("it was carried out", err)
		}
		// Sent in any order at once, all are carried out in theirs.
		var wg sync.WaitGroup
		for seq := uint32(20); seq >= 2; seq-- {
			wg.Go(func() {
				f := from
				f.Seq = seq
				for {
					_, _, err := a.Apply(w.ctx, namespace.Command{From: f, Ops: fileNamed(fmt.Sprint("s", seq))})
					if err == nil {
						return
					}
					if !errors.Is(err, fabric.Unavailable) {
						t.Error(seq, err)
						return
					}
				}
			})
		}
		wg.Wait()
		for ahead, want := range map[uint32]fabric.Code{21 + namespace.SlotSeqs: fabric.Invalid, 20 + namespace.SlotSeqs: fabric.Unavailable} {
			f := from
			f.Seq = ahead
			if _, _, err := a.Apply(w.ctx, namespace.Command{From: f, Ops: fileNamed("x")}); !errors.Is(err, want) {
				t.Error("seq", ahead, err)
			}
		}
		f := from
		f.Epoch, f.Seq = a.epoch+1, 21
		if _, _, err := a.Apply(w.ctx, namespace.Command{From: f, Ops: fileNamed("x")}); !errors.Is(err, fabric.Fenced) {
			t.Error("epoch + 1", err)
		}
	})
}

// TestBadAcks is D43: acknowledging what was never asked or held gives nothing and costs nothing.
func TestBadAcks(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a, b := w.open("a", nil), w.open("b", nil)
		_, f := a.make(fabric.RootIno, "f", true)
		before := w.hub.Status()
		var flood []rights.Ack
		var gifts []rights.Grant
		for i := range fabric.Ino(10000) {
			flood = append(flood, rights.Ack{Ino: 1000 + i, Seq: ^uint64(0), Kept: rights.W, Open: true})
			gifts = append(gifts, rights.Grant{Ino: 1000 + i, Right: rights.W, Seq: ^uint64(0)})
		}
		if err := b.Ack(w.ctx, flood); err != nil {
			t.Error(err)
		}
		if err := b.Release(w.ctx, gifts); err != nil {
			t.Error(err)
		}
		// Another's W is not b's to give back; a's own is not given back by an Ack nobody asked for.
		for _, n := range []*node{b, a} {
			_ = n.Ack(w.ctx, []rights.Ack{{Ino: f.Attr.Ino, Seq: 1}})
		}
		_ = b.Release(w.ctx, []rights.Grant{{Ino: f.Attr.Ino, Right: rights.W, Seq: ^uint64(0)}})
		if after := w.hub.Status(); after.Rights != before.Rights {
			t.Errorf("the table changed: %+v, was %+v", after.Rights, before.Rights)
		}
		if _, r, err := a.do(&namespace.Publish{Ino: f.Attr.Ino, Content: namespace.Content{}}); err != nil || r.Code != fabric.OK {
			t.Error("a lost its W", r.Code, err)
		}
	})
}
