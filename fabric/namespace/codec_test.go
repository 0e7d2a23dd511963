package namespace

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/storage"
)

var update = flag.Bool("update", false, "write the golden files anew")

// setAll sets every encoded field below v to a value that no other field has.
func setAll(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(*n & 0xff)
	case reflect.Int64:
		v.SetInt(-int64(*n))
	case reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			setAll(v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			setAll(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			local := name == "From" && v.Type() == reflect.TypeFor[fabric.Cred]() || name == "Fresh"
			if !local { // a Watcher and a time left mean something at one node only
				setAll(v.Field(i), n)
			}
		}
	default:
		panic("setAll: " + v.Type().String())
	}
}

func filled[T any]() (t T) {
	setAll(reflect.ValueOf(&t).Elem(), new(uint64))
	return t
}

// ops is one filled op of each opcode that has a type.
func ops() (out []Op) {
	for code := range 256 {
		if o := newOp(Opcode(code)); o != nil {
			setAll(reflect.ValueOf(o).Elem(), new(uint64))
			out = append(out, o)
		}
	}
	return out
}

func sample(o ...Op) Command { return Command{From: filled[Origin](), Wall: -5, Ops: o} }

// golden compares got with a file of testdata, which -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs: the format changed without a new version\n%s", name, got)
	}
}

func TestEveryOpSurvivesItsEncoding(t *testing.T) {
	var text strings.Builder
	for _, o := range ops() {
		c := sample(o)
		p := AppendCommand(nil, &c)
		fmt.Fprintf(&text, "%T %x\n", o, p)
		d, err := DecodeCommand(p)
		if err != nil || !reflect.DeepEqual(c, d) {
			t.Errorf("%T: %v\n sent %+v\n got  %+v", o, err, c, d)
		}
	}
	golden(t, "command-v1.golden", text.String())
}

// survives checks one value's encoding, and that no part of it is taken for the whole.
func survives[T any](t *testing.T, text *strings.Builder, add func([]byte, *T) []byte, get func([]byte) (T, error)) {
	t.Helper()
	v := filled[T]()
	p := add(nil, &v)
	fmt.Fprintf(text, "%T %x\n", v, p)
	if d, err := get(p); err != nil || !reflect.DeepEqual(v, d) {
		t.Errorf("%T: %v\n sent %+v\n got  %+v", v, err, v, d)
	}
	for n := range p {
		if _, err := get(p[:n]); !errors.Is(err, fabric.Invalid) {
			t.Errorf("%T: %d of %d bytes: %v", v, n, len(p), err)
		}
	}
	for what, bad := range map[string][]byte{
		"a byte more": append(bytes.Clone(p), 0), "version 2": append([]byte{2}, p[1:]...),
	} {
		if _, err := get(bad); !errors.Is(err, fabric.Invalid) {
			t.Errorf("%T with %s: %v", v, what, err)
		}
	}
}

func TestValuesSurviveTheirEncoding(t *testing.T) {
	var text strings.Builder
	survives(t, &text, AppendInode, DecodeInode)
	survives(t, &text, AppendFound, DecodeFound)
	survives(t, &text, AppendDirent, DecodeDirent)
	survives(t, &text, AppendInfo, DecodeInfo)
	survives(t, &text, AppendTicket, DecodeTicket)
	survives(t, &text, AppendResult, DecodeResult)
	golden(t, "values-v1.golden", text.String())
}

func TestBadCommandsAreRefused(t *testing.T) {
	for _, o := range ops() {
		c := sample(o)
		p := AppendCommand(nil, &c)
		for n := range p {
			if _, err := DecodeCommand(p[:n]); !errors.Is(err, fabric.Invalid) {
				t.Fatalf("%T: %d of %d bytes: %v", o, n, len(p), err)
			}
		}
		if _, err := DecodeCommand(append(p, 0)); !errors.Is(err, fabric.Invalid) {
			t.Errorf("%T and a byte: %v", o, err)
		}
	}
	head := sample()
	empty := AppendCommand(nil, &head)
	stem := empty[:len(empty)-1] // without the number of ops
	for _, code := range []Opcode{0, opCloneRange, opRenameExchange, 99, 255} {
		p := append(append(bytes.Clone(stem), 1, byte(code)), make([]byte, 64)...)
		if _, err := DecodeCommand(p); !errors.Is(err, fabric.Invalid) {
			t.Errorf("opcode %d: %v", code, err)
		}
	}
	many := sample()
	for range MaxOps + 1 {
		many.Ops = append(many.Ops, &DropHold{})
	}
	if _, err := DecodeCommand(AppendCommand(nil, &many)); !errors.Is(err, fabric.Invalid) {
		t.Errorf("too many ops: %v", err)
	}
	if _, err := DecodeCommand(make([]byte, MaxCommand+1)); !errors.Is(err, fabric.TooBig) {
		t.Errorf("too long: %v", err)
	}
}

