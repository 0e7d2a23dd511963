package spoke

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
)

// handle implements fabric.File.
type handle struct {
	v     *view
	s     *Spoke
	ino   fabric.Ino
	mode  fabric.OpenMode
	fixed *version    // of OpenFixed
	attr  fabric.Attr // of fixed

	mu     sync.Mutex // guards what follows
	closed bool
	next   int64 // where a sequential reader reads next
	window int64 // how far ahead of it is fetched
	ahead  int64 // up to where it has been
}

// Open implements fabric.FS.
func (v *view) Open(ctx context.Context, ino fabric.Ino, m fabric.OpenMode) (fabric.File, error) {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	if m&fabric.OpenWrite != 0 {
		if err := v.writes(); err != nil {
			return nil, err
		}
		if m&fabric.OpenFixed != 0 {
			return nil, fabric.Invalid
		}
	}
	s := v.s
	s.opening(ino, 1) // before the right is asked for: an unlink elsewhere asks who has it open
	st, err := s.full(ctx, ino, true)
	if err == nil {
		err = v.mayOpen(&st.Attr, m)
	}
	if err != nil {
		s.opening(ino, -1)
		return nil, err
	}
	h := &handle{v: v, s: s, ino: ino, mode: m}
	if m&fabric.OpenFixed != 0 {
		h.fixed = s.versionOf(ino, &st)
		h.attr = st.Attr
	}
	s.opened(ino)
	return h, nil
}

func (v *view) mayOpen(a *fabric.Attr, m fabric.OpenMode) error {
	switch a.Type {
	case fabric.TypeFile:
	case fabric.TypeDir:
		return fabric.IsDir
	default:
		return fabric.Invalid
	}
	if m&fabric.OpenOwner != 0 && v.who.Owns(a) {
		return nil
	}
	var want fabric.Perm
	if m&fabric.OpenRead != 0 {
		want |= fabric.PermRead
	}
	if m&fabric.OpenWrite != 0 {
		want |= fabric.PermWrite
	}
	got := v.who.May(a, want)
	if want&^got != 0 {
		return fabric.Denied
	}
	return nil
}

// opening counts an open file, in or out.
func (s *Spoke) opening(ino fabric.Ino, d int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.get(ino).opens += d
}

// versionOf gives the content of this moment, unpublished writes included.
func (s *Spoke) versionOf(ino fabric.Ino, st *namespace.Inode) *version {
	s.mu.Lock()
	n := s.inodes[ino]
	s.mu.Unlock()
	if n != nil && n.file != nil && !n.file.idle() {
		v := n.file.snapshot()
		return &v
	}
	return &version{base: st.Content, size: st.Content.Size}
}

// Ino implements fabric.File.
func (h *handle) Ino() fabric.Ino { return h.ino }

// Stat implements fabric.File.
func (h *handle) Stat(ctx context.Context) (fabric.Attr, error) {
	if h.fixed != nil {
		return h.attr, nil
	}
	return h.v.Stat(ctx, h.ino)
}

// ReadAt implements fabric.File. The right is checked before the bytes are read and after (A7): if
// it went in between, they are read again under a new one.
func (h *handle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if h.mode&fabric.OpenRead == 0 {
		return 0, fabric.Denied
	}
	if off < 0 {
		return 0, fabric.Invalid
	}
	ctx, cancel := h.v.p.bounded(ctx)
	defer cancel()
	for range 64 {
		n, ok, err := h.read(ctx, p, off)
		if err != nil {
			return 0, &fabric.Error{Op: "read", Ino: h.ino, Code: storageCode(err), Err: err}
		}
		if ok {
			h.s.asked.Add(int64(n))
			return n, nil
		}
	}
	return 0, fabric.Unavailable
}

