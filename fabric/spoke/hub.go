package spoke

import (
	"context"
	"iter"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
)

// Hub is a session with one namespace's group. A hub session and wire's client satisfy it.
// Acquire, Lookup, List and Apply may wait for other nodes. Errors carry a fabric.Code: Fenced
// means the session is gone for good, Unavailable that the same call may be made again.
type Hub interface {
	// Renew extends the lease. dropped: caches of terms before it are gone, kernels' too (A5);
	// open lists the files open here, which the leader of a new term does not know yet (A30).
	Renew(ctx context.Context, dropped fabric.Term, open []fabric.Ino) (rights.Lease, error)
	// Acquire returns, per want and in that order, a grant (maybe none) and the state it protects;
	// an inode that is gone has Ino 0. Where the answer would be too long it is for the first of w
	// only, at least one: the caller asks again for the rest.
	Acquire(ctx context.Context, w []rights.Want) ([]rights.Grant, []namespace.Inode, error)
	// Lookup follows path from dir and brings all it meets, with D on each directory passed and R
	// on each inode met, as far as they can be had at once. The first Found is dir itself, without a
	// Name (Ino 0: it is gone); one per step follows, up to the end of the path, the first absence
	// or what is no directory. Of a file at the end it brings the first want bytes too (0: none).
	Lookup(ctx context.Context, dir fabric.Ino, path []string, want int) ([]rights.Grant, []namespace.Found, error)
	// List gives a page of at most n entries from a place on, with R where it can be had; eof says
	// that no entry follows.
	List(ctx context.Context, dir fabric.Ino, from fabric.Pos, n int) (grants []rights.Grant, page []namespace.Dirent, eof bool, err error)
	// Peek gives attributes and roots without a right: for prefetch only.
	Peek(ctx context.Context, inos []fabric.Ino) ([]namespace.Inode, error)
	// Release gives rights back, unasked. A grant with Right 0 says that the file is no longer
	// open here (A30).
	Release(ctx context.Context, g []rights.Grant) error
	// Events are recalls and notices, until ctx or the session ends. After a break the caller asks
	// again, and recalls not acknowledged come again.
	Events(ctx context.Context) iter.Seq2[rights.Message, error]
	Ack(ctx context.Context, a []rights.Ack) error
	// Apply carries out a command of this session exactly once (A33); on Unavailable send the same
	// again. Grants are those that came with it (Make's W).
	Apply(ctx context.Context, c namespace.Command) ([]rights.Grant, namespace.Result, error)
	// StatFS is the namespace's usage.
	StatFS(ctx context.Context) (fabric.Usage, error)
	// Close ends the session cleanly.
	Close(ctx context.Context) error
}

// Link is an open session and what came with it.
type Link struct {
	Hub    Hub
	Blobs  storage.Blobs
	Info   namespace.Info
	Ticket namespace.Ticket
	Lease  rights.Lease
}

// Connector opens sessions of this node with one namespace.
type Connector interface {
	// Connect opens a session. old, if its Epoch is not 0, is one this node had and does not go on
	// with: it is closed first (A10). Unavailable: try again; Denied: not granted.
	Connect(ctx context.Context, old namespace.Ticket) (Link, error)
}