func TestBadResultsAreRefused(t *testing.T) {
	many := Result{Ops: make([]OpResult, MaxOps+1)}
	if _, err := DecodeResult(AppendResult(nil, &many)); !errors.Is(err, fabric.Invalid) {
		t.Errorf("too many ops: %v", err)
	}
	unknown := one(nil, func(w *writer) { w.u8(0); w.uint(1); w.uint(1); w.uint(hasEnd); w.u8(0) })
	if _, err := DecodeResult(unknown); !errors.Is(err, fabric.Invalid) {
		t.Errorf("unknown field: %v", err)
	}
}

// TestRecordsAreAsWritten fixes the keys and values of every kind of record.
func TestRecordsAreAsWritten(t *testing.T) {
	v, id, index := &kv.Mem{}, fabric.SessionID{15: 7}, uint64(0)
	do := func(from Origin, o Op) OpResult {
		t.Helper()
		index++
		res := Apply(v, index, Command{From: from, Wall: fabric.Time(index), Ops: []Op{o}})
		if res.Verdict != Applied || res.Ops[0].Code != fabric.OK {
			t.Fatalf("%T: %+v", o, res)
		}
		return res.Ops[0]
	}
	do(Origin{}, &Init{Info: Info{ID: 1, Name: "golden", History: 1}, Mode: 0o755})
	epoch := do(Origin{}, &OpenSession{ID: id, Node: "node"}).Epoch
	from := func(seq uint32) Origin { return Origin{Session: id, Epoch: epoch, Slot: 3, Seq: seq} }
	file := fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644}
	do(from(1), &Make{
		Dir: fabric.RootIno, Name: "file", Spec: file, WantW: true,
		Content: Content{Size: 3, Used: 3, Inline: []byte("abc")},
		Xattrs:  []Xattr{{Name: "user.a", Value: []byte("b")}},
	})
	do(from(2), &Make{Dir: fabric.RootIno, Spec: file})
	do(Origin{}, &PackBegin{Key: "pack"})
	do(Origin{}, &PackEnd{Key: "pack", Size: 64, Entries: []PackEntry{{
		Ref: storage.Ref{Sum: [32]byte{9}, Len: 5}, Kind: storage.Chunk, Form: storage.Raw, Off: 16, Len: 5, For: id,
	}}})
	var text strings.Builder
	kinds := map[byte]bool{}
	for k, p := range v.Scan(nil, nil) {
		kinds[k[0]] = true
		fmt.Fprintf(&text, "%x %x\n", k, p)
	}
	for _, k := range []byte("abcdghiklmnpqrsvwx") {
		if !kinds[k] {
			t.Errorf("no record of kind %c", k)
		}
	}
	if bad := Check(v); len(bad) != 0 {
		t.Errorf("fsck: %v", bad)
	}
	golden(t, "records-v1.golden", text.String())
}

// again checks that what decodes also encodes and decodes to the same.
func again[T any](t *testing.T, p []byte, add func([]byte, *T) []byte, get func([]byte) (T, error)) {
	v, err := get(p)
	if err != nil {
		return
	}
	if w, err := get(add(nil, &v)); err != nil || !reflect.DeepEqual(v, w) {
		t.Fatalf("%+v became %+v: %v", v, w, err)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, o := range ops() {
		c := sample(o)
		f.Add(AppendCommand(nil, &c))
	}
	f.Fuzz(func(t *testing.T, p []byte) { again(t, p, AppendCommand, DecodeCommand) })
}

func FuzzDecodeValues(f *testing.F) {
	found, res := filled[Found](), filled[Result]()
	f.Add(AppendFound(nil, &found))
	f.Add(AppendResult(nil, &res))
	f.Fuzz(func(t *testing.T, p []byte) {
		again(t, p, AppendInode, DecodeInode)
		again(t, p, AppendFound, DecodeFound)
		again(t, p, AppendDirent, DecodeDirent)
		again(t, p, AppendInfo, DecodeInfo)
		again(t, p, AppendTicket, DecodeTicket)
		again(t, p, AppendResult, DecodeResult)
	})
}
