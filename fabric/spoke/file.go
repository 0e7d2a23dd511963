package spoke

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
)

// file is a file that was written here: what of it is not at the hub. It exists from the first
// write on, as long as its inode is known here.
type file struct {
	s   *Spoke
	ino fabric.Ino

	// Locks, in the order they are taken: flush, writing, Spoke.mu, mu.
	flush   sync.Mutex // one flush at a time
	writing sync.Mutex // one record at a time; held while it is appended to the journal

	mu     sync.Mutex // guards what follows; never held across I/O
	base   namespace.Content
	iver   uint64 // of base
	over   overlay
	size   int64
	mtime  fabric.Time
	ctime  fabric.Time // of the last local change
	atime  fabric.Time // set here and not published; 0: not
	local  uint64      // changes since base
	kill   bool        // setuid and setgid go with the next publish
	killed uint64      // seq of the newest record that asks for that
	dirty  bool
	seq    uint64         // of the newest record
	places []record       // records not done
	since  fabric.Instant // when it became dirty
	urgent bool           // closed or synced: flush without lingering
}

// record is a journal record that is not done.
type record struct {
	seq   uint64
	place journal.Place
}

// newFile begins to write an inode; mu of the Spoke is held.
func (s *Spoke) newFile(n *inode) *file {
	f := &file{s: s, ino: n.ino}
	f.base, f.iver = n.state.Content, n.state.Iver
	f.size, f.mtime = n.state.Size, n.state.Mtime
	n.file = f
	return f
}

// settle returns when no write that passed its check of W is still on its way to the journal.
func (f *file) settle() {
	f.writing.Lock()
	defer f.writing.Unlock()
}

// idle says whether nothing of the file is unpublished.
func (f *file) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.dirty
}

// rebase takes the hub's state of a file that is clean here. Spoke.mu is held.
func (f *file) rebase(state *namespace.Inode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dirty || state.Partial || state.Iver < f.iver {
		return
	}
	f.base, f.iver, f.size, f.mtime, f.local = state.Content, state.Iver, state.Size, state.Mtime, 0
}

// overlayAttr puts what is unpublished into the attributes.
func (f *file) overlayAttr(a *fabric.Attr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.overlayLocked(a)
}

// passed takes note of a change at the hub at ctime: what is shown with the unpublished writes over
// it moves too (A37).
func (f *file) passed(ctime fabric.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dirty {
		f.ctime = max(f.ctime+1, ctime)
	}
}

func (f *file) overlayLocked(a *fabric.Attr) {
	if !f.dirty {
		return
	}
	a.Size, a.Mtime = f.size, f.mtime
	a.Ctime = max(a.Ctime, f.ctime)
	if f.atime != 0 {
		a.Atime = f.atime
	}
	a.Iver += f.local
	a.Used = max(a.Used, min(f.size, a.Used+f.written()))
	if f.kill {
		a.Mode &^= fabric.ModeSetuid
		if a.Mode&0o010 != 0 {
			a.Mode &^= fabric.ModeSetgid
		}
	}
}

// written is the bytes of data in the overlay.
func (f *file) written() (n int64) {
	for i := range f.over {
		if !f.over[i].hole {
			n += f.over[i].n
		}
	}
	return n
}

// version is one content of a file: what is under the overlay, and the overlay at one moment.
type version struct {
	base namespace.Content
	over overlay
	size int64
}

// snapshot gives the file's content now. Its journal records live until the next publish.
func (f *file) snapshot() version {
	f.mu.Lock()
	defer f.mu.Unlock()
	return version{f.base, slices.Clone(f.over), f.size}
}

// read fills p from off of a version; it stays within its size.
func (s *Spoke) read(ctx context.Context, v *version, p []byte, off int64, class storage.Class) error {
	var err error
	v.over.spans(off, off+int64(len(p)), func(sp span) bool {
		dst := p[sp.off-off:][:sp.n]
		switch {
		case sp.piece == nil:
			err = s.readBase(ctx, &v.base, dst, sp.off, class)
		case sp.piece.hole:
			clear(dst)
		default:
			err = s.jrn.ReadAt(sp.piece.place, dst, sp.piece.at+sp.off-sp.piece.off)
		}
		return err == nil
	})
	return err
}

