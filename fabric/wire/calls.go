package wire

import (
	"context"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
)

// fabricServer translates calls of the Fabric service.
type fabricServer struct {
	pb.UnimplementedFabricServer
	s *Server
}

// bounded refuses lists that are too long.
func (f fabricServer) bounded(n int) error {
	if n > f.s.cfg.MaxItems {
		return &fabric.Error{Op: "call", Code: fabric.Invalid}
	}
	return nil
}

func (f fabricServer) Hello(_ context.Context, r *pb.HelloRequest) (*pb.HelloReply, error) {
	v := min(r.Max, maxVersion)
	if v < minVersion || v < r.Min {
		return nil, &fabric.Error{Op: "hello", Code: fabric.Unsupported}
	}
	return &pb.HelloReply{Version: v}, nil
}

func (f fabricServer) Join(ctx context.Context, r *pb.JoinRequest) (*pb.JoinReply, error) {
	cert, ca, err := f.s.deps.Join(ctx, identity.HashSecret(r.Secret), r.Spoke, r.Node, r.Csr)
	if err != nil {
		return nil, err
	}
	return &pb.JoinReply{Cert: cert, Ca: ca}, nil
}

func (f fabricServer) Site(ctx context.Context, _ *pb.SiteRequest) (*pb.SiteReply, error) {
	site, err := f.s.deps.Site(ctx, callerOf(ctx).peer)
	if err != nil {
		return nil, err
	}
	return &pb.SiteReply{Site: site}, nil
}

func (f fabricServer) Connect(ctx context.Context, r *pb.ConnectRequest) (*pb.ConnectReply, error) {
	var old namespace.Ticket
	if len(r.Old) > 0 {
		var err error
		if old, err = namespace.DecodeTicket(r.Old); err != nil {
			return nil, err
		}
	}
	p := callerOf(ctx).peer
	session, t, info, lease, err := f.s.deps.Open(ctx, p, r.Namespace, old)
	if err != nil {
		return nil, err
	}
	f.s.remember(f.s.newKnown(p, r.Namespace, t, session))
	return &pb.ConnectReply{Ticket: namespace.AppendTicket(nil, &t), Info: namespace.AppendInfo(nil, &info), Lease: putLease(lease)}, nil
}

// Resume has nothing to do: a call of a session finds the session.
func (f fabricServer) Resume(context.Context, *pb.ResumeRequest) (*pb.Empty, error) {
	return &pb.Empty{}, nil
}

func (f fabricServer) Renew(ctx context.Context, r *pb.RenewRequest) (*pb.Lease, error) {
	// Open files are bounded by the session, which knows how many make sense.
	l, err := callerOf(ctx).session.Renew(ctx, fabric.Term(r.Dropped), each(r.Open, getIno))
	if err != nil {
		return nil, err
	}
	return putLease(l), nil
}

func (f fabricServer) Acquire(ctx context.Context, r *pb.AcquireRequest) (*pb.AcquireReply, error) {
	if err := f.bounded(len(r.Wants)); err != nil {
		return nil, err
	}
	session, wants := callerOf(ctx).session, each(r.Wants, getWant)
	reply := &pb.AcquireReply{}
	for size, first := 0, true; first || len(wants) > 0; first = false {
		part := wants[:min(len(wants), acquireBatch)]
		g, n, err := session.Acquire(ctx, part)
		if err == nil && (len(g) != len(part) || len(n) != len(part)) {
			err = &fabric.Error{Op: "acquire", Code: fabric.Internal}
		}
		if err != nil && !first {
			break // the caller asks for the rest and is told
		}
		if err != nil {
			return nil, err
		}
		for i := range n {
			p := namespace.AppendInode(nil, &n[i])
			if size += len(p) + grantSize; size > maxPage && len(reply.Inodes) > 0 {
				return reply, nil // what was granted beyond is recorded, and asked for again
			}
			reply.Grants, reply.Inodes = append(reply.Grants, putGrant(g[i])), append(reply.Inodes, p)
		}
		wants = wants[len(part):]
	}
	return reply, nil
}

const (
	// acquireBatch is how many wants a session is asked for at a time: with inodes of the largest
	// kind, 40 MiB.
	acquireBatch = 256
	// grantSize is more than what a grant, and the length of the value beside it, take in a reply.
	grantSize = 64
)

