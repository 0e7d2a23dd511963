package namespace

import (
	"encoding/binary"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage"
)

// pack is the record of a pack: registered before its PUT, finished after it.
type pack struct {
	number uint64
	size   int64 // 0: not finished
}

func (w *writer) pack(p *pack) {
	w.uint(p.number)
	w.int(p.size)
}

func (r *reader) pack() *pack { return &pack{number: r.uint(), size: r.int()} }

func (m *machine) packBegin(o *PackBegin) OpResult {
	if o.Key == "" || len(o.Key) > storage.MaxKeyLen {
		return OpResult{Code: fabric.Invalid}
	}
	if _, ok := m.v.Get(packKey(o.Key)); ok {
		return OpResult{Code: fabric.Exist}
	}
	m.c.nextPack++
	p := &pack{number: m.c.nextPack}
	save(m.v, packKey(o.Key), func(w *writer) { w.pack(p) })
	m.v.Set(numberKey(p.number), []byte(o.Key))
	return OpResult{}
}

// packEnd indexes a pack's entries, children first, and pins them. It takes all or nothing.
func (m *machine) packEnd(o *PackEnd) OpResult {
	p, ok := load(m.v, packKey(o.Key), (*reader).pack)
	if !ok {
		return OpResult{Code: fabric.NotExist}
	}
	if p.size != 0 { // the proposal came twice
		return OpResult{}
	}
	if code := m.checkPack(o); code != fabric.OK {
		return OpResult{Code: code}
	}
	p.size = o.Size
	save(m.v, packKey(o.Key), func(w *writer) { w.pack(p) })
	for i := range o.Entries {
		e := &o.Entries[i]
		if _, known := m.v.Get(blobKey(e.Ref)); !known { // a first location stays (A41)
			s := stored{pack: p.number, kind: e.Kind, form: e.Form, raw: e.Ref.Len, off: e.Off, len: e.Len, sum: e.Sum}
			save(m.v, blobKey(e.Ref), func(w *writer) { w.stored(&s) })
		}
		if _, live := GetSession(m.v, e.For); live {
			m.v.Set(pinKey(e.For, e.Ref), binary.BigEndian.AppendUint32(nil, e.Ref.Len))
			for _, c := range e.Children { // the node's pin covers them
				m.v.Delete(pinKey(e.For, c))
			}
		}
	}
	return OpResult{}
}

// checkPack refuses a pack with an entry that names something not stored (A21).
func (m *machine) checkPack(o *PackEnd) fabric.Code {
	here := make(map[storage.Ref]bool, len(o.Entries))
	for i := range o.Entries {
		e := &o.Entries[i]
		if e.Kind != storage.Chunk && e.Kind != storage.Node || e.Ref.Len == 0 || e.Ref.Len > storage.MaxRaw ||
			int64(e.Off)+int64(e.Len) > o.Size || e.Len == 0 {
			return fabric.Invalid
		}
		for _, c := range e.Children {
			if here[c] {
				continue
			}
			if s, ok := load(m.v, blobKey(c), (*reader).stored); !ok || s.raw != c.Len {
				return fabric.Invalid
			}
		}
		here[e.Ref] = true
	}
	return fabric.OK
}

func (m *machine) pin(o *Pin) OpResult {
	s, ok := GetSession(m.v, o.Session)
	if !ok || s.Epoch != o.Epoch {
		return OpResult{Code: fabric.Fenced}
	}
	for _, r := range o.Refs {
		if _, known := m.v.Get(blobKey(r)); known {
			m.v.Set(pinKey(o.Session, r), binary.BigEndian.AppendUint32(nil, r.Len))
		}
	}
	return OpResult{}
}
