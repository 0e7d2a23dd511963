package spoke

import (
	"context"
	"errors"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// upload makes a version storable: inline if it is small, else chunks and nodes at the hub.
func (s *Spoke) upload(ctx context.Context, v *version) (namespace.Content, error) {
	if v.size <= fabric.MaxInline {
		c := namespace.Content{Size: v.size, Used: v.size, Inline: make([]byte, v.size)}
		return c, s.read(ctx, v, c.Inline, 0, storage.Upload)
	}
	c := cutting{s: s, ctx: ctx, v: v, src: s.source(ctx)}
	base := v.base
	if base.Inline != nil { // nothing of it is in chunks
		c.all, base = true, namespace.Content{}
	}
	if err := c.run(); err != nil {
		return namespace.Content{}, err
	}
	tree, err := manifest.Splice(s.hasher, c.src, base.Root, base.Size, v.size, c.extents)
	if err != nil {
		return namespace.Content{}, err
	}
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

// cutting cuts the changed parts of a version into chunks and uploads them in batches.
type cutting struct {
	s       *Spoke
	ctx     context.Context
	v       *version
	src     manifest.Source
	all     bool // nothing of the base can stay
	extents []manifest.Extent
	batch   []storage.Blob
	bytes   int
}

// run cuts each dirty range, from the start of the chunk that it is in to where the cuts meet
// those of the base again.
func (c *cutting) run() error {
	if c.all || c.v.base.Root.IsZero() {
		_, err := c.region(0)
		return err
	}
	at := int64(0)
	for i := range c.v.over {
		p := &c.v.over[i]
		if p.end() <= at || p.off >= c.v.size {
			continue
		}
		start, err := c.chunkStart(max(p.off, at))
		if err != nil {
			return err
		}
		if at, err = c.region(max(start, at)); err != nil {
			return err
		}
	}
	return nil
}

// chunkStart is where the base's chunk that has the byte before off begins: an append goes on
// with the last one, whose end was the file's and no cut.
func (c *cutting) chunkStart(off int64) (int64, error) {
	probe := min(off, c.v.base.Size) - 1
	if probe < 0 {
		return 0, nil
	}
	start := off
	err := manifest.Walk(c.src, c.v.base.Root, c.v.base.Size, probe, 1, func(e manifest.Extent) bool {
		if !e.Ref.IsZero() {
			start = probe - int64(e.At)
		}
		return false
	})
	return max(start, 0), err
}

// boundary says whether a chunk of the base begins at off, from its first byte on.
func (c *cutting) boundary(off int64) (bool, error) {
	if off >= c.v.base.Size {
		return false, nil
	}
	begins := false
	err := manifest.Walk(c.src, c.v.base.Root, c.v.base.Size, off, 1, func(e manifest.Extent) bool {
		begins = !e.Ref.IsZero() && e.At == 0
		return false
	})
	return begins, err
}

// clean says whether the overlay has nothing between off and the next chunk's possible end.
func (c *cutting) clean(off int64) bool {
	for i := range c.v.over {
		p := &c.v.over[i]
		if p.end() > off {
			return p.off > off+int64(c.s.info.Chunking.Max) || p.off >= c.v.size
		}
	}
	return true
}

// holeMin is the least hole that is kept as one, in bytes; shorter ones are zeros in a chunk.
const holeMin = 64 << 10

// region cuts from off on and gives the place where the base is good again, or the end.
func (c *cutting) region(off int64) (int64, error) {
	cutter := c.s.hasher.Cutter(chunk.Params(c.s.info.Chunking))
	max := int64(c.s.info.Chunking.Max)
	buf := make([]byte, 0, 2*max)
	start := off // of buf
	for {
		if len(buf) == 0 {
			if n := c.hole(start); n >= holeMin {
				c.extents = append(c.extents, manifest.Extent{Off: start, Len: n})
				start += n
				cutter.Reset()
			}
			if start >= c.v.size {
				return c.v.size, nil
			}
		}
		want := min(max, c.v.size-start) - int64(len(buf))
		if n := c.data(start+int64(len(buf)), want); n < want {
			want = n
		}
		if want > 0 {
			at := len(buf)
			buf = buf[:int64(at)+want]
			if err := c.s.read(c.ctx, c.v, buf[at:], start+int64(at), storage.Upload); err != nil {
				return 0, err
			}
		}
		cutter.Reset()
		n, _ := cutter.Next(buf)
		if err := c.chunk(start, buf[:n]); err != nil {
			return 0, err
		}
		start += int64(n)
		buf = buf[:copy(buf, buf[n:])]
		if start >= c.v.size {
			return c.v.size, nil
		}
		if !c.all && c.clean(start) {
			good, err := c.boundary(start)
			if err != nil {
				return 0, err
			}
			if good {
				return start, nil
			}
		}
	}
}

// hole is how much of a hole begins at off.
func (c *cutting) hole(off int64) (n int64) {
	c.v.over.spans(off, c.v.size, func(sp span) bool {
		if sp.piece != nil {
			if sp.piece.hole {
				n += sp.n
			}
			return sp.piece.hole
		}
		h := c.baseHole(sp.off, sp.n)
		n += h
		return h == sp.n
	})
	return n
}

// baseHole is how much of a hole begins at off of the base, n at the most.
func (c *cutting) baseHole(off, n int64) (got int64) {
	b := &c.v.base
	if off >= b.Size {
		return n
	}
	if b.Inline != nil {
		return 0 // its bytes are data, whatever they are
	}
	manifest.Walk(c.src, b.Root, b.Size, off, n, func(e manifest.Extent) bool {
		if e.Ref.IsZero() {
			got += e.Len
		}
		return e.Ref.IsZero()
	})
	if off+got >= b.Size {
		got = n
	}
	return got
}

// data is how far from off there is no hole worth keeping, want at the most.
func (c *cutting) data(off, want int64) int64 {
	const step = 256 << 10
	for at := off; at < off+want; at += step {
		if c.hole(at) >= holeMin {
			return at - off
		}
	}
	return want
}

// chunk takes one chunk: it is named now and uploaded with its batch.
func (c *cutting) chunk(off int64, raw []byte) error {
	b := c.s.hasher.Seal(storage.Chunk, raw, nil)
	if b.Form == storage.Raw {
		b.Data = append([]byte(nil), b.Data...)
	}
	c.s.cache.Add(b.Ref, storage.Chunk, raw)
	c.extents = append(c.extents, manifest.Extent{Off: off, Len: int64(len(raw)), Ref: b.Ref})
	return c.add(b)
}

func (c *cutting) add(b storage.Blob) error {
	c.batch = append(c.batch, b)
	c.bytes += len(b.Data)
	if c.bytes < c.s.cfg.UploadBatch && len(c.batch) < storage.MaxBatch {
		return nil
	}
	return c.send()
}

// send uploads what of the batch the hub does not have, again while it cannot.
func (c *cutting) send() error {
	if len(c.batch) == 0 {
		return nil
	}
	batch := c.batch
	c.batch, c.bytes = nil, 0
	refs := make([]storage.Ref, len(batch))
	for i := range batch {
		refs[i] = batch[i].Ref
	}
	var pause time.Duration
	for {
		err := c.put(batch, refs)
		if err == nil || !errors.Is(err, storage.ErrUnavailable) && fabric.CodeOf(err) != fabric.Unavailable {
			return err
		}
		if !backoff(c.ctx, &pause) {
			return err
		}
	}
}

func (c *cutting) put(batch []storage.Blob, refs []storage.Ref) error {
	ss, err := c.s.session(c.ctx)
	if err != nil {
		return err
	}
	missing, err := ss.link.Blobs.Missing(c.ctx, refs, nil)
	if err != nil || len(missing) == 0 {
		return err
	}
	want := make(map[storage.Ref]bool, len(missing))
	for _, r := range missing {
		want[r] = true
	}
	var out []storage.Blob
	for _, b := range batch {
		if want[b.Ref] {
			out = append(out, b)
			delete(want, b.Ref) // the same content twice goes once
		}
	}
	return ss.link.Blobs.Put(c.ctx, storage.Upload, out)
}
