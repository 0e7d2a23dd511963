package namespace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
)

// simulated is one client of the simulation: a session that sends random commands, now and then
// twice or out of order.
type simulated struct {
	id    fabric.SessionID
	epoch uint64
	seq   [4]uint32
	sent  []Command // the last ones, to send again
	got   []Result
}

// world is one seed's run.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	v       *kv.Mem
	twin    *kv.Mem // a second replica that gets the same log
	index   uint64
	clients []*simulated
	inos    []fabric.Ino
	dirs    []fabric.Ino
}

// TestSim runs random commands of several sessions with repeats, reordering, expiry and races,
// and checks the whole state after each seed: exactly once, replicas equal, fsck clean.
// SPOKEFS_SEED replays one seed, SPOKEFS_SEEDS says how many to run.
func TestSim(t *testing.T) {
	first, n := uint64(1), uint64(60)
	if s, err := strconv.ParseUint(os.Getenv("SPOKEFS_SEED"), 10, 64); err == nil {
		first, n = s, 1
	} else if s, err := strconv.ParseUint(os.Getenv("SPOKEFS_SEEDS"), 10, 64); err == nil {
		n = s
	}
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { newWorld(t, seed).run(400) })
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), v: &kv.Mem{}, twin: &kv.Mem{}}
	w.apply(Command{Ops: []Op{&Init{Info: Info{ID: 1, Name: "sim", History: 1}, Mode: 0o777}}})
	w.dirs = []fabric.Ino{fabric.RootIno}
	for i := range 3 {
		w.clients = append(w.clients, &simulated{})
		w.open(i)
	}
	return w
}

// apply gives a command to both replicas, through its encoding.
func (w *world) apply(c Command) Result {
	w.index++
	c.Wall = fabric.Time(w.index * 10)
	p := AppendCommand(nil, &c)
	var res [2]Result
	for i, v := range []*kv.Mem{w.v, w.twin} {
		d, err := DecodeCommand(p)
		if err != nil {
			w.t.Fatal(err)
		}
		res[i] = Apply(v, w.index, d)
	}
	if !reflect.DeepEqual(res[0], res[1]) {
		w.t.Fatalf("replicas answer %+v and %+v", res[0], res[1])
	}
	q := AppendResult(nil, &res[0])
	again, err := DecodeResult(q)
	if err != nil || !bytes.Equal(AppendResult(nil, &again), q) {
		w.t.Fatalf("result %+v does not survive its encoding: %v", res[0], err)
	}
	return res[0]
}

func (w *world) open(i int) {
	c := w.clients[i]
	*c = simulated{}
	for j := range c.id {
		c.id[j] = byte(w.rng.Uint32())
	}
	res := w.apply(Command{Ops: []Op{&OpenSession{ID: c.id, Node: fmt.Sprint("node", i)}}})
	c.epoch = res.Ops[0].Epoch
}

func (w *world) run(steps int) {
	for range steps {
		c := w.clients[w.rng.IntN(len(w.clients))]
		switch w.rng.IntN(20) {
		case 0:
			w.repeat(c)
		case 1:
			w.skip(c)
		case 2:
			w.end(c)
		default:
			w.send(c, w.op(c))
		}
	}
	for _, p := range Check(w.v) {
		w.t.Errorf("inode %#x: %s", uint64(p.Ino), p.What)
	}
	if !reflect.DeepEqual(dump(w.v), dump(w.twin)) {
		w.t.Error("replicas differ")
	}
}

func dump(v kv.View) []string {
	var out []string
	for k, p := range v.Scan(nil, nil) {
		out = append(out, fmt.Sprintf("%q=%q", k, p))
	}
	return out
}

// send sends a new command, and remembers what it made.
func (w *world) send(c *simulated, o Op) {
	slot := w.rng.IntN(len(c.seq))
	c.seq[slot]++
	cmd := Command{From: Origin{c.id, c.epoch, uint16(slot), c.seq[slot]}, Ops: []Op{o}}
	res := w.apply(cmd)
	if res.Verdict != Applied || len(res.Ops) != 1 {
		w.t.Fatalf("%T: verdict %d", o, res.Verdict)
	}
	if res.Ops[0].Raced {
		c.seq[slot]-- // not consumed
		return
	}
	c.sent, c.got = append(c.sent, cmd), append(c.got, res)
	if m, ok := o.(*Make); ok && res.Ops[0].Code == fabric.OK {
		w.inos = append(w.inos, res.Ops[0].Attr.Ino)
		if m.Spec.Type == fabric.TypeDir {
			w.dirs = append(w.dirs, res.Ops[0].Attr.Ino)
		}
	}
}

