package namespace

import (
	"encoding/binary"
	"fmt"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/storage"
)

// Kinds of records: the first byte of a key (docs/formats/records.md). Numbers in keys are big
// endian, so that keys sort as numbers do.
const (
	keyInfo     byte = 'a' // -> Info
	keyBlob     byte = 'b' // sum -> where it is
	keyCookie   byte = 'c' // dir, cookie -> name
	keyDentry   byte = 'd' // dir, name -> ino, cookie
	keyHeld     byte = 'g' // session, ino
	keyHold     byte = 'h' // ino, session
	keyInode    byte = 'i' // ino -> inode without inline content and xattrs
	keyPack     byte = 'k' // pack key -> number, size
	keyInline   byte = 'l' // ino -> inline content
	keyCounters byte = 'm' // -> counters
	keyNumber   byte = 'n' // pack number -> pack key
	keyPin      byte = 'p' // session, sum -> len
	keySlot     byte = 'q' // session, slot -> last seq applied
	keyResult   byte = 'r' // session, slot, seq -> result
	keySession  byte = 's' // session -> session
	keyOwned    byte = 'v' // session, ino
	keyW        byte = 'w' // ino -> session
	keyXattrs   byte = 'x' // ino -> xattrs
)

func inoKey(kind byte, ino fabric.Ino) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, uint64(ino))
}

func dentryKey(dir fabric.Ino, name string) []byte { return append(inoKey(keyDentry, dir), name...) }

func cookieKey(dir fabric.Ino, c fabric.Cookie) []byte {
	return binary.BigEndian.AppendUint64(inoKey(keyCookie, dir), uint64(c))
}

func sessionKey(kind byte, id fabric.SessionID) []byte { return append([]byte{kind}, id[:]...) }

func sessionInoKey(kind byte, id fabric.SessionID, ino fabric.Ino) []byte {
	return binary.BigEndian.AppendUint64(sessionKey(kind, id), uint64(ino))
}

func holdKey(ino fabric.Ino, id fabric.SessionID) []byte {
	return append(inoKey(keyHold, ino), id[:]...)
}

func slotKey(id fabric.SessionID, slot uint16) []byte {
	return binary.BigEndian.AppendUint16(sessionKey(keySlot, id), slot)
}

func resultKey(id fabric.SessionID, slot uint16, seq uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(sessionKey(keyResult, id), slot), seq)
}

func blobKey(r storage.Ref) []byte { return append([]byte{keyBlob}, r.Sum[:]...) }

func pinKey(id fabric.SessionID, r storage.Ref) []byte {
	return append(sessionKey(keyPin, id), r.Sum[:]...)
}

func packKey(key string) []byte { return append([]byte{keyPack}, key...) }

func numberKey(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{keyNumber}, n) }

// after is the end of the keys that start with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// damaged is for records that do not decode: kv has checksums, so it is a bug or worse, and going
// on would split the replicas.
func damaged(key []byte) { panic(fmt.Sprintf("namespace: record %q does not decode", key)) }

func load[T any](v kv.View, key []byte, get func(r *reader) T) (t T, ok bool) {
	p, ok := v.Get(key)
	if !ok {
		return t, false
	}
	r := reader{p: p}
	if r.u8() != formatVersion {
		r.fail()
	}
	t = get(&r)
	if r.bad || len(r.p) != 0 {
		damaged(key)
	}
	return t, true
}

func save(v kv.View, key []byte, put func(w *writer)) { v.Set(key, one(nil, put)) }

// node is an inode's record: what is not in keyInline and keyXattrs.
type node struct {
	Inode
	next fabric.Cookie // directories: the next entry's
}

func (w *writer) node(n *node) {
	w.attr(&n.Attr)
	w.ref(n.Content.Root)
	w.bool(n.Content.Inline != nil)
	w.str(n.Target)
	w.uint(n.Verifier)
	w.bool(len(n.Xattrs) > 0)
	w.uint(uint64(n.next))
	w.bool(false) // reserved: an inode overlay follows
}

func getNode(v kv.View, ino fabric.Ino) (*node, bool) {
	n, ok := load(v, inoKey(keyInode, ino), func(r *reader) *node {
		n := &node{}
		n.Attr = r.attr()
		n.Content = Content{Size: n.Size, Used: n.Used, Root: r.ref()}
		if r.bool() {
			n.Content.Inline = []byte{} // there is some; inline() reads it
		}
		n.Target, n.Verifier = r.str(), r.uint()
		if r.bool() {
			n.Xattrs = []Xattr{{}} // there are some; xattrs() reads them
		}
		n.next = fabric.Cookie(r.uint())
		if r.bool() {
			r.fail()
		}
		return n
	})
	return n, ok
}

// inline reads the inline content that getNode left out.
func (n *node) inline(v kv.View) {
	if n.Content.Inline == nil {
		return
	}
	p, ok := v.Get(inoKey(keyInline, n.Ino))
	if !ok || int64(len(p)) != n.Size {
		damaged(inoKey(keyInline, n.Ino))
	}
	n.Content.Inline = append([]byte{}, p...)
}

// xattrs reads the extended attributes that getNode left out.
func (n *node) xattrs(v kv.View) {
	if len(n.Xattrs) == 0 {
		return
	}
	x, ok := load(v, inoKey(keyXattrs, n.Ino), (*reader).xattrs)
	if !ok {
		damaged(inoKey(keyXattrs, n.Ino))
	}
	n.Xattrs = x
}

// counters is what the state machine counts.
type counters struct {
	nextIno  uint64
	epoch    uint64
	nextPack uint64
	wall     fabric.Time
	inodes   int64
	bytes    int64
}

func (w *writer) counters(c *counters) {
	w.uint(c.nextIno)
	w.uint(c.epoch)
	w.uint(c.nextPack)
	w.int(int64(c.wall))
	w.int(c.inodes)
	w.int(c.bytes)
}

func (r *reader) counters() counters {
	return counters{r.uint(), r.uint(), r.uint(), fabric.Time(r.int()), r.int(), r.int()}
}

// Session is a session as the log has it.
type Session struct {
	ID         fabric.SessionID
	Epoch      uint64
	Node       string
	SecretHash [32]byte
	ReadOnly   bool
}

func (w *writer) sessionRecord(s *Session) {
	w.uint(s.Epoch)
	w.str(s.Node)
	w.raw(s.SecretHash[:])
	w.bool(s.ReadOnly)
}

func (r *reader) sessionRecord() Session {
	return Session{Epoch: r.uint(), Node: r.str(), SecretHash: r.key(), ReadOnly: r.bool()}
}

// stored is where a blob is.
type stored struct {
	pack uint64
	kind storage.Kind
	form storage.Form
	raw  uint32
	off  uint32
	len  uint32
	sum  uint64
}

func (w *writer) stored(s *stored) {
	w.uint(s.pack)
	w.u8(uint8(s.kind)<<4 | uint8(s.form))
	w.uint(uint64(s.raw))
	w.uint(uint64(s.off))
	w.uint(uint64(s.len))
	if s.kind == storage.Node {
		w.uint(s.sum)
	}
}

func (r *reader) stored() (s stored) {
	s.pack = r.uint()
	b := r.u8()
	s.kind, s.form = storage.Kind(b>>4), storage.Form(b&15)
	s.raw, s.off, s.len = r.u32(), r.u32(), r.u32()
	if s.kind == storage.Node {
		s.sum = r.uint()
	}
	return s
}
