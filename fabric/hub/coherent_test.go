package hub_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/consensus/model"
	"github.com/spokefs/spokefs/fabric/hub"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// slowLog takes a while for each call, so that requests overlap.
type slowLog struct {
	*model.Log
	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

func (l *slowLog) wait() {
	l.mu.Lock()
	d := time.Duration(1+l.rng.IntN(5000)) * time.Microsecond
	l.mu.Unlock()
	time.Sleep(d)
}

func (l *slowLog) Propose(ctx context.Context, cmd []byte) ([]byte, error) {
	l.wait()
	res, err := l.Log.Propose(ctx, cmd)
	l.wait() // it is applied, and who asked for it does not know yet
	return res, err
}

func (l *slowLog) Barrier(ctx context.Context) error {
	l.wait()
	return l.Log.Barrier(ctx)
}

// truth is what each file's counter is, known to the test alone: whoever may write has it.
type truth struct {
	mu     sync.Mutex // guards values
	values map[fabric.Ino]uint64
}

// spokeNode is the smallest caching node: counters in files, changed under W and read under R.
type spokeNode struct {
	w      *world
	name   string
	truth  *truth
	ticket namespace.Ticket
	rng    *rand.Rand

	mu      sync.Mutex // guards all below; taken before truth.mu
	session *hub.Session
	held    *rights.Held
	cache   map[fabric.Ino]counter
	seqs    map[uint16]uint32
	dropped fabric.Term
	used    int // reads and writes under a right
}

// counter is a cached file.
type counter struct {
	value, iver uint64
	size        int64
}

func (n *spokeNode) hub() *hub.Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.session
}

// again gets the session back after a change of leader; false: the call is not to be repeated.
func (n *spokeNode) again(err error) bool {
	if n.w.ctx.Err() != nil {
		return false
	}
	if !errors.Is(err, fabric.Unavailable) {
		n.w.t.Errorf("%s: %v", n.name, err)
		return false
	}
	time.Sleep(20 * time.Millisecond)
	if s, err := n.w.hub.Resume(n.w.ctx, n.name, n.ticket); err == nil {
		n.mu.Lock()
		n.session = s
		n.mu.Unlock()
	}
	return true
}

func (n *spokeNode) now() fabric.Instant { return fabric.Instant(time.Since(n.w.start)) }

// step is for events whose effects need nothing but a renewal soon.
func (n *spokeNode) step(e rights.HeldEvent) []rights.HeldEffect {
	out := n.held.Step(n.now(), e, nil)
	for _, e := range out {
		if t, ok := e.(rights.NewTerm); ok {
			for ino := range n.cache {
				if r, _ := n.held.Right(ino); r&rights.W == 0 {
					delete(n.cache, ino)
				}
			}
			n.dropped = t.Term
		}
	}
	return out
}

func (n *spokeNode) renewing() {
	for n.w.ctx.Err() == nil {
		n.mu.Lock()
		sent, dropped := n.now(), n.dropped
		n.mu.Unlock()
		l, err := n.hub().Renew(n.w.ctx, dropped, nil)
		if err == nil {
			n.mu.Lock()
			n.step(rights.Leased{Sent: sent, Lease: l})
			n.mu.Unlock()
		} else if !n.again(err) {
			return
		}
		time.Sleep(time.Second)
	}
}

func (n *spokeNode) listening() {
	for n.w.ctx.Err() == nil {
		for m, err := range n.hub().Events(n.w.ctx) {
			if err != nil {
				if !n.again(err) {
					return
				}
				break
			}
			if r, ok := m.(*rights.Recall); ok {
				n.w.bg.Go(func() { n.recalled(*r) })
			}
		}
	}
}

// recalled gives back: what is under W is published first.
func (n *spokeNode) recalled(r rights.Recall) {
	n.mu.Lock()
	var had rights.Right
	for _, e := range n.step(rights.Recalled{Recall: r}) {
		if g, ok := e.(rights.Give); ok {
			had = g.Had
		}
	}
	ack := rights.Ack{Ino: r.Ino, Seq: r.Seq}
	var c counter
	if had&rights.W != 0 {
		n.step(rights.Stopped{Ino: r.Ino})
		c = n.cache[r.Ino]
		if r.Kind == rights.Shared {
			ack.Kept = rights.R
		}
	}
	n.mu.Unlock()
	if had&rights.W != 0 {
		n.publish(r.Ino, c)
	}
	n.mu.Lock()
	n.step(rights.Answered{Ack: ack})
	if ack.Kept == 0 && had != 0 {
		if r, _ := n.held.Right(r.Ino); r == 0 {
			delete(n.cache, ack.Ino)
		}
	}
	n.mu.Unlock()
	_ = n.hub().Ack(n.w.ctx, []rights.Ack{ack})
}

