// Package local joins real spokes to a real hub in one process, by pointer or over the wire, for
// tests of what clients may rely on. The hub's log and bucket are in memory and never fail; the
// spokes' caches and journals are on the disk.
package local

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/consensus/model"
	"github.com/spokefs/spokefs/fabric/hub"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/fabric/wire"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
	"github.com/spokefs/spokefs/storage/mem"
	"github.com/spokefs/spokefs/storage/pack"
)

// state is a namespace in memory, as the log applies it.
type state struct {
	mu   sync.Mutex // guards both
	kv   kv.Mem
	view *kv.Mem // a copy of kv; nil once that has changed
}

func (s *state) apply(index uint64, cmd []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := namespace.DecodeCommand(cmd)
	if err != nil {
		return namespace.AppendResult(nil, &namespace.Result{Verdict: namespace.Refused})
	}
	s.view = nil
	res := namespace.Apply(&s.kv, index, c)
	return namespace.AppendResult(nil, &res)
}

// View implements hub.State.
func (s *state) View() (kv.View, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == nil {
		s.view = s.kv.Clone()
	}
	return s.view, func() {}
}

// Hub is a hub with one namespace. It ends with the test, after the spokes, and is then checked.
type Hub struct {
	t      testing.TB
	engine *hub.Namespace
	state  *state
	ca     *identity.CA
	addr   string          // where it serves the wire, once it does
	ctx    context.Context // ends with the hub
	done   sync.WaitGroup
}

// NewHub starts a hub, whose root directory all may change.
func NewHub(t testing.TB) *Hub {
	t.Helper()
	h := &Hub{t: t, state: &state{}}
	ctx, stop := context.WithCancel(context.Background())
	h.ctx = ctx
	log := model.New(model.Config{}, h.state.apply)
	p := chunk.Default()
	info := namespace.Info{ID: 1, Name: "main", History: 1, DigestKey: [32]byte{1}, HandleKey: [32]byte{2},
		Chunking: namespace.Chunking{Algorithm: p.Algorithm, Min: p.Min, Mean: p.Mean, Max: p.Max}}
	h.state.apply(0, namespace.AppendCommand(nil, &namespace.Command{Wall: 1, Ops: []namespace.Op{&namespace.Init{Info: info, Mode: 0o777}}}))
	packs := pack.New(pack.Config{Namespace: "main", Incarnation: "t"}, pack.Deps{
		Bucket: &mem.Bucket{}, Index: hub.NewIndex(log, h.state, time.Now), Hasher: chunk.New(info.DigestKey), Wall: time.Now, Rand: rand.Reader})
	h.engine = hub.New(hub.Config{}, hub.Deps{Log: log, State: h.state, Packs: packs, Rand: rand.Reader,
		Boot: boot, Wall: time.Now, Slog: slog.New(slog.DiscardHandler)})
	h.done.Go(func() { _ = packs.Run(ctx) })
	h.done.Go(func() { _ = h.engine.Run(ctx) })
	t.Cleanup(func() {
		stop()
		h.done.Wait()
		for _, p := range namespace.Check(&h.state.kv) {
			t.Errorf("fsck: inode %#x: %s", uint64(p.Ino), p.What)
		}
	})
	return h
}

var started = time.Now()

// boot is a clock that goes on evenly.
func boot() fabric.Instant { return fabric.Instant(time.Since(started)) }

// serve serves the wire on the loopback, once.
func (h *Hub) serve() {
	h.t.Helper()
	if h.addr != "" {
		return
	}
	dir, err := disk.OS(h.t.TempDir())
	h.must(err)
	h.ca, err = identity.OpenCA(dir, "example.org")
	h.must(err)
	tls, err := identity.ServerTLS(h.ca, true)
	h.must(err)
	s, err := wire.NewServer(wire.Config{}, tls, gate{h})
	h.must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	h.must(err)
	h.addr = l.Addr().String()
	h.done.Go(func() { _ = s.Serve(h.ctx, l) })
}

func (h *Hub) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// gate lets every spoke in. It implements wire.Deps.
type gate struct{ *Hub }

// Join implements wire.Deps.
func (g gate) Join(_ context.Context, _ [32]byte, spoke, node string, csr []byte) (cert, ca []byte, err error) {
	cert, err = g.ca.Sign(csr, spoke, node)
	return cert, g.ca.Cert(), err
}

// Site implements wire.Deps.
func (g gate) Site(context.Context, identity.Peer) ([]byte, error) { return nil, fabric.Unsupported }

// Open implements wire.Deps.
func (g gate) Open(ctx context.Context, p identity.Peer, _ string, old namespace.Ticket) (wire.Session, namespace.Ticket, namespace.Info, rights.Lease, error) {
	s, t, info, lease, err := g.engine.Open(ctx, p.Spoke, false, old)
	if err != nil {
		return nil, t, info, lease, err
	}
	return s, t, info, lease, nil
}

// Resume implements wire.Deps.
func (g gate) Resume(ctx context.Context, p identity.Peer, _ string, t namespace.Ticket) (wire.Session, error) {
	s, err := g.engine.Resume(ctx, p.Spoke, t)
	if err != nil {
		return nil, err
	}
	return s, nil
}
