package wire

import (
	"context"
	"iter"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// Conn is a session of this node, with the methods of spoke.Hub. It outlives connections: each call
// carries the ticket. Calls may overlap.
type Conn struct {
	c      *Client
	ticket string
	ns     string
}

func (c *Client) conn(ns string, t namespace.Ticket) *Conn {
	return &Conn{c: c, ns: ns, ticket: string(namespace.AppendTicket(nil, &t))}
}

// with adds the session to a call.
func (s *Conn) with(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, ticketKey, s.ticket, namespaceKey, s.ns)
}

// Blobs is the namespace's content.
func (s *Conn) Blobs() storage.Blobs { return blobs{s} }

// tooLong says that a reply did not fit in a message. Then a call that changes nothing is made for
// each half.
func tooLong(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && problemOf(err) == nil
}

// Renew implements spoke.Hub.
func (s *Conn) Renew(ctx context.Context, dropped fabric.Term, open []fabric.Ino) (rights.Lease, error) {
	r, err := s.c.control.Renew(s.with(ctx), &pb.RenewRequest{Dropped: uint64(dropped), Open: each(open, putIno)})
	if err != nil {
		return rights.Lease{}, fromStatus(ctx, "renew", err)
	}
	return getLease(r), nil
}

// Acquire implements spoke.Hub: it answers for as many of w as fit in a message.
func (s *Conn) Acquire(ctx context.Context, w []rights.Want) ([]rights.Grant, []namespace.Inode, error) {
	r, err := s.c.fabric.Acquire(s.with(ctx), &pb.AcquireRequest{Wants: each(w, putWant)})
	if err != nil {
		return nil, nil, fromStatus(ctx, "acquire", err)
	}
	n, err := decodeAll(r.Inodes, namespace.DecodeInode)
	if err != nil {
		return nil, nil, err
	}
	if len(r.Grants) != len(n) || len(n) > len(w) || (len(n) == 0 && len(w) > 0) {
		return nil, nil, &fabric.Error{Op: "acquire", Code: fabric.Internal}
	}
	return each(r.Grants, getGrant), n, nil
}

// Lookup implements spoke.Hub. A reply that ends at a directory before the end of the path did not
// fit in a message: the rest is looked up from there. If that fails, rights that were granted stay
// recorded at the hub, as after a reply that was lost.
func (s *Conn) Lookup(ctx context.Context, dir fabric.Ino, path []string, want int) (g []rights.Grant, found []namespace.Found, err error) {
	for {
		g1, f, err := s.lookup(ctx, dir, path, want)
		if err == nil && (len(f) == 0 || len(f) > len(path)+1) {
			err = &fabric.Error{Op: "lookup", Ino: dir, Code: fabric.Internal}
		}
		if err != nil {
			return nil, nil, err
		}
		steps := len(f) - 1
		if last := len(found) - 1; last >= 0 {
			if f[0].Inode.Ino == 0 {
				return nil, nil, fabric.Unavailable // it went away meanwhile: the path leads elsewhere
			}
			found[last].Inode, f = f[0].Inode, f[1:]
		}
		g, found, path = append(g, g1...), append(found, f...), path[steps:]
		end := found[len(found)-1].Inode
		if len(path) == 0 || steps == 0 || end.Ino == 0 || end.Type != fabric.TypeDir {
			return g, found, nil
		}
		dir = end.Ino
	}
}

// lookup is one call.
func (s *Conn) lookup(ctx context.Context, dir fabric.Ino, path []string, want int) ([]rights.Grant, []namespace.Found, error) {
	r, err := s.c.fabric.Lookup(s.with(ctx), &pb.LookupRequest{Dir: uint64(dir),
		Path: each(path, func(s string) []byte { return []byte(s) }), Want: uint32(min(max(want, 0), maxPage))})
	if err != nil {
		return nil, nil, fromStatus(ctx, "lookup", err)
	}
	found, err := decodeAll(r.Found, namespace.DecodeFound)
	if err != nil {
		return nil, nil, err
	}
	return each(r.Grants, getGrant), found, nil
}