// read reads once; ok is false if the right was lost meanwhile.
func (h *handle) read(ctx context.Context, p []byte, off int64) (n int, ok bool, err error) {
	s := h.s
	if h.fixed != nil {
		n, err := h.from(ctx, h.fixed, p, off)
		return n, true, err
	}
	s.mu.Lock()
	nd := s.inodes[h.ino]
	held := nd != nil && nd.known && !nd.state.Partial && s.valid(h.ino, rights.R)
	var v version
	var f *file
	if held {
		v = version{base: nd.state.Content, size: nd.state.Content.Size}
		f = nd.file
	}
	s.mu.Unlock()
	if !held {
		// What came without a grant is right as of the call, and is used once.
		st, err := s.full(ctx, h.ino, true)
		if err != nil {
			return 0, false, err
		}
		n, err := h.from(ctx, s.versionOf(h.ino, &st), p, off)
		return n, true, err
	}
	if f != nil && !f.idle() {
		v = f.snapshot()
	}
	if n, err = h.from(ctx, &v, p, off); err != nil {
		return 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return n, s.valid(h.ino, rights.R), nil
}

// from reads from one version and fetches ahead of a sequential reader.
func (h *handle) from(ctx context.Context, v *version, p []byte, off int64) (int, error) {
	if off >= v.size {
		return 0, nil
	}
	p = p[:min(int64(len(p)), v.size-off)]
	h.readAhead(ctx, v, off, int64(len(p)))
	return len(p), h.s.read(ctx, v, p, off, storage.Demand)
}

// readAhead grows a window while reads are sequential, and warms what lies in it.
func (h *handle) readAhead(ctx context.Context, v *version, off, n int64) {
	if v.base.Root.IsZero() {
		return
	}
	h.mu.Lock()
	sequential := off == h.next || off > h.next && off-h.next <= 256<<10
	h.next = off + n
	if !sequential {
		h.window, h.ahead = 0, 0
		h.mu.Unlock()
		return
	}
	h.window = min(max(2*h.window, 1<<20), h.s.cfg.ReadAhead)
	from, to := max(h.ahead, off+n), min(off+n+h.window, v.base.Size)
	if to-from < min(h.window/2, v.base.Size-from) || to <= from {
		h.mu.Unlock()
		return
	}
	h.ahead = to
	h.mu.Unlock()
	if h.s.lacks(&v.base, from, to-from) {
		h.s.later(aheadOf{content: v.base, off: from, n: to - from})
	}
}

// WriteAt implements fabric.File.
func (h *handle) WriteAt(ctx context.Context, p []byte, off int64) (int, fabric.Change, error) {
	var last fabric.Change
	if off < 0 {
		return 0, last, fabric.Invalid
	}
	for done := 0; done < len(p); {
		part := p[done:min(len(p), done+journal.MaxData)]
		c := change{record: journal.Record{Type: journal.Write, Off: off + int64(done), Len: int64(len(part))}, data: part}
		_, ch, err := h.modify(ctx, c)
		if err != nil {
			return done, last, err
		}
		if done == 0 {
			last = ch
		}
		last.After = ch.After
		done += len(part)
	}
	return len(p), last, nil
}

// Append implements fabric.File.
func (h *handle) Append(ctx context.Context, p []byte) (int64, fabric.Change, error) {
	if len(p) > journal.MaxData {
		return 0, fabric.Change{}, fabric.TooBig
	}
	return h.modify(ctx, change{record: journal.Record{Type: journal.Write, Len: int64(len(p))}, data: p, append: true})
}

// Punch implements fabric.File.
func (h *handle) Punch(ctx context.Context, off, n int64) (fabric.Change, error) {
	if off < 0 || n <= 0 || off > fabric.MaxFileSize-n {
		return fabric.Change{}, fabric.Invalid
	}
	_, ch, err := h.modify(ctx, change{record: journal.Record{Type: journal.Punch, Off: off, Len: n}})
	return ch, err
}

// modify makes a change through this handle.
func (h *handle) modify(ctx context.Context, c change) (int64, fabric.Change, error) {
	if h.mode&fabric.OpenWrite == 0 {
		return 0, fabric.Change{}, fabric.Denied
	}
	ctx, cancel := h.v.p.bounded(ctx)
	defer cancel()
	if h.v.who.UID != 0 {
		a, err := h.s.stat(ctx, h.ino)
		if err != nil {
			return 0, fabric.Change{}, err
		}
		c.kill = h.v.kills(&a)
	}
	c.skip = h.v.who.From
	return h.s.modify(ctx, h.ino, c)
}

// cut sets a file's size under W.
func (s *Spoke) cut(ctx context.Context, ino fabric.Ino, size int64, kill bool, skip fabric.Watcher) (fabric.Change, error) {
	_, ch, err := s.modify(ctx, ino, change{record: journal.Record{Type: journal.Truncate, Off: size}, kill: kill, skip: skip})
	return ch, err
}

// NextData implements fabric.File.
func (h *handle) NextData(ctx context.Context, off int64) (start, end int64, err error) {
	ctx, cancel := h.v.p.bounded(ctx)
	defer cancel()
	v := h.fixed
	if v == nil {
		st, err := h.s.full(ctx, h.ino, true)
		if err != nil {
			return 0, 0, err
		}
		v = h.s.versionOf(h.ino, &st)
	}
	if off < 0 {
		return 0, 0, fabric.Invalid
	}
	c := cutting{s: h.s, ctx: ctx, v: v, src: h.s.source(ctx)}
	for off < v.size {
		n := c.hole(off)
		if n == 0 {
			break
		}
		off += n
	}
	if off >= v.size {
		return v.size, v.size, nil
	}
	for end = off; end < v.size && c.hole(end) == 0; {
		end = c.dataEnd(end)
	}
	return off, end, nil
}

// dataEnd is the end of the piece or extent that has off.
func (c *cutting) dataEnd(off int64) (end int64) {
	end = c.v.size
	c.v.over.spans(off, c.v.size, func(sp span) bool {
		end = sp.off + sp.n
		if sp.piece == nil && c.v.base.Inline == nil {
			manifest.Walk(c.src, c.v.base.Root, c.v.base.Size, off, sp.n, func(e manifest.Extent) bool {
				end = e.Off + e.Len
				return false
			})
		}
		return false
	})
	return max(end, off+1)
}

// Sync implements fabric.File.
func (h *handle) Sync(ctx context.Context) error { return h.v.Sync(ctx, h.ino) }

// Close implements fabric.File: the flush of what is dirty starts, and is not waited for.
func (h *handle) Close(context.Context) error {
	h.mu.Lock()
	was := h.closed
	h.closed = true
	h.mu.Unlock()
	if was {
		return fabric.Invalid
	}
	s := h.s
	s.mu.Lock()
	n := s.get(h.ino)
	n.opens--
	last := n.opens == 0
	told := last && n.told
	if last {
		n.told = false
	}
	ss := s.sess
	right, _ := ss.held.Right(h.ino)
	f := n.file
	s.mu.Unlock()
	if f != nil {
		f.mu.Lock()
		f.urgent = f.dirty
		urgent := f.dirty
		f.mu.Unlock()
		if urgent {
			s.wake()
		}
	}
	if last {
		s.release(h.ino)
	}
	if told && right == 0 {
		g := rights.Grant{Ino: h.ino, Epoch: ss.link.Ticket.Epoch}
		s.done.Go(func() { ss.link.Hub.Release(ss.ctx, []rights.Grant{g}) }) // a lost one costs a hold
	}
	return nil
}

// clone makes dst the concatenation of whole files.
func (s *Spoke) clone(ctx context.Context, dst fabric.Ino, parts []fabric.Part, v *view) (ch fabric.Change, err error) {
	op := &namespace.Clone{Dst: dst}
	b := manifest.NewBuilder(s.hasher)
	c := cutting{s: s, ctx: ctx, v: &version{}, src: s.source(ctx)}
	for i, p := range parts {
		if p.Off != 0 || p.Ino == dst {
			return ch, fabric.Unsupported
		}
		if err := s.sync(ctx, p.Ino); err != nil {
			return ch, err
		}
		st, err := s.full(ctx, p.Ino, true)
		if err != nil {
			return ch, err
		}
		switch {
		case st.Type != fabric.TypeFile:
			return ch, fabric.Invalid
		case v.who.May(&st.Attr, fabric.PermRead) == 0:
			return ch, fabric.Denied
		case p.Len != -1 && p.Len != st.Size:
			return ch, fabric.Unsupported
		case p.Cond.Iver != 0 && p.Cond.Iver != st.Iver:
			return ch, fabric.Precondition
		}
		op.Sources = append(op.Sources, namespace.Source{Ino: p.Ino, Iver: st.Iver})
		if len(parts) == 1 {
			op.Content = st.Content
			break
		}
		if err := c.take(b, &st.Content); err != nil {
			return ch, fmt.Errorf("part %d: %w", i, err)
		}
	}
	if len(parts) != 1 {
		if op.Content, err = c.joined(b); err != nil {
			return ch, &fabric.Error{Op: "clone", Ino: dst, Code: storageCode(err), Err: err}
		}
	}
	return s.publishClone(ctx, op, v)
}

// take adds a file's content to a tree; inline bytes become a chunk.
func (c *cutting) take(b *manifest.Builder, content *namespace.Content) error {
	if content.Inline != nil {
		if len(content.Inline) == 0 {
			return nil
		}
		blob := c.s.hasher.Seal(storage.Chunk, content.Inline, nil)
		blob.Data = slices.Clone(blob.Data)
		if err := c.add(blob); err != nil {
			return err
		}
		return b.Add(blob.Ref, 0, content.Size)
	}
	if content.Root.IsZero() {
		return b.Add(storage.Ref{}, 0, content.Size)
	}
	var failed error
	err := manifest.Walk(c.src, content.Root, content.Size, 0, content.Size, func(e manifest.Extent) bool {
		failed = b.Add(e.Ref, e.At, e.Len)
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	return err
}

// joined ends the tree and uploads its nodes; one small enough is made inline.
func (c *cutting) joined(b *manifest.Builder) (namespace.Content, error) {
	tree := b.Done()
	for _, n := range tree.Nodes {
		if err := c.add(n); err != nil {
			return namespace.Content{}, err
		}
	}
	if err := c.send(); err != nil {
		return namespace.Content{}, err
	}
	return namespace.Content{Size: tree.Size, Used: tree.Used, Root: tree.Root}, nil
}

// publishClone sends the clone under W on its target, whose earlier content goes. What is written to
// that is published before: the clone may be refused, and its versions and times go on from there.
func (s *Spoke) publishClone(ctx context.Context, op *namespace.Clone, v *view) (ch fabric.Change, err error) {
	for {
		n, f, err := s.writable(ctx, op.Dst)
		if err != nil {
			return ch, err
		}
		s.mu.Lock()
		attr := n.state.Attr
		s.mu.Unlock()
		if v.who.May(&attr, fabric.PermWrite) == 0 && !v.who.Owns(&attr) {
			return ch, fabric.Denied
		}
		if v.kills(&attr) { // before the new content is there to be executed
			op := &namespace.SetAttr{Ino: op.Dst, Set: fabric.SetAttr{Set: fabric.SetKillPriv}, Who: v.who}
			if _, err := s.run(ctx, op, v.who.From); err != nil {
				return ch, err
			}
		}
		if err := s.sync(ctx, op.Dst); err != nil {
			return ch, err
		}
		if ch, ok, err := s.cloneOver(ctx, n, f, op, v); ok || err != nil {
			return ch, err
		}
	}
}

// cloneOver sends the clone; ok is false if its target was written again.
func (s *Spoke) cloneOver(ctx context.Context, n *inode, f *file, op *namespace.Clone, v *view) (ch fabric.Change, ok bool, err error) {
	f.flush.Lock()
	defer f.flush.Unlock()
	f.writing.Lock()
	defer f.writing.Unlock()
	if !f.idle() {
		return ch, false, nil
	}
	s.mu.Lock()
	op.Base = n.state.Iver
	s.mu.Unlock()
	op.Mtime = s.now()
	r, err := s.run(ctx, op, v.who.From)
	if err != nil {
		return ch, false, err
	}
	s.mu.Lock()
	n.known = false // its content is another now
	s.mu.Unlock()
	return fabric.Change{Before: r.Before, After: r.Attr}, true, nil
}
