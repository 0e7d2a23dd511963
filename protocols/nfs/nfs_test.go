package nfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

func TestStatusComplete(t *testing.T) {
	for i := range fabric.Codes {
		c := fabric.Code(i)
		s, ok := statusOf(c)
		if ok == (c == fabric.Canceled) {
			t.Errorf("%v: mapped %v", c, ok)
		}
		if (s == 0) != (c == fabric.OK) {
			t.Errorf("%v: status %d", c, s)
		}
	}
}

func be(vs ...uint32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

const last = 0x80000000

// TestRecords is D1.
func TestRecords(t *testing.T) {
	cfg := Config{MaxRecord: 12, MaxFragments: 3}
	for _, c := range []struct {
		name string
		in   []byte
		want []byte
		err  error
	}{
		{"nothing", nil, nil, io.EOF},
		{"one", be(last|4, 7), be(7), nil},
		{"two", be(4, 7, last|4, 8), be(7, 8), nil},
		{"at the limit", be(last|12, 1, 2, 3), be(1, 2, 3), nil},
		{"empty", be(last), nil, errRecordEmpty},
		{"empty then bytes", be(0, last|4, 7), be(7), nil},
		{"too long", be(last|13, 1, 2, 3, 4), nil, errRecordTooLong},
		{"longest mark", be(0xffffffff), nil, errRecordTooLong},
		{"too long together", be(8, 1, 2, last|8, 3, 4), nil, errRecordTooLong},
		{"endless", be(0, 0, 0, 0, 0), nil, errFragments},
		{"cut in mark", []byte{0x80, 0}, nil, io.ErrUnexpectedEOF},
		{"cut in body", be(last|8, 1), nil, io.ErrUnexpectedEOF},
		{"cut before body", be(last | 8), nil, io.ErrUnexpectedEOF},
		{"cut between fragments", be(4, 1), nil, io.ErrUnexpectedEOF},
	} {
		got, err := newRecordReader(bytes.NewReader(c.in), cfg).next(nil)
		if !errors.Is(err, c.err) || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x, %v", c.name, got, err)
		}
	}
}

// asked remembers the longest read that was asked of it, which is the memory taken ahead.
type asked struct {
	io.Reader
	most int
}

func (a *asked) Read(p []byte) (int, error) {
	a.most = max(a.most, len(p))
	return a.Reader.Read(p)
}

// TestRecordPromiseTakesLittle: a mark of 1 MiB with no bytes behind it takes one step of memory.
func TestRecordPromiseTakesLittle(t *testing.T) {
	r := &asked{Reader: bytes.NewReader(be(last | 1<<20))}
	if _, err := newRecordReader(r, Config{}).next(nil); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if r.most != recordStep {
		t.Errorf("%d bytes ahead, want %d", r.most, recordStep)
	}
}

// TestRecordReuse: a record that fits the buffer it is given allocates nothing.
func TestRecordReuse(t *testing.T) {
	in := bytes.NewReader(nil)
	rr := newRecordReader(in, Config{})
	record, buf := be(last|8, 1, 2), make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		in.Reset(record)
		if got, err := rr.next(buf); err != nil || len(got) != 8 {
			t.Fatal(got, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func header(rpc uint32, cred []byte) []byte {
	return slices.Concat(be(9, 0, rpc, 100003, 3, 1), cred, be(0, 0), be(42))
}

func sys(body []byte) []byte { return slices.Concat(be(authSys, uint32(len(body))), body) }

// TestCalls is D2, D3, D4 and the RPC version of D7.
func TestCalls(t *testing.T) {
	gids := make([]uint32, 17)
	for _, c := range []struct {
		name string
		in   []byte
		uid  uint32
		err  error
	}{
		{"none", header(2, be(0, 0)), nobody, nil},
		{"sys", header(2, sys(be(0, 0, 5, 6, 2, 7, 8))), 5, nil},
		{"16 groups", header(2, sys(slices.Concat(be(0, 0, 5, 6, 16), be(gids[:16]...)))), 5, nil},
		{"17 groups", header(2, sys(slices.Concat(be(0, 0, 5, 6, 17), be(gids...)))), nobody, errBadCred},
		{"2^31 groups", header(2, sys(be(0, 0, 5, 6, 1<<31))), nobody, errBadCred},
		{"2^30 groups", header(2, sys(be(0, 0, 5, 6, 1<<30))), nobody, errBadCred},
		{"bytes after groups", header(2, sys(be(0, 0, 5, 6, 0, 1))), nobody, errBadCred},
		{"machine name 2^32-1", header(2, sys(be(0, 0xffffffff, 5, 6, 0))), nobody, errBadCred},
		{"machine name over body", header(2, sys(be(0, 200, 5, 6, 0))), nobody, errBadCred},
		{"other flavour", header(2, be(6, 0)), nobody, errBadCred},
		{"auth body 404", header(2, sys(make([]byte, 404))), 0, errAuthBody},
		{"auth body 2^32-1", be(9, 0, 2, 100003, 3, 1, 1, 0xffffffff), 0, errAuthBody},
		{"auth body over record", be(9, 0, 2, 100003, 3, 1, 1, 400), 0, errShort},
		{"RPC 3", header(3, be(0, 0)), 0, errRPCVersion},
		{"a reply", be(9, 1, 2, 0, 0, 0), 0, errNotCall},
		{"short", be(9, 0), 0, errShort},
	} {
		got, err := parseCall(c.in)
		if err != c.err || got.cred.UID != c.uid || got.xid != 9 {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		if err == nil && !bytes.Equal(got.args, be(42)) {
			t.Errorf("%s: args %x", c.name, got.args)
		}
	}
}

func FuzzCall(f *testing.F) {
	f.Add(slices.Concat(be(last|48), header(2, sys(be(0, 0, 5, 6, 2, 7, 8)))))
	f.Add(be(0, last|4, 7))
	f.Fuzz(func(t *testing.T, in []byte) {
		rr := newRecordReader(bytes.NewReader(in), Config{MaxRecord: 4096})
		for {
			rec, err := rr.next(nil)
			if err != nil {
				return
			}
			if len(rec) == 0 || len(rec) > 4096 {
				t.Fatalf("record of %d", len(rec))
			}
			c, err := parseCall(rec)
			if len(c.cred.Groups) > maxSysGroups || len(c.args) > len(rec) {
				t.Fatalf("%+v", c)
			}
			if err == errBadCred && c.cred.UID != nobody {
				t.Fatalf("bad credentials gave uid %d", c.cred.UID)
			}
		}
	})
}
