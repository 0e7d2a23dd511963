package pack

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/storage"
)

// batch is a pack that is being filled or written.
type batch struct {
	body     []byte // head and blobs
	entries  []Entry
	children int
	full     chan struct{} // closed when nothing more goes in
	done     chan struct{} // closed after err is set
	err      error
}

// Put implements storage.Blobs for the hub itself.
func (s *Store) Put(ctx context.Context, c storage.Class, blobs []storage.Blob) error {
	return s.PutFor(ctx, c, Owner{}, blobs)
}

// PutFor is Put on behalf of a session, which gets the pins.
func (s *Store) PutFor(ctx context.Context, _ storage.Class, owner Owner, blobs []storage.Blob) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(blobs) > storage.MaxBatch {
		return fmt.Errorf("%d blobs: %w", len(blobs), storage.ErrInvalid)
	}
	entries, err := s.check(ctx, owner, blobs)
	if err != nil {
		return err
	}
	var mine []*batch
	for i := range blobs {
		if blobs[i].Kind == storage.Node && len(mine) > 1 {
			// Its children may be in an earlier pack, which must be indexed first.
			last := mine[len(mine)-1]
			if err := s.wait(ctx, mine[:len(mine)-1]); err != nil {
				return err
			}
			mine = []*batch{last}
		}
		for added := false; !added; {
			b, err := s.opened(ctx)
			if err != nil {
				return err
			}
			if n := len(mine); n > 0 && mine[n-1] != b && blobs[i].Kind == storage.Node {
				if err := s.wait(ctx, mine); err != nil {
					return err
				}
				mine = nil
			}
			if added = s.add(b, entries[i], blobs[i].Data); added && (len(mine) == 0 || mine[len(mine)-1] != b) {
				mine = append(mine, b)
			}
		}
	}
	return s.wait(ctx, mine)
}

// opened gives the open pack, or opens one once fewer than Writers+1 are unfinished.
func (s *Store) opened(ctx context.Context) (*batch, error) {
	s.mu.Lock()
	b := s.open
	s.mu.Unlock()
	if b != nil {
		return b, nil
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ended:
		return nil, errEnded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil { // another Put was faster
		<-s.slots
		return s.open, nil
	}
	s.open = &batch{body: appendHead(nil), full: make(chan struct{}), done: make(chan struct{})}
	s.queue <- s.open // has room: one place per slot
	return s.open, nil
}

var errEnded = fmt.Errorf("pack: the store has ended: %w", storage.ErrUnavailable)

// add puts a blob into b if b is open still and has room; a full b is closed.
func (s *Store) add(b *batch, e Entry, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != b {
		return false
	}
	if len(b.entries) > 0 && (len(b.entries) == s.cfg.MaxEntries || b.children+len(e.Children) > s.cfg.MaxChildren ||
		len(b.body)+len(data) > s.cfg.Target) {
		s.open = nil
		close(b.full)
		return false
	}
	e.Off, e.Len = uint32(len(b.body)), uint32(len(data))
	b.body = append(b.body, data...)
	b.entries = append(b.entries, e)
	b.children += len(e.Children)
	return true
}

func (s *Store) wait(ctx context.Context, batches []*batch) error {
	for _, b := range batches {
		select {
		case <-b.done:
			if b.err != nil {
				return b.err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ended:
			return errEnded
		}
	}
	return nil
}

// fact is what is known of a blob that a node may name.
type fact struct {
	kind  storage.Kind
	sum   int64
	level int // of a node; -1 not known
}

// check verifies blobs (A48) and makes their entries.
func (s *Store) check(ctx context.Context, owner Owner, blobs []storage.Blob) ([]Entry, error) {
	entries := make([]Entry, len(blobs))
	known := make(map[storage.Ref]fact, len(blobs))
	var scratch []byte
	for i, b := range blobs {
		raw, err := s.deps.Hasher.Verify(b, scratch)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", err, storage.ErrInvalid)
		}
		if b.Form != storage.Raw {
			scratch = raw
		}
		e := Entry{Ref: b.Ref, Kind: b.Kind, Form: b.Form, Owner: owner}
		f := fact{kind: b.Kind}
		if b.Kind == storage.Node {
			sum, err := manifest.Summarize(raw)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", err, storage.ErrInvalid)
			}
			n, _ := manifest.Decode(raw) // Summarize did
			if err := s.checkNode(ctx, n, sum.Children, known); err != nil {
				return nil, err
			}
			f.sum, f.level = sum.Sum, sum.Level
			e.Sum, e.Children = uint64(sum.Sum), sum.Children
		}
		known[b.Ref] = f
		entries[i] = e
	}
	return entries, nil
}

// checkNode holds a node's items to what is before it or indexed.
func (s *Store) checkNode(ctx context.Context, n manifest.Node, children []storage.Ref, known map[storage.Ref]fact) error {
	var ask []storage.Ref
	for _, r := range children {
		if _, ok := known[r]; !ok {
			ask = append(ask, r)
		}
	}
	found, err := s.deps.Index.Locate(ctx, ask, nil)
	if err != nil {
		return err
	}
	for i, l := range found {
		if l.Key == "" {
			return fmt.Errorf("child %s is not stored: %w", ask[i], storage.ErrInvalid)
		}
		known[ask[i]] = fact{l.Kind, int64(l.Sum), -1}
	}
	for i := range n.Len() {
		it := n.Item(i)
		f, fits := known[it.Ref], false
		switch {
		case it.Ref.IsZero():
			continue
		case n.Level() == 0:
			fits = f.kind == storage.Chunk
		default:
			fits = f.kind == storage.Node && f.sum == it.Len && (f.level < 0 || f.level == n.Level()-1)
		}
		if !fits {
			return fmt.Errorf("child %s is not as its parent says: %w", it.Ref, storage.ErrInvalid)
		}
	}
	return nil
}

// try repeats f while the other side is unavailable.
func (s *Store) try(ctx context.Context, f func() error) error {
	wait := s.cfg.Backoff
	for n := 1; ; n++ {
		err := f()
		if !errors.Is(err, storage.ErrUnavailable) || n == s.cfg.Attempts {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
		wait *= 2
	}
}

// crockford is the alphabet of ULIDs.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// key makes a key nobody had: <namespace>/<2 hex>/<ULID>-<incarnation> (A40).
func (s *Store) key() (string, error) {
	var id [16]byte
	ms := uint64(s.deps.Wall().UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	s.randMu.Lock()
	_, err := io.ReadFull(s.deps.Rand, id[6:])
	s.randMu.Unlock()
	if err != nil {
		return "", fmt.Errorf("pack: random bytes for a key: %w", err)
	}
	return fmt.Sprintf("%s/%02x/%s-%s", s.cfg.Namespace, id[15], ulid(id), s.cfg.Incarnation), nil
}

// ulid writes 128 bits as 26 characters of five: two zero bits come first.
func ulid(id [16]byte) string {
	var shifted [17]byte // two zero bits, the id, six zero bits
	for i, b := range id {
		shifted[i] |= b >> 2
		shifted[i+1] = b << 6
	}
	return crockford.EncodeToString(shifted[:])[:26]
}