// List implements spoke.Hub.
func (s *Conn) List(ctx context.Context, dir fabric.Ino, from fabric.Pos, n int) ([]rights.Grant, []namespace.Dirent, bool, error) {
	r, err := s.c.fabric.List(s.with(ctx), &pb.ListRequest{Dir: uint64(dir), After: uint64(from.After), ByName: from.ByName,
		At: []byte(from.At), N: uint32(min(max(n, 0), s.c.cfg.MaxItems))})
	if err != nil {
		return nil, nil, false, fromStatus(ctx, "list", err)
	}
	page, err := decodeAll(r.Page, namespace.DecodeDirent)
	if err != nil {
		return nil, nil, false, err
	}
	return each(r.Grants, getGrant), page, r.Eof, nil
}

// Peek implements spoke.Hub.
func (s *Conn) Peek(ctx context.Context, inos []fabric.Ino) ([]namespace.Inode, error) {
	r, err := s.c.fabric.Peek(s.with(ctx), &pb.PeekRequest{Inos: each(inos, putIno)})
	if tooLong(err) && len(inos) > 1 {
		n, err := s.Peek(ctx, inos[:len(inos)/2])
		if err != nil {
			return nil, err
		}
		n2, err := s.Peek(ctx, inos[len(inos)/2:])
		return append(n, n2...), err
	}
	if err != nil {
		return nil, fromStatus(ctx, "peek", err)
	}
	return decodeAll(r.Inodes, namespace.DecodeInode)
}

// Release implements spoke.Hub.
func (s *Conn) Release(ctx context.Context, g []rights.Grant) error {
	_, err := s.c.fabric.Release(s.with(ctx), &pb.ReleaseRequest{Grants: each(g, putGrant)})
	return fromStatus(ctx, "release", err)
}

// Events implements spoke.Hub.
func (s *Conn) Events(ctx context.Context) iter.Seq2[rights.Message, error] {
	return func(yield func(rights.Message, error) bool) {
		call, cancel := context.WithCancel(ctx) // breaking off the loop ends the call
		defer cancel()
		stream, err := s.c.control.Events(s.with(call), &pb.EventsRequest{})
		if err != nil {
			yield(nil, fromStatus(ctx, "events", err))
			return
		}
		for {
			e, err := stream.Recv()
			if err != nil {
				yield(nil, fromStatus(ctx, "events", err))
				return
			}
			if m := getMessage(e); m != nil && !yield(m, nil) {
				return
			}
		}
	}
}

// Ack implements spoke.Hub.
func (s *Conn) Ack(ctx context.Context, a []rights.Ack) error {
	_, err := s.c.control.Ack(s.with(ctx), &pb.AckRequest{Acks: each(a, putAck)})
	return fromStatus(ctx, "ack", err)
}

// Apply implements spoke.Hub.
func (s *Conn) Apply(ctx context.Context, c namespace.Command) ([]rights.Grant, namespace.Result, error) {
	r, err := s.c.fabric.Apply(s.with(ctx), &pb.ApplyRequest{Command: namespace.AppendCommand(nil, &c)})
	if err != nil {
		return nil, namespace.Result{}, fromStatus(ctx, "apply", err)
	}
	res, err := namespace.DecodeResult(r.Result)
	if err != nil {
		return nil, namespace.Result{}, err
	}
	return each(r.Grants, getGrant), res, nil
}

// StatFS implements spoke.Hub.
func (s *Conn) StatFS(ctx context.Context) (fabric.Usage, error) {
	r, err := s.c.fabric.StatFS(s.with(ctx), &pb.StatFSRequest{})
	if err != nil {
		return fabric.Usage{}, fromStatus(ctx, "statfs", err)
	}
	return fabric.Usage{Bytes: r.Bytes, FreeBytes: r.FreeBytes, Inodes: r.Inodes, FreeInodes: r.FreeInodes}, nil
}

// Close implements spoke.Hub. The client stays open.
func (s *Conn) Close(ctx context.Context) error {
	_, err := s.c.fabric.Close(s.with(ctx), &pb.CloseRequest{})
	return fromStatus(ctx, "close", err)
}
