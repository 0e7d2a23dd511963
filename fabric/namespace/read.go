package namespace

import (
	"encoding/binary"
	"iter"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/storage"
)

// GetInfo reads what the namespace is; ok is false before Init.
func GetInfo(v kv.View) (Info, bool) { return load(v, []byte{keyInfo}, (*reader).info) }

// GetInode reads an inode with all it has.
func GetInode(v kv.View, ino fabric.Ino) (Inode, bool) {
	n, ok := getNode(v, ino)
	if !ok {
		return Inode{}, false
	}
	n.inline(v)
	n.xattrs(v)
	return n.Inode, true
}

// smallXattrs is the size up to which a listing brings extended attributes, in bytes.
const smallXattrs = 1 << 10

// GetPartial reads an inode without inline content; Partial is set if there is some, or if there
// are extended attributes too large for a listing.
func GetPartial(v kv.View, ino fabric.Ino) (Inode, bool) {
	n, ok := getNode(v, ino)
	if !ok {
		return Inode{}, false
	}
	if n.Content.Inline != nil && n.Size > 0 {
		n.Partial, n.Content.Inline = true, nil
	}
	if len(n.Xattrs) > 0 {
		n.xattrs(v)
		size := 0
		for i := range n.Xattrs {
			size += len(n.Xattrs[i].Name) + len(n.Xattrs[i].Value)
		}
		if size > smallXattrs {
			n.Partial, n.Xattrs = true, nil
		}
	}
	return n.Inode, true
}

// GetAttr reads an inode's attributes.
func GetAttr(v kv.View, ino fabric.Ino) (fabric.Attr, bool) {
	n, ok := getNode(v, ino)
	if !ok {
		return fabric.Attr{}, false
	}
	return n.Attr, true
}

// GetDentry reads what a name stands for.
func GetDentry(v kv.View, dir fabric.Ino, name string) (fabric.Ino, fabric.Cookie, bool) {
	p, ok := v.Get(dentryKey(dir, name))
	if !ok || len(p) != 16 {
		return 0, 0, false
	}
	return fabric.Ino(binary.BigEndian.Uint64(p)), fabric.Cookie(binary.BigEndian.Uint64(p[8:])), true
}

// ListByCookie gives at most n entries after a cookie, without their inodes but for Ino. eof says
// that none follows.
func ListByCookie(v kv.View, dir fabric.Ino, from fabric.Cookie, n int) (page []Dirent, eof bool) {
	if from == ^fabric.Cookie(0) {
		return nil, true
	}
	end := after(inoKey(keyCookie, dir))
	for k, name := range v.Scan(cookieKey(dir, from+1), end) {
		if len(page) == n {
			return fill(v, dir, page), false
		}
		page = append(page, Dirent{Name: string(name), Cookie: fabric.Cookie(binary.BigEndian.Uint64(k[9:]))})
	}
	return fill(v, dir, page), true
}

// fill adds the inode numbers.
func fill(v kv.View, dir fabric.Ino, page []Dirent) []Dirent {
	for i := range page {
		page[i].Inode.Ino, _, _ = GetDentry(v, dir, page[i].Name)
	}
	return page
}

// ListByName gives at most n entries from a name on, like ListByCookie.
func ListByName(v kv.View, dir fabric.Ino, at string, n int) (page []Dirent, eof bool) {
	for k, p := range v.Scan(dentryKey(dir, at), after(inoKey(keyDentry, dir))) {
		if len(page) == n {
			return page, false
		}
		d := Dirent{Name: string(k[9:]), Cookie: fabric.Cookie(binary.BigEndian.Uint64(p[8:]))}
		d.Inode.Ino = fabric.Ino(binary.BigEndian.Uint64(p))
		page = append(page, d)
	}
	return page, true
}

// Sessions lists the live sessions.
func Sessions(v kv.View) iter.Seq[Session] {
	return func(yield func(Session) bool) {
		from := []byte{keySession}
		for k, p := range v.Scan(from, after(from)) {
			r := reader{p: p[1:]}
			s := r.sessionRecord()
			if r.bad || p[0] != formatVersion {
				damaged(k)
			}
			s.ID = fabric.SessionID(k[1:17])
			if !yield(s) {
				return
			}
		}
	}
}

// GetSession reads a live session.
func GetSession(v kv.View, id fabric.SessionID) (Session, bool) {
	s, ok := load(v, sessionKey(keySession, id), (*reader).sessionRecord)
	s.ID = id
	return s, ok
}

// WRights lists who has W on what.
func WRights(v kv.View) iter.Seq2[fabric.Ino, fabric.SessionID] {
	return func(yield func(fabric.Ino, fabric.SessionID) bool) {
		from := []byte{keyW}
		for k, p := range v.Scan(from, after(from)) {
			if !yield(fabric.Ino(binary.BigEndian.Uint64(k[1:])), fabric.SessionID(p)) {
				return
			}
		}
	}
}

// GetW reads who has W on an inode.
func GetW(v kv.View, ino fabric.Ino) (fabric.SessionID, bool) {
	p, ok := v.Get(inoKey(keyW, ino))
	if !ok || len(p) != 16 {
		return fabric.SessionID{}, false
	}
	return fabric.SessionID(p), true
}

// Locate reads where a blob is stored.
func Locate(v kv.View, ref storage.Ref) (Location, bool) {
	s, ok := load(v, blobKey(ref), (*reader).stored)
	if !ok || s.raw != ref.Len {
		return Location{}, false
	}
	key, ok := v.Get(numberKey(s.pack))
	if !ok {
		damaged(numberKey(s.pack))
	}
	return Location{Key: string(key), Kind: s.kind, Form: s.form, Off: s.off, Len: s.len, Sum: s.sum}, true
}

// Pinned says whether a session has pinned a blob.
func Pinned(v kv.View, id fabric.SessionID, ref storage.Ref) bool {
	_, ok := v.Get(pinKey(id, ref))
	return ok
}

// Capacity is what a namespace without a quota says it could hold: bytes and inodes.
const (
	Capacity       = int64(1) << 50
	CapacityInodes = int64(1) << 40
)

// Usage is what the namespace holds.
func Usage(v kv.View) fabric.Usage {
	c, _ := load(v, []byte{keyCounters}, (*reader).counters)
	return fabric.Usage{
		Bytes: Capacity, FreeBytes: Capacity - c.bytes,
		Inodes: CapacityInodes, FreeInodes: CapacityInodes - c.inodes,
	}
}

// UnfinishedPacks lists the keys of packs that were registered and not finished.
func UnfinishedPacks(v kv.View) []string {
	var out []string
	from := []byte{keyPack}
	for k, p := range v.Scan(from, after(from)) {
		r := reader{p: p[1:]}
		if r.pack().size == 0 {
			out = append(out, string(k[1:]))
		}
	}
	return out
}
