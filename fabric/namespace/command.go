package namespace

import (
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage"
)

// AppendCommand encodes a command.
func AppendCommand(dst []byte, c *Command) []byte {
	return one(dst, func(w *writer) {
		w.session(c.From.Session)
		w.uint(c.From.Epoch)
		w.uint(uint64(c.From.Slot))
		w.uint(uint64(c.From.Seq))
		w.int(int64(c.Wall))
		w.uint(uint64(len(c.Ops)))
		for _, o := range c.Ops {
			w.u8(uint8(o.opcode()))
			o.put(w)
		}
	})
}

// DecodeCommand is the reverse. Invalid: p is anything else, has an opcode that is not known, or
// more than MaxOps ops; TooBig over MaxCommand bytes.
func DecodeCommand(p []byte) (Command, error) {
	if len(p) > MaxCommand {
		return Command{}, &fabric.Error{Op: "decode", Code: fabric.TooBig}
	}
	return take(p, "command", func(r *reader) (c Command) {
		c.From = Origin{Session: r.session(), Epoch: r.uint(), Slot: r.u16(), Seq: r.u32()}
		c.Wall = fabric.Time(r.int())
		n := r.count(1)
		if n > MaxOps {
			r.fail()
			return c
		}
		for range n {
			o := newOp(Opcode(r.u8()))
			if o == nil {
				r.fail()
				return c
			}
			o.get(r)
			c.Ops = append(c.Ops, o)
		}
		return c
	})
}

// newOp gives an empty op of that opcode; nil if it has no type.
func newOp(code Opcode) Op {
	switch code {
	case opMake:
		return &Make{}
	case opLink:
		return &Link{}
	case opReplace:
		return &Replace{}
	case opRename:
		return &Rename{}
	case opRemove:
		return &Remove{}
	case opSetAttr:
		return &SetAttr{}
	case opSetXattr:
		return &SetXattr{}
	case opRemoveXattr:
		return &RemoveXattr{}
	case opPublish:
		return &Publish{}
	case opClone:
		return &Clone{}
	case opDropHold:
		return &DropHold{}
	case opInit:
		return &Init{}
	case opOpenSession:
		return &OpenSession{}
	case opCloseSession:
		return &CloseSession{}
	case opExpireSession:
		return &ExpireSession{}
	case opGrantW:
		return &GrantW{}
	case opDropW:
		return &DropW{}
	case opPackBegin:
		return &PackBegin{}
	case opPackEnd:
		return &PackEnd{}
	case opPin:
		return &Pin{}
	case opUnpin:
		return &Unpin{}
	}
	return nil
}

func (o *Make) put(w *writer) {
	w.uint(uint64(o.Dir))
	w.str(o.Name)
	w.spec(&o.Spec)
	w.cred(&o.Who)
	w.bool(o.WantW)
	w.content(&o.Content)
	w.xattrs(o.Xattrs)
}

func (o *Make) get(r *reader) {
	o.Dir, o.Name, o.Spec, o.Who = fabric.Ino(r.uint()), r.str(), r.spec(), r.cred()
	o.WantW, o.Content, o.Xattrs = r.bool(), r.content(), r.xattrs()
}

func (o *Link) put(w *writer) {
	w.uint(uint64(o.Ino))
	w.uint(uint64(o.Dir))
	w.str(o.Name)
	w.cred(&o.Who)
}

func (o *Link) get(r *reader) {
	o.Ino, o.Dir, o.Name, o.Who = fabric.Ino(r.uint()), fabric.Ino(r.uint()), r.str(), r.cred()
}

func (o *Replace) put(w *writer) {
	w.uint(uint64(o.Ino))
	w.uint(uint64(o.Dir))
	w.str(o.Name)
	w.cond(o.Cond)
	w.cred(&o.Who)
	w.expect(o.Expect)
	w.sessions(o.Holders)
}

func (o *Replace) get(r *reader) {
	o.Ino, o.Dir, o.Name = fabric.Ino(r.uint()), fabric.Ino(r.uint()), r.str()
	o.Cond, o.Who, o.Expect, o.Holders = r.cond(), r.cred(), r.expect(), r.sessions()
}

func (o *Rename) put(w *writer) {
	w.uint(uint64(o.From))
	w.str(o.Old)
	w.uint(uint64(o.To))
	w.str(o.Name)
	w.u8(uint8(o.Mode))
	w.cred(&o.Who)
	w.expect(o.Src)
	w.expect(o.Dst)
	w.sessions(o.Holders)
}

func (o *Rename) get(r *reader) {
	o.From, o.Old, o.To, o.Name = fabric.Ino(r.uint()), r.str(), fabric.Ino(r.uint()), r.str()
	o.Mode, o.Who, o.Src, o.Dst, o.Holders = fabric.RenameMode(r.u8()), r.cred(), r.expect(), r.expect(), r.sessions()
}

func (o *Remove) put(w *writer) {
	w.uint(uint64(o.Dir))
	w.str(o.Name)
	w.u8(uint8(o.Kind))
	w.cond(o.Cond)
	w.cred(&o.Who)
	w.expect(o.Expect)
	w.sessions(o.Holders)
}

func (o *Remove) get(r *reader) {
	o.Dir, o.Name, o.Kind = fabric.Ino(r.uint()), r.str(), fabric.RemoveKind(r.u8())
	o.Cond, o.Who, o.Expect, o.Holders = r.cond(), r.cred(), r.expect(), r.sessions()
}

func (o *SetAttr) put(w *writer) {
	w.uint(uint64(o.Ino))
	w.setAttr(&o.Set)
	w.cred(&o.Who)
}