// repeat sends an old command again: nothing may happen, and the answer is the same one, or none.
func (w *world) repeat(c *simulated) {
	if len(c.sent) == 0 {
		return
	}
	i := w.rng.IntN(len(c.sent))
	before := dump(w.v)
	res := w.apply(c.sent[i])
	if res.Verdict == Applied && !reflect.DeepEqual(res, c.got[i]) {
		w.t.Fatalf("sent again, %T answers %+v, first %+v", c.sent[i].Ops[0], res, c.got[i])
	}
	if res.Verdict == NotYet || !reflect.DeepEqual(before, dump(w.v)) {
		w.t.Fatalf("sent again, %T has an effect", c.sent[i].Ops[0])
	}
}

// skip sends a command whose predecessor is missing.
func (w *world) skip(c *simulated) {
	before := dump(w.v)
	res := w.apply(Command{From: Origin{c.id, c.epoch, 3, c.seq[3] + 2}, Ops: []Op{w.op(c)}})
	if res.Verdict != NotYet || !reflect.DeepEqual(before, dump(w.v)) {
		w.t.Fatalf("a gap has verdict %d", res.Verdict)
	}
}

// end expires or closes a session, checks that it is fenced, and opens another.
func (w *world) end(c *simulated) {
	var o Op = &ExpireSession{c.id, c.epoch}
	if w.rng.IntN(2) == 0 {
		o = &CloseSession{c.id, c.epoch}
	}
	w.apply(Command{Ops: []Op{o}})
	before := dump(w.v)
	res := w.apply(Command{From: Origin{c.id, c.epoch, 0, c.seq[0] + 1}, Ops: []Op{w.op(c)}})
	if res.Verdict != Dropped || !reflect.DeepEqual(before, dump(w.v)) {
		w.t.Fatalf("a command of an ended session has verdict %d", res.Verdict)
	}
	for i := range w.clients {
		if w.clients[i] == c {
			w.open(i)
		}
	}
}

func (w *world) name() string    { return string(rune('a' + w.rng.IntN(6))) }
func (w *world) dir() fabric.Ino { return w.dirs[w.rng.IntN(len(w.dirs))] }
func (w *world) ino() fabric.Ino {
	if len(w.inos) == 0 {
		return fabric.RootIno
	}
	return w.inos[w.rng.IntN(len(w.inos))]
}

// holders names some sessions, as the hub would.
func (w *world) holders() (out []fabric.SessionID) {
	for _, c := range w.clients {
		if w.rng.IntN(3) == 0 {
			out = append(out, c.id)
		}
	}
	return out
}

// expect is what a name is now, or in one case of eight something else.
func (w *world) expect(dir fabric.Ino, name string) Expect {
	ino, _, _ := GetDentry(w.v, dir, name)
	if w.rng.IntN(8) == 0 {
		ino++
	}
	return Expect{Ino: ino}
}

func (w *world) op(c *simulated) Op {
	who := fabric.Cred{}
	if w.rng.IntN(4) == 0 {
		who = fabric.Cred{UID: 1, GID: 1}
	}
	dir, name := w.dir(), w.name()
	switch w.rng.IntN(12) {
	case 0, 1:
		return &Make{Dir: dir, Name: name, Spec: fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o777}, Who: who}
	case 2, 3:
		return &Make{Dir: dir, Name: name, Spec: fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o666}, Who: who, WantW: w.rng.IntN(2) == 0,
			Content: Content{Inline: []byte(name), Size: 1, Used: 1}}
	case 4:
		return &Make{Dir: dir, Spec: fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o666}, Who: who}
	case 5:
		return &Link{Ino: w.ino(), Dir: dir, Name: name, Who: who}
	case 6:
		return &Replace{Ino: w.ino(), Dir: dir, Name: name, Who: who, Expect: w.expect(dir, name), Holders: w.holders()}
	case 7, 8:
		to, toName := w.dir(), w.name()
		return &Rename{From: dir, Old: name, To: to, Name: toName, Mode: fabric.RenameMode(w.rng.IntN(3)), Who: who,
			Src: w.expect(dir, name), Dst: w.expect(to, toName), Holders: w.holders()}
	case 9:
		return &Remove{Dir: dir, Name: name, Kind: fabric.RemoveKind(w.rng.IntN(3)), Who: who, Expect: w.expect(dir, name), Holders: w.holders()}
	case 10:
		n := w.rng.IntN(50)
		return &Publish{Ino: w.ino(), Base: uint64(w.rng.IntN(4)), Content: Content{Inline: make([]byte, n), Size: int64(n), Used: int64(n)}}
	}
	return &DropHold{Inos: []fabric.Ino{w.ino()}}
}
