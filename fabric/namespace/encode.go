package namespace

import (
	"fmt"

	"github.com/spokefs/spokefs/fabric"
)

// formatVersion is the first byte of every encoding that leaves this package: commands, results,
// records and the values of messages (docs/formats/command.md, docs/formats/records.md).
const formatVersion = 1

func invalid(what string) error {
	return &fabric.Error{Op: "decode", Code: fabric.Invalid, Err: fmt.Errorf("not a %s of version %d", what, formatVersion)}
}

// one encodes a value behind its version.
func one(dst []byte, put func(w *writer)) []byte {
	w := writer{p: append(dst, formatVersion)}
	put(&w)
	return w.p
}

// take decodes what one wrote, and nothing after it.
func take[T any](p []byte, what string, get func(r *reader) T) (T, error) {
	r := reader{p: p}
	if r.u8() != formatVersion {
		r.fail()
	}
	v := get(&r)
	if r.bad || len(r.p) != 0 {
		var zero T
		return zero, invalid(what)
	}
	return v, nil
}

// AppendInode encodes an inode.
func AppendInode(dst []byte, n *Inode) []byte { return one(dst, func(w *writer) { w.inode(n) }) }

// DecodeInode is the reverse; Invalid if p is anything else.
func DecodeInode(p []byte) (Inode, error) { return take(p, "inode", (*reader).inode) }

// AppendFound encodes one step of a Lookup.
func AppendFound(dst []byte, f *Found) []byte {
	return one(dst, func(w *writer) {
		w.uint(uint64(f.Dir))
		w.str(f.Name)
		w.uint(uint64(f.Cookie))
		w.inode(&f.Inode)
		w.uint(uint64(len(f.Blobs)))
		for i := range f.Blobs {
			w.blob(&f.Blobs[i])
		}
	})
}

// DecodeFound is the reverse; Invalid if p is anything else.
func DecodeFound(p []byte) (Found, error) {
	return take(p, "found", func(r *reader) (f Found) {
		f.Dir, f.Name, f.Cookie, f.Inode = fabric.Ino(r.uint()), r.str(), fabric.Cookie(r.uint()), r.inode()
		for range r.count(39) {
			f.Blobs = append(f.Blobs, r.blob())
		}
		return f
	})
}

// AppendDirent encodes an entry of a page.
func AppendDirent(dst []byte, d *Dirent) []byte {
	return one(dst, func(w *writer) {
		w.str(d.Name)
		w.uint(uint64(d.Cookie))
		w.inode(&d.Inode)
	})
}

// DecodeDirent is the reverse; Invalid if p is anything else.
func DecodeDirent(p []byte) (Dirent, error) {
	return take(p, "dirent", func(r *reader) Dirent {
		return Dirent{Name: r.str(), Cookie: fabric.Cookie(r.uint()), Inode: r.inode()}
	})
}

// AppendInfo encodes what a node must know of a namespace.
func AppendInfo(dst []byte, i *Info) []byte { return one(dst, func(w *writer) { w.info(i) }) }

// DecodeInfo is the reverse; Invalid if p is anything else.
func DecodeInfo(p []byte) (Info, error) { return take(p, "info", (*reader).info) }

// AppendTicket encodes a ticket. It is a secret.
func AppendTicket(dst []byte, t *Ticket) []byte {
	return one(dst, func(w *writer) {
		w.session(t.Session)
		w.uint(t.Epoch)
		w.raw(t.Secret[:])
	})
}

// DecodeTicket is the reverse; Invalid if p is anything else.
func DecodeTicket(p []byte) (Ticket, error) {
	return take(p, "ticket", func(r *reader) Ticket {
		return Ticket{Session: r.session(), Epoch: r.uint(), Secret: r.key()}
	})
}

// AppendResult encodes a result.
func AppendResult(dst []byte, res *Result) []byte {
	return one(dst, func(w *writer) {
		w.u8(uint8(res.Verdict))
		w.uint(res.Index)
		w.uint(uint64(len(res.Ops)))
		for i := range res.Ops {
			w.opResult(&res.Ops[i])
		}
	})
}

// Which fields of an OpResult are not zero; the rest is left out.
const (
	hasAttr = 1 << iota
	hasBefore
	hasCookie
	hasDir
	hasDir2
	hasLost
	hasHeld
	hasW
	hasEpoch
	hasRaced
	hasEnd
)

func (w *writer) opResult(o *OpResult) {
	var has uint64
	set := func(bit uint64, on bool) {
		if on {
			has |= bit
		}
	}
	set(hasAttr, o.Attr.Ino != 0)
	set(hasBefore, o.Before != fabric.Version{})
	set(hasCookie, o.Cookie != 0)
	set(hasDir, o.Dir.After.Ino != 0)
	set(hasDir2, o.Dir2.After.Ino != 0)
	set(hasLost, o.Lost.Ino != 0)
	set(hasHeld, o.Held)
	set(hasW, o.W)
	set(hasEpoch, o.Epoch != 0)
	set(hasRaced, o.Raced)
	w.uint(has)
	w.u8(uint8(o.Code))
	if has&hasAttr != 0 {
		w.attr(&o.Attr)
	}
	if has&hasBefore != 0 {
		w.version(o.Before)
	}
	if has&hasCookie != 0 {
		w.uint(uint64(o.Cookie))
	}
	if has&hasDir != 0 {
		w.change(&o.Dir)
	}
	if has&hasDir2 != 0 {
		w.change(&o.Dir2)
	}
	if has&hasLost != 0 {
		w.attr(&o.Lost)
	}
	if has&hasEpoch != 0 {
		w.uint(o.Epoch)
	}
}

func (r *reader) opResult() (o OpResult) {
	has := r.uint()
	if has >= hasEnd {
		r.fail() // a field that this version does not know
	}
	o.Code = fabric.Code(r.u8())
	if has&hasAttr != 0 {
		o.Attr = r.attr()
	}
	if has&hasBefore != 0 {
		o.Before = r.version()
	}
	if has&hasCookie != 0 {
		o.Cookie = fabric.Cookie(r.uint())
	}
	if has&hasDir != 0 {
		o.Dir = r.change()
	}
	if has&hasDir2 != 0 {
		o.Dir2 = r.change()
	}
	if has&hasLost != 0 {
		o.Lost = r.attr()
	}
	if has&hasEpoch != 0 {
		o.Epoch = r.uint()
	}
	o.Held, o.W, o.Raced = has&hasHeld != 0, has&hasW != 0, has&hasRaced != 0
	return o
}

// DecodeResult is the reverse of AppendResult; Invalid if p is anything else, or has more than
// MaxOps ops: a short message must not ask for much memory.
func DecodeResult(p []byte) (Result, error) {
	return take(p, "result", func(r *reader) (res Result) {
		res.Verdict, res.Index = Verdict(r.u8()), r.uint()
		n := r.count(2)
		if n > MaxOps {
			r.fail()
			return res
		}
		for range n {
			res.Ops = append(res.Ops, r.opResult())
		}
		return res
	})
}