func (o *SetAttr) get(r *reader) { o.Ino, o.Set, o.Who = fabric.Ino(r.uint()), r.setAttr(), r.cred() }

func (o *SetXattr) put(w *writer) {
	w.uint(uint64(o.Ino))
	w.str(o.Name)
	w.bytes(o.Value)
	w.u8(uint8(o.Mode))
	w.cred(&o.Who)
}

func (o *SetXattr) get(r *reader) {
	o.Ino, o.Name, o.Value = fabric.Ino(r.uint()), r.str(), r.bytes()
	o.Mode, o.Who = fabric.XattrMode(r.u8()), r.cred()
}

func (o *RemoveXattr) put(w *writer) {
	w.uint(uint64(o.Ino))
	w.str(o.Name)
	w.cred(&o.Who)
}

func (o *RemoveXattr) get(r *reader) { o.Ino, o.Name, o.Who = fabric.Ino(r.uint()), r.str(), r.cred() }

func (o *Publish) put(w *writer) {
	w.uint(uint64(o.Ino))
	w.uint(o.Base)
	w.content(&o.Content)
	w.int(int64(o.Mtime))
	w.int(int64(o.Atime))
	w.int(int64(o.Ctime))
	w.bool(o.KillPriv)
	w.bool(o.DropW)
}

func (o *Publish) get(r *reader) {
	o.Ino, o.Base, o.Content = fabric.Ino(r.uint()), r.uint(), r.content()
	o.Mtime, o.Atime, o.Ctime = fabric.Time(r.int()), fabric.Time(r.int()), fabric.Time(r.int())
	o.KillPriv, o.DropW = r.bool(), r.bool()
}

func (o *Clone) put(w *writer) {
	w.uint(uint64(o.Dst))
	w.uint(o.Base)
	w.content(&o.Content)
	w.uint(uint64(len(o.Sources)))
	for _, s := range o.Sources {
		w.uint(uint64(s.Ino))
		w.uint(s.Iver)
	}
	w.int(int64(o.Mtime))
}

func (o *Clone) get(r *reader) {
	o.Dst, o.Base, o.Content = fabric.Ino(r.uint()), r.uint(), r.content()
	for range r.count(2) {
		o.Sources = append(o.Sources, Source{fabric.Ino(r.uint()), r.uint()})
	}
	o.Mtime = fabric.Time(r.int())
}

func (o *DropHold) put(w *writer) { w.inos(o.Inos) }
func (o *DropHold) get(r *reader) { o.Inos = r.inos() }

func (o *Init) put(w *writer) {
	w.info(&o.Info)
	w.uint(uint64(o.UID))
	w.uint(uint64(o.GID))
	w.uint(uint64(o.Mode))
}

func (o *Init) get(r *reader) { o.Info, o.UID, o.GID, o.Mode = r.info(), r.u32(), r.u32(), r.u16() }

func (o *OpenSession) put(w *writer) {
	w.session(o.ID)
	w.str(o.Node)
	w.raw(o.SecretHash[:])
	w.bool(o.ReadOnly)
}

func (o *OpenSession) get(r *reader) {
	o.ID, o.Node, o.SecretHash, o.ReadOnly = r.session(), r.str(), r.key(), r.bool()
}

func (o *CloseSession) put(w *writer)  { w.session(o.ID); w.uint(o.Epoch) }
func (o *CloseSession) get(r *reader)  { o.ID, o.Epoch = r.session(), r.uint() }
func (o *ExpireSession) put(w *writer) { w.session(o.ID); w.uint(o.Epoch) }
func (o *ExpireSession) get(r *reader) { o.ID, o.Epoch = r.session(), r.uint() }

func (o *GrantW) put(w *writer) {
	w.session(o.Session)
	w.uint(o.Epoch)
	w.inos(o.Inos)
}

func (o *GrantW) get(r *reader) { o.Session, o.Epoch, o.Inos = r.session(), r.uint(), r.inos() }

func (o *DropW) put(w *writer)     { w.session(o.Session); w.inos(o.Inos) }
func (o *DropW) get(r *reader)     { o.Session, o.Inos = r.session(), r.inos() }
func (o *PackBegin) put(w *writer) { w.str(o.Key) }
func (o *PackBegin) get(r *reader) { o.Key = r.str() }

func (o *PackEnd) put(w *writer) {
	w.str(o.Key)
	w.int(o.Size)
	w.uint(uint64(len(o.Entries)))
	for i := range o.Entries {
		e := &o.Entries[i]
		w.ref(e.Ref)
		w.u8(uint8(e.Kind))
		w.u8(uint8(e.Form))
		w.uint(uint64(e.Off))
		w.uint(uint64(e.Len))
		w.uint(e.Sum)
		w.refs(e.Children)
		w.session(e.For)
	}
}

func (o *PackEnd) get(r *reader) {
	o.Key, o.Size = r.str(), r.int()
	for range r.count(58) {
		o.Entries = append(o.Entries, PackEntry{
			Ref: r.ref(), Kind: storage.Kind(r.u8()), Form: storage.Form(r.u8()),
			Off: r.u32(), Len: r.u32(), Sum: r.uint(), Children: r.refs(), For: r.session(),
		})
	}
}

func (o *Pin) put(w *writer) {
	w.session(o.Session)
	w.uint(o.Epoch)
	w.refs(o.Refs)
}

func (o *Pin) get(r *reader)   { o.Session, o.Epoch, o.Refs = r.session(), r.uint(), r.refs() }
func (o *Unpin) put(w *writer) { w.session(o.Session); w.refs(o.Refs) }
func (o *Unpin) get(r *reader) { o.Session, o.Refs = r.session(), r.refs() }
