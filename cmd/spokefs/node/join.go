package node

import (
	"context"
	"iter"
	"sync"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/hub"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/fabric/spoke"
	"github.com/spokefs/spokefs/storage"
)

// beside joins a spoke to a hub in the same process, by pointer. It implements spoke.Connector.
type beside struct {
	engine   *hub.Namespace
	node     string
	readOnly bool
}

// Connect implements spoke.Connector.
func (b *beside) Connect(ctx context.Context, old namespace.Ticket) (spoke.Link, error) {
	s, t, info, lease, err := b.engine.Open(ctx, b.node, b.readOnly, old)
	if err != nil {
		return spoke.Link{}, err
	}
	j := &joined{beside: b, ticket: t, s: s}
	return spoke.Link{Hub: j, Blobs: joinedBlobs{j}, Info: info, Ticket: t, Lease: lease}, nil
}

// joined is a session that outlives terms: when its leader's end makes it unavailable, the next
// call resumes it.
type joined struct {
	*beside
	ticket namespace.Ticket
	mu     sync.Mutex // guards s
	s      *hub.Session
}

// session gives the session of this term. last, if not nil, is one that turned out to be over.
func (j *joined) session(ctx context.Context, last *hub.Session) (*hub.Session, error) {
	j.mu.Lock()
	s := j.s
	j.mu.Unlock()
	if s != last {
		return s, nil
	}
	s, err := j.engine.Resume(ctx, j.node, j.ticket)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.s = s
	return s, nil
}

// try makes a call, and once more on a resumed session if the first one was over.
func try[T any](ctx context.Context, j *joined, f func(s *hub.Session) (T, error)) (T, error) {
	s, err := j.session(ctx, nil)
	var v T
	if err != nil {
		return v, err
	}
	if v, err = f(s); fabric.CodeOf(err) != fabric.Unavailable {
		return v, err
	}
	again, e := j.session(ctx, s)
	if e != nil {
		return v, e
	}
	if again == s {
		return v, err
	}
	return f(again)
}

type pair[A, B any] struct {
	a A
	b B
}

// Renew implements spoke.Hub.
func (j *joined) Renew(ctx context.Context, dropped fabric.Term, open []fabric.Ino) (rights.Lease, error) {
	return try(ctx, j, func(s *hub.Session) (rights.Lease, error) { return s.Renew(ctx, dropped, open) })
}

// Acquire implements spoke.Hub.
func (j *joined) Acquire(ctx context.Context, w []rights.Want) ([]rights.Grant, []namespace.Inode, error) {
	p, err := try(ctx, j, func(s *hub.Session) (p pair[[]rights.Grant, []namespace.Inode], err error) {
		p.a, p.b, err = s.Acquire(ctx, w)
		return p, err
	})
	return p.a, p.b, err
}

// Lookup implements spoke.Hub.
func (j *joined) Lookup(ctx context.Context, dir fabric.Ino, path []string, want int) ([]rights.Grant, []namespace.Found, error) {
	p, err := try(ctx, j, func(s *hub.Session) (p pair[[]rights.Grant, []namespace.Found], err error) {
		p.a, p.b, err = s.Lookup(ctx, dir, path, want)
		return p, err
	})
	return p.a, p.b, err
}

// List implements spoke.Hub.
func (j *joined) List(ctx context.Context, dir fabric.Ino, from fabric.Pos, n int) ([]rights.Grant, []namespace.Dirent, bool, error) {
	type page struct {
		pair[[]rights.Grant, []namespace.Dirent]
		eof bool
	}
	p, err := try(ctx, j, func(s *hub.Session) (p page, err error) {
		p.a, p.b, p.eof, err = s.List(ctx, dir, from, n)
		return p, err
	})
	return p.a, p.b, p.eof, err
}

// Peek implements spoke.Hub.
func (j *joined) Peek(ctx context.Context, inos []fabric.Ino) ([]namespace.Inode, error) {
	return try(ctx, j, func(s *hub.Session) ([]namespace.Inode, error) { return s.Peek(ctx, inos) })
}

// Release implements spoke.Hub.
func (j *joined) Release(ctx context.Context, g []rights.Grant) error {
	_, err := try(ctx, j, func(s *hub.Session) (any, error) { return nil, s.Release(ctx, g) })
	return err
}

// Events implements spoke.Hub.
func (j *joined) Events(ctx context.Context) iter.Seq2[rights.Message, error] {
	return func(yield func(rights.Message, error) bool) {
		s, err := j.session(ctx, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		for m, err := range s.Events(ctx) {
			if !yield(m, err) || err != nil {
				break
			}
		}
		j.session(ctx, s) // if it is over: the next call finds the one of the new term
	}
}

// Ack implements spoke.Hub.
func (j *joined) Ack(ctx context.Context, a []rights.Ack) error {
	_, err := try(ctx, j, func(s *hub.Session) (any, error) { return nil, s.Ack(ctx, a) })
	return err
}

// Apply implements spoke.Hub.
func (j *joined) Apply(ctx context.Context, c namespace.Command) ([]rights.Grant, namespace.Result, error) {
	p, err := try(ctx, j, func(s *hub.Session) (p pair[[]rights.Grant, namespace.Result], err error) {
		p.a, p.b, err = s.Apply(ctx, c)
		return p, err
	})
	return p.a, p.b, err
}

// StatFS implements spoke.Hub.
func (j *joined) StatFS(ctx context.Context) (fabric.Usage, error) {
	return try(ctx, j, func(s *hub.Session) (fabric.Usage, error) { return s.StatFS(ctx) })
}

// Close implements spoke.Hub.
func (j *joined) Close(ctx context.Context) error {
	_, err := try(ctx, j, func(s *hub.Session) (any, error) { return nil, s.Close(ctx) })
	return err
}

// joinedBlobs is the storage.Blobs of whichever term's session.
type joinedBlobs struct{ j *joined }

func (b joinedBlobs) blobs() storage.Blobs {
	b.j.mu.Lock()
	defer b.j.mu.Unlock()
	return b.j.s.Blobs()
}

// Fetch implements storage.Blobs.
func (b joinedBlobs) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	return b.blobs().Fetch(ctx, c, refs)
}

// FetchRange implements storage.Blobs.
func (b joinedBlobs) FetchRange(ctx context.Context, c storage.Class, root storage.Ref, off, n int64) iter.Seq2[storage.Blob, error] {
	return b.blobs().FetchRange(ctx, c, root, off, n)
}

// Put implements storage.Blobs.
func (b joinedBlobs) Put(ctx context.Context, c storage.Class, blobs []storage.Blob) error {
	return b.blobs().Put(ctx, c, blobs)
}

// Missing implements storage.Blobs.
func (b joinedBlobs) Missing(ctx context.Context, refs, dst []storage.Ref) ([]storage.Ref, error) {
	return b.blobs().Missing(ctx, refs, dst)
}

// lateBeside is beside a namespace that is served by the time it is joined.
type lateBeside struct {
	hub       *Hub
	namespace string
}

// Connect implements spoke.Connector.
func (l *lateBeside) Connect(ctx context.Context, old namespace.Ticket) (spoke.Link, error) {
	s, err := l.hub.namespace(l.namespace)
	if err != nil {
		return spoke.Link{}, err
	}
	return (&beside{engine: s.engine, node: homeSpoke}).Connect(ctx, old)
}
