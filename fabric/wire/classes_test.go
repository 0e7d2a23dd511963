package wire

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// slow is a store whose prefetches wait until it is let go.
type slow struct {
	storage.Blobs
	begun     chan struct{}
	let       chan struct{}
	now, most atomic.Int64
}

func (s *slow) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	if c != storage.Prefetch {
		return s.Blobs.Fetch(ctx, c, refs)
	}
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for old := s.most.Load(); old < n && !s.most.CompareAndSwap(old, n); old = s.most.Load() {
	}
	s.begun <- struct{}{}
	<-s.let
	return s.Blobs.Fetch(ctx, c, refs)
}

// TestDemandOvertakes: however many prefetches wait, a fetch that somebody waits for goes through.
func TestDemandOvertakes(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t)
	refs := noise(t, w, c, 1, 100)
	const all = 600 // more than two connections have streams
	s := &slow{Blobs: w.hub.session.blobs, begun: make(chan struct{}, all), let: make(chan struct{})}
	w.hub.session.blobs = s
	var wg sync.WaitGroup
	for range all {
		wg.Go(func() {
			if err := drain(c.Blobs().Fetch(t.Context(), storage.Prefetch, refs)); err != nil {
				t.Error(err)
			}
		})
	}
	for range slots[storage.Prefetch] {
		<-s.begun
	}
	if err := drain(c.Blobs().Fetch(t.Context(), storage.Demand, refs)); err != nil {
		t.Error(err)
	}
	close(s.let)
	wg.Wait()
	if n := s.most.Load(); n != int64(slots[storage.Prefetch]) {
		t.Errorf("%d prefetches at a time", n)
	}
}

func TestGatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates()
		ctx, cancel := context.WithCancel(t.Context())
		leave, err := g.enter(ctx, storage.Scrub)
		if err != nil {
			t.Fatal(err)
		}
		for range maxWaiting + slots[storage.Scrub] - 1 {
			go func() {
				if _, err := g.enter(ctx, storage.Scrub); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if _, err := g.enter(ctx, storage.Scrub); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("one more: %v", err)
		}
		if _, err := g.enter(ctx, storage.Prefetch); err != nil {
			t.Errorf("another class: %v", err)
		}
		cancel()
		synctest.Wait()
		leave()
		if n := g[storage.Scrub].want.Load(); n != 1 {
			t.Errorf("%d left", n) // the other slot is taken
		}
		if _, err := g.enter(t.Context(), storage.Scrub); err != nil {
			t.Errorf("with a slot free: %v", err)
		}
	})
}

func TestFramesWaitForHigherClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurnstile()
		began := time.Now()
		passed := make(chan time.Duration, 1)
		pass := func(c storage.Class) {
			go func() {
				s.pass(t.Context(), c)
				passed <- time.Since(began)
			}()
			synctest.Wait()
		}
		s.pass(t.Context(), storage.ReadAhead)
		for _, c := range []storage.Class{storage.Demand, storage.ReadAhead} { // not lower
			pass(c)
			if len(passed) != 1 {
				t.Fatalf("%v waits", c)
			}
			<-passed
			s.sent(c)
		}
		pass(storage.Prefetch)
		if len(passed) != 0 {
			t.Fatal("it did not wait")
		}
		s.sent(storage.ReadAhead)
		if d := <-passed; d != 0 {
			t.Errorf("it waited %v", d)
		}
		s.sent(storage.Prefetch)
		s.pass(t.Context(), storage.Demand) // and is stuck
		pass(storage.Upload)
		if d := <-passed; d != patience {
			t.Errorf("it waited %v for what is stuck", d)
		}
	})
}

// sink takes frames.
type sink struct {
	grpc.ServerStreamingServer[pb.Frame]
	ctx context.Context
}

func (s sink) Context() context.Context { return s.ctx }
func (s sink) Send(*pb.Frame) error     { return nil }

func TestTransfersPassTheTurnstile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurnstile()
		s.pass(t.Context(), storage.Demand)
		began := time.Now()
		two := func(yield func(storage.Blob, error) bool) {
			for i := uint32(1); i < 3 && yield(storage.Blob{Ref: storage.Ref{Len: i}}, nil); i++ {
			}
		}
		if err := send(sink{ctx: t.Context()}, s, storage.Scrub, two); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 2*patience {
			t.Errorf("two frames took %v", d)
		}
		if s.sending != [storage.Classes]int{storage.Demand: 1} {
			t.Errorf("%v are being sent", s.sending)
		}
	})
}

// held is a store whose uploads wait until they are let go.
type held struct {
	storage.Blobs
	begun, let chan struct{}
}

func (h *held) Put(ctx context.Context, c storage.Class, blobs []storage.Blob) error {
	if c == storage.Upload {
		h.begun <- struct{}{}
		<-h.let
	}
	return h.Blobs.Put(ctx, c, blobs)
}

// TestUploadsLeaveAPut: however many uploads there are, a flush that somebody waits for has a place.
func TestUploadsLeaveAPut(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t)
	h := &held{Blobs: w.hub.session.blobs, begun: make(chan struct{}, 12), let: make(chan struct{})}
	w.hub.session.blobs = h
	put := func(class storage.Class, i int) {
		b := w.hasher.Seal(storage.Chunk, []byte{byte(i)}, nil)
		if err := c.Blobs().Put(t.Context(), class, []storage.Blob{b}); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() { put(storage.Upload, i) })
	}
	for range slots[storage.Upload] {
		<-h.begun
	}
	if n := len(w.client.gates[storage.Upload].slot); n != slots[storage.Upload] {
		t.Errorf("%d uploads have a slot", n)
	}
	put(storage.Demand, 99)
	close(h.let)
	wg.Wait()
	if n := slots[storage.Upload]; n >= (Config{}).WithDefaults().MaxPuts {
		t.Errorf("%d uploads leave no place", n)
	}
}