func (n *spokeNode) publish(ino fabric.Ino, c counter) {
	n.mu.Lock()
	slot := uint16(192 + ino%64)
	n.seqs[slot]++
	from := namespace.Origin{Session: n.ticket.Session, Epoch: n.ticket.Epoch, Slot: slot, Seq: n.seqs[slot]}
	n.mu.Unlock()
	op := &namespace.Publish{Ino: ino, Base: c.iver, DropW: true,
		Content: namespace.Content{Size: 8, Used: 8, Inline: binary.LittleEndian.AppendUint64(nil, c.value)}}
	for {
		_, res, err := n.hub().Apply(n.w.ctx, namespace.Command{From: from, Ops: []namespace.Op{op}})
		if err == nil {
			if res.Ops[0].Code != fabric.OK && res.Ops[0].Code != fabric.Fenced {
				n.w.t.Errorf("%s: publish: %v", n.name, res.Ops[0].Code)
			}
			return
		}
		if !n.again(err) {
			return
		}
	}
}

// act reads or writes one counter under a right, which it gets first if it must.
func (n *spokeNode) act(ino fabric.Ino, want rights.Right) {
	if n.use(ino, want) {
		return
	}
	g, inodes, err := n.hub().Acquire(n.w.ctx, []rights.Want{{Ino: ino, Right: want, Wait: true}})
	if err != nil {
		n.again(err)
		return
	}
	n.mu.Lock()
	had, _ := n.held.Right(ino)
	for _, e := range n.step(rights.Granted{Grant: g[0]}) {
		if _, ok := e.(rights.Accepted); !ok || had&rights.W != 0 {
			continue
		}
		c := counter{iver: inodes[0].Iver, size: inodes[0].Size}
		if c.size == 8 {
			c.value = binary.LittleEndian.Uint64(inodes[0].Content.Inline)
		}
		n.cache[ino] = c
	}
	n.mu.Unlock()
	n.use(ino, want)
}

// use works on the cache if a right allows it, and compares it with the truth.
func (n *spokeNode) use(ino fabric.Ino, want rights.Right) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.held.Valid(n.now(), ino, want) {
		return false
	}
	n.truth.mu.Lock()
	defer n.truth.mu.Unlock()
	c := n.cache[ino]
	if c.value != n.truth.values[ino] {
		n.w.t.Errorf("%s: inode %#x is %d under %v, the truth is %d", n.name, uint64(ino), c.value, want, n.truth.values[ino])
	}
	if want == rights.W {
		c.value++
		n.truth.values[ino] = c.value
		n.cache[ino] = c
	}
	n.used++
	return true
}

// TestCoherent: three nodes count up shared files from their caches, over a log that forgets to
// answer and changes its leader. No count is lost, and nobody reads an old one.
func TestCoherent(t *testing.T) {
	for seed := range uint64(6) {
		run(t, model.Config{Seed: seed, Unknown: 0.05}, func(w *world) {
			maker := w.openRetry("maker")
			truth := &truth{values: map[fabric.Ino]uint64{}}
			var inos []fabric.Ino
			for i := range 3 {
				_, r := maker.make(fabric.RootIno, fmt.Sprint(i), false)
				inos = append(inos, r.Attr.Ino)
			}
			if err := maker.Close(w.ctx); err != nil {
				t.Fatal(err)
			}
			var nodes []*spokeNode
			var acting sync.WaitGroup
			for i := range 3 {
				o := w.openRetry(fmt.Sprint("n", i))
				n := &spokeNode{w: w, name: fmt.Sprint("n", i), truth: truth, ticket: o.ticket, session: o.Session,
					rng: rand.New(rand.NewPCG(seed, uint64(i))), held: rights.NewHeld(o.epoch, rights.HeldConfig{}),
					cache: map[fabric.Ino]counter{}, seqs: map[uint16]uint32{}}
				nodes = append(nodes, n)
				w.bg.Go(n.renewing)
				w.bg.Go(n.listening)
				acting.Go(func() {
					for range 400 {
						want := rights.R
						if n.rng.IntN(2) == 0 {
							want = rights.W
						}
						n.act(inos[n.rng.IntN(len(inos))], want)
						time.Sleep(time.Duration(1+n.rng.IntN(30)) * time.Millisecond)
					}
				})
			}
			w.bg.Go(func() {
				for range 3 {
					time.Sleep(2 * time.Second)
					w.log.Depose()
					time.Sleep(500 * time.Millisecond)
					w.log.Elect()
				}
			})
			acting.Wait()
			total := uint64(0)
			for _, ino := range inos {
				total += truth.values[ino]
			}
			for _, n := range nodes {
				if n.used == 0 {
					t.Error("seed", seed, n.name, "used nothing")
				}
			}
			if total < 50 {
				t.Error("seed", seed, "only", total, "writes")
			}
		})
	}
}
