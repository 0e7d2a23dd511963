package namespace

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
)

// slots is a namespace with one session that makes directories.
type slots struct {
	v     kv.Mem
	from  Origin
	index uint64
}

func newSlots(t *testing.T) *slots {
	s := &slots{from: Origin{Session: fabric.SessionID{1}, Slot: 5}}
	s.hub(&Init{Info: Info{ID: 1, Name: "slots", History: 1}, Mode: 0o777})
	s.from.Epoch = s.hub(&OpenSession{ID: s.from.Session, Node: "node"}).Ops[0].Epoch
	if s.from.Epoch == 0 {
		t.Fatal("no session")
	}
	return s
}

func (s *slots) apply(c Command) Result {
	s.index++
	c.Wall = fabric.Time(s.index)
	return Apply(&s.v, s.index, c)
}

func (s *slots) hub(o ...Op) Result { return s.apply(Command{Ops: o}) }

func (s *slots) send(seq uint32, o ...Op) Result {
	from := s.from
	from.Seq = seq
	return s.apply(Command{From: from, Ops: o})
}

func mkdir(name string) Op {
	return &Make{Dir: fabric.RootIno, Name: name, Spec: fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755}}
}

// dump is all records but the counters, whose wall grows with every command.
func (s *slots) dump() string {
	var b bytes.Buffer
	for k, p := range s.v.Scan(nil, nil) {
		if k[0] != keyCounters {
			fmt.Fprintf(&b, "%x %x\n", k, p)
		}
	}
	return b.String()
}

// TestSlotAnswers gives commands in a wrong order, twice, too early and too late (A33): what is
// not the next seq changes nothing.
func TestSlotAnswers(t *testing.T) {
	s := newSlots(t)
	first := s.send(1, mkdir("1"))
	for seq := uint32(2); seq <= 40; seq++ {
		s.send(seq, mkdir(fmt.Sprint(seq)))
	}
	before := s.dump()
	for _, c := range []struct {
		seq  uint32
		want Verdict
	}{
		{0, Refused}, {42, NotYet}, {72, NotYet}, {73, Refused}, {8, Dropped}, {1, Dropped}, {9, Applied}, {40, Applied},
	} {
		if res := s.send(c.seq, mkdir("new")); res.Verdict != c.want {
			t.Errorf("seq %d after 40: verdict %d, want %d", c.seq, res.Verdict, c.want)
		}
	}
	if s.dump() != before {
		t.Error("a command out of order changed the state")
	}
	if first.Verdict != Applied || first.Ops[0].Code != fabric.OK {
		t.Errorf("the first command: %+v", first)
	}
}

func TestRepeatGetsTheFirstResult(t *testing.T) {
	s := newSlots(t)
	first := s.send(1, mkdir("a"))
	s.send(2, mkdir("b"))
	if again := s.send(1, mkdir("a")); !reflect.DeepEqual(first, again) {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
}

func TestLongResultIsReadAgain(t *testing.T) {
	s := newSlots(t)
	var many []Op
	for i := range 40 {
		many = append(many, mkdir(fmt.Sprint(i)))
	}
	if res := s.send(1, many...); len(AppendResult(nil, &res)) <= MaxResult {
		t.Fatalf("the result is too short for this test: %+v", res)
	}
	if res := s.send(1, many...); res.Verdict != ReadAgain {
		t.Errorf("verdict %d", res.Verdict)
	}
}

// TestRacedKeepsTheSeq: one op that raced stops the whole command, and the seq is still free.
func TestRacedKeepsTheSeq(t *testing.T) {
	s := newSlots(t)
	s.send(1, mkdir("a"))
	before := s.dump()
	remove := func(e Expect) Op {
		return &Remove{Dir: fabric.RootIno, Name: "a", Kind: fabric.RemoveDir, Expect: e}
	}
	res := s.send(2, mkdir("b"), remove(Expect{Ino: 99}))
	if len(res.Ops) != 2 || !res.Ops[1].Raced || s.dump() != before {
		t.Errorf("raced: %+v", res)
	}
	ino, _, _ := GetDentry(&s.v, fabric.RootIno, "a")
	if res = s.send(2, remove(Expect{Ino: ino})); res.Verdict != Applied || res.Ops[0].Code != fabric.OK {
		t.Errorf("the same seq after a race: %+v", res)
	}
}

func TestEndedSessionIsDropped(t *testing.T) {
	s := newSlots(t)
	s.send(1, mkdir("a"))
	s.hub(&ExpireSession{ID: s.from.Session, Epoch: s.from.Epoch})
	before := s.dump()
	for _, seq := range []uint32{1, 2} {
		if res := s.send(seq, mkdir("b")); res.Verdict != Dropped {
			t.Errorf("seq %d: verdict %d", seq, res.Verdict)
		}
	}
	if s.dump() != before {
		t.Error("a fenced session changed the state")
	}
}