// readBase fills dst from off of a content as the hub has it; beyond its end there are zeros.
func (s *Spoke) readBase(ctx context.Context, c *namespace.Content, dst []byte, off int64, class storage.Class) error {
	if in := c.Size - off; in < int64(len(dst)) {
		clear(dst[max(in, 0):])
		dst = dst[:max(in, 0)]
	}
	if len(dst) == 0 {
		return nil
	}
	if c.Inline != nil {
		copy(dst, c.Inline[off:])
		return nil
	}
	if c.Root.IsZero() {
		clear(dst)
		return nil
	}
	if err := s.first(ctx, c.Root, off, int64(len(dst)), class); err != nil {
		return err
	}
	var few [16]manifest.Extent
	extents := few[:0]
	err := manifest.Walk(s.source(ctx), c.Root, c.Size, off, int64(len(dst)), func(e manifest.Extent) bool {
		extents = append(extents, e)
		return true
	})
	if err != nil {
		return err
	}
	if len(extents) > 1 {
		if err := s.fill(ctx, extents, class); err != nil {
			return err
		}
	}
	for _, e := range extents {
		part := dst[e.Off-off:][:e.Len]
		if e.Ref.IsZero() {
			clear(part)
			continue
		}
		n, err := s.cache.ReadAt(ctx, e.Ref, part, int64(e.At))
		if err == nil && n != len(part) {
			err = fmt.Errorf("chunk %v is shorter than its manifest says: %w", e.Ref, storage.ErrCorrupt)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxFirst is how much of a content the hub walks for a reader who has nothing of it, in bytes: what of it
// is here already comes in vain.
const maxFirst = 128 << 10

// first brings the nodes and chunks of a range of a content that is unknown here in one round trip,
// where to ask for one after the other would take several.
func (s *Spoke) first(ctx context.Context, root storage.Ref, off, n int64, class storage.Class) error {
	if _, ok := s.nodes.get(root); ok || s.cache.Has(root) {
		return nil
	}
	return s.cache.FillRange(ctx, class, root, off, min(n, maxFirst))
}

// fill fetches the chunks that several extents miss, in one batch.
func (s *Spoke) fill(ctx context.Context, extents []manifest.Extent, class storage.Class) error {
	var missing []storage.Ref
	for _, e := range extents {
		if !e.Ref.IsZero() && !s.cache.Has(e.Ref) {
			missing = append(missing, e.Ref)
		}
	}
	if len(missing) < 2 {
		return nil
	}
	return s.cache.Fill(ctx, class, missing)
}

// apply lays a record that is in the journal over the file. writing and mu are held.
func (f *file) apply(r journal.Record, place journal.Place, seq uint64) {
	f.seq = seq
	f.places = append(f.places, record{seq, place})
	switch r.Type {
	case journal.Write:
		f.over.put(piece{off: r.Off, n: r.Len, place: place, seq: seq})
		f.size = max(f.size, r.Off+r.Len)
	case journal.Punch:
		f.over.put(piece{off: r.Off, n: r.Len, hole: true, seq: seq})
	case journal.Truncate:
		// What is cut off must not show again if the file grows.
		if end := max(f.size, f.base.Size); r.Off < end {
			f.over.put(piece{off: r.Off, n: end - r.Off, hole: true, seq: seq})
		}
		f.size = r.Off
	}
	f.mtime = r.At
	f.local++
	if !f.dirty {
		f.dirty = true
		f.since = f.s.deps.Boot()
	}
}

// lingered says whether the file should be flushed at now.
func (f *file) lingered(now fabric.Instant, linger time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirty && (f.urgent || now.Sub(f.since) >= linger)
}