func (f fabricServer) Lookup(ctx context.Context, r *pb.LookupRequest) (*pb.LookupReply, error) {
	if err := f.bounded(len(r.Path)); err != nil {
		return nil, err
	}
	path := each(r.Path, func(p []byte) string { return string(p) })
	g, found, err := callerOf(ctx).session.Lookup(ctx, fabric.Ino(r.Dir), path, int(min(r.Want, maxPage)))
	if err != nil {
		return nil, err
	}
	out := fitFound(found)
	told := map[fabric.Ino]bool{}
	for i := range out {
		told[found[i].Inode.Ino] = true
	}
	reply := &pb.LookupReply{Found: out}
	for _, x := range g {
		if told[x.Ino] || len(out) == len(found) { // no right without what it protects
			reply.Grants = append(reply.Grants, putGrant(x))
		}
	}
	return reply, nil
}

func (f fabricServer) List(ctx context.Context, r *pb.ListRequest) (*pb.ListReply, error) {
	from := fabric.Pos{After: fabric.Cookie(r.After), ByName: r.ByName, At: string(r.At)}
	g, page, eof, err := callerOf(ctx).session.List(ctx, fabric.Ino(r.Dir), from, int(min(r.N, uint32(f.s.cfg.MaxItems))))
	if err != nil {
		return nil, err
	}
	entries, cut := fitPage(page)
	return &pb.ListReply{Grants: each(g, putGrant), Page: entries, Eof: eof && !cut}, nil
}

func (f fabricServer) Peek(ctx context.Context, r *pb.PeekRequest) (*pb.PeekReply, error) {
	if err := f.bounded(len(r.Inos)); err != nil {
		return nil, err
	}
	n, err := callerOf(ctx).session.Peek(ctx, each(r.Inos, getIno))
	if err != nil {
		return nil, err
	}
	return &pb.PeekReply{Inodes: encodeAll(n, namespace.AppendInode)}, nil
}

func (f fabricServer) Release(ctx context.Context, r *pb.ReleaseRequest) (*pb.Empty, error) {
	if err := f.bounded(len(r.Grants)); err != nil {
		return nil, err
	}
	if err := callerOf(ctx).session.Release(ctx, each(r.Grants, getGrant)); err != nil {
		return nil, err
	}
	return &pb.Empty{}, nil
}

func (f fabricServer) Events(_ *pb.EventsRequest, stream pb.Fabric_EventsServer) error {
	ctx := stream.Context()
	for m, err := range callerOf(ctx).session.Events(ctx) {
		if err != nil {
			return err
		}
		e := putMessage(m)
		if e == nil {
			continue // a kind that this version does not carry
		}
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	return fabric.Unavailable
}

func (f fabricServer) Ack(ctx context.Context, r *pb.AckRequest) (*pb.Empty, error) {
	if err := f.bounded(len(r.Acks)); err != nil {
		return nil, err
	}
	if err := callerOf(ctx).session.Ack(ctx, each(r.Acks, getAck)); err != nil {
		return nil, err
	}
	return &pb.Empty{}, nil
}

func (f fabricServer) Apply(ctx context.Context, r *pb.ApplyRequest) (*pb.ApplyReply, error) {
	c, err := namespace.DecodeCommand(r.Command)
	if err != nil {
		return nil, err
	}
	g, res, err := callerOf(ctx).session.Apply(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.ApplyReply{Grants: each(g, putGrant), Result: namespace.AppendResult(nil, &res)}, nil
}

func (f fabricServer) StatFS(ctx context.Context, _ *pb.StatFSRequest) (*pb.StatFSReply, error) {
	u, err := callerOf(ctx).session.StatFS(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.StatFSReply{Bytes: u.Bytes, FreeBytes: u.FreeBytes, Inodes: u.Inodes, FreeInodes: u.FreeInodes}, nil
}

func (f fabricServer) Close(ctx context.Context, _ *pb.CloseRequest) (*pb.Empty, error) {
	c := callerOf(ctx)
	if err := c.session.Close(ctx); err != nil {
		return nil, err
	}
	f.s.forget(c.key)
	return &pb.Empty{}, nil
}
