package namespace

import (
	"encoding/binary"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage"
)

// writer appends fields; reader takes them off again. Numbers are uvarints (signed ones zigzag),
// byte strings have their length before them.
type writer struct{ p []byte }

func (w *writer) u8(v uint8)    { w.p = append(w.p, v) }
func (w *writer) uint(v uint64) { w.p = binary.AppendUvarint(w.p, v) }
func (w *writer) int(v int64)   { w.p = binary.AppendVarint(w.p, v) }
func (w *writer) bool(v bool) {
	if v {
		w.u8(1)
	} else {
		w.u8(0)
	}
}
func (w *writer) raw(p []byte)                { w.p = append(w.p, p...) }
func (w *writer) bytes(p []byte)              { w.uint(uint64(len(p))); w.raw(p) }
func (w *writer) str(s string)                { w.uint(uint64(len(s))); w.p = append(w.p, s...) }
func (w *writer) ref(r storage.Ref)           { w.p = r.Append(w.p) }
func (w *writer) session(id fabric.SessionID) { w.raw(id[:]) }
func (w *writer) sessions(s []fabric.SessionID) {
	w.uint(uint64(len(s)))
	for _, id := range s {
		w.session(id)
	}
}
func (w *writer) inos(s []fabric.Ino) {
	w.uint(uint64(len(s)))
	for _, ino := range s {
		w.uint(uint64(ino))
	}
}
func (w *writer) refs(s []storage.Ref) {
	w.uint(uint64(len(s)))
	for _, r := range s {
		w.ref(r)
	}
}

// reader is bad once a field does not fit; it then gives zeros.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) fail() {
	r.bad = true
	r.p = nil
}

func (r *reader) raw(n uint64) []byte {
	if n > uint64(len(r.p)) {
		r.fail()
		return nil
	}
	p := r.p[:n]
	r.p = r.p[n:]
	return p
}

func (r *reader) u8() uint8 {
	if p := r.raw(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.p)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.p)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *reader) u16() uint16 {
	v := r.uint()
	if v > 1<<16-1 {
		r.fail()
	}
	return uint16(v)
}

func (r *reader) u32() uint32 {
	v := r.uint()
	if v > 1<<32-1 {
		r.fail()
	}
	return uint32(v)
}

func (r *reader) bool() bool {
	switch r.u8() {
	case 0:
		return false
	case 1:
		return true
	}
	r.fail()
	return false
}

func (r *reader) bytes() []byte {
	p := r.raw(r.uint())
	if len(p) == 0 {
		return nil
	}
	return append([]byte(nil), p...)
}

func (r *reader) str() string { return string(r.raw(r.uint())) }

func (r *reader) ref() storage.Ref {
	ref, ok := storage.DecodeRef(r.raw(storage.RefLen))
	if !ok {
		r.fail()
	}
	return ref
}

func (r *reader) session() (id fabric.SessionID) {
	copy(id[:], r.raw(16))
	return id
}

func (r *reader) key() (k [32]byte) {
	copy(k[:], r.raw(32))
	return k
}

// count reads the length of a list whose items have at least size bytes each.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.p)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) sessions() []fabric.SessionID {
	var out []fabric.SessionID
	for range r.count(16) {
		out = append(out, r.session())
	}
	return out
}

func (r *reader) inos() []fabric.Ino {
	var out []fabric.Ino
	for range r.count(1) {
		out = append(out, fabric.Ino(r.uint()))
	}
	return out
}

func (r *reader) refs() []storage.Ref {
	var out []storage.Ref
	for range r.count(storage.RefLen) {
		out = append(out, r.ref())
	}
	return out
}
