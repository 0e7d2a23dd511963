package hub_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/consensus/model"
	"github.com/spokefs/spokefs/fabric/hub"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
)

// liveState is state without copies: a view holds the lock until done.
type liveState struct{ state }

func (s *liveState) View() (kv.View, func()) {
	s.mu.Lock()
	return &s.kv, s.mu.Unlock
}

// BenchmarkCreate is the hub's own cost of a create, 64 callers in one directory, over a log and a
// state that cost next to nothing (F10 without disks).
func BenchmarkCreate(b *testing.B) {
	ctx, stop := context.WithCancel(b.Context())
	st := &liveState{}
	log := model.New(model.Config{}, st.apply)
	start := time.Now()
	h := hub.New(hub.Config{}, hub.Deps{Log: log, State: st, Rand: chance{rand.NewChaCha8([32]byte{})},
		Boot: func() fabric.Instant { return fabric.Instant(time.Since(start)) }, Wall: time.Now, Slog: slog.New(slog.DiscardHandler)})
	st.apply(0, namespace.AppendCommand(nil, &namespace.Command{Wall: 1, Ops: []namespace.Op{
		&namespace.Init{Info: namespace.Info{ID: 1, Name: "n", History: 1}, Mode: 0o777}}}))
	var run sync.WaitGroup
	run.Go(func() { _ = h.Run(ctx) })
	var seq atomic.Uint64
	var wg sync.WaitGroup
	var sessions []*hub.Session
	var tickets []namespace.Ticket
	for i := range 4 {
		s, t, _, _, err := h.Open(ctx, fmt.Sprint(i), false, namespace.Ticket{})
		if err != nil {
			b.Fatal(err)
		}
		sessions, tickets = append(sessions, s), append(tickets, t)
	}
	b.ResetTimer()
	for c := range 64 {
		wg.Go(func() {
			s, t := sessions[c%4], tickets[c%4]
			for k := uint32(1); ; k++ {
				i := seq.Add(1)
				if i > uint64(b.N) {
					return
				}
				_, r, err := s.Apply(ctx, namespace.Command{From: namespace.Origin{Session: t.Session, Epoch: t.Epoch, Slot: uint16(c), Seq: k},
					Ops: []namespace.Op{&namespace.Make{Dir: fabric.RootIno, Name: fmt.Sprintf("file%08d", i), Spec: fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644}, WantW: c%2 == 0}}})
				if err != nil || r.Ops[0].Code != fabric.OK {
					b.Error(r, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	stop()
	run.Wait()
}
