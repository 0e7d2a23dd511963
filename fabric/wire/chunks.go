package wire

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// chunksServer translates calls of the Chunks service.
type chunksServer struct {
	pb.UnimplementedChunksServer
	s *Server
}

func (c chunksServer) Fetch(r *pb.FetchRequest, stream pb.Chunks_FetchServer) error {
	class, err := getClass(r.Class)
	if err != nil {
		return err
	}
	refs, err := getRefs(r.Refs)
	if err != nil {
		return err
	}
	ctx := stream.Context()
	who := callerOf(ctx)
	return send(stream, who.out, class, who.session.Blobs().Fetch(ctx, class, refs))
}

func (c chunksServer) FetchRange(r *pb.FetchRangeRequest, stream pb.Chunks_FetchRangeServer) error {
	class, err := getClass(r.Class)
	if err != nil {
		return err
	}
	root, ok := storage.DecodeRef(r.Root)
	if !ok || len(r.Root) != storage.RefLen {
		return storage.ErrInvalid
	}
	ctx := stream.Context()
	who := callerOf(ctx)
	return send(stream, who.out, class, who.session.Blobs().FetchRange(ctx, class, root, r.Off, r.N))
}

// send ships blobs as they come, behind those of higher classes. Send has encoded a blob, and so
// copied it, when it returns.
func send(stream grpc.ServerStreamingServer[pb.Frame], out *turnstile, c storage.Class, blobs iter.Seq2[storage.Blob, error]) error {
	for b, err := range blobs {
		f := putBlob(&b)
		if err != nil {
			if b.Ref.IsZero() {
				return err
			}
			f = &pb.Frame{Ref: f.Ref, Error: storageNumber(err)}
		}
		out.pass(stream.Context(), c)
		err := stream.Send(f)
		out.sent(c)
		if err != nil {
			return err
		}
	}
	return nil
}

// Put stores what comes in parts of bounded size, in order, so that children stay before nodes.
func (c chunksServer) Put(stream pb.Chunks_PutServer) error {
	ctx := stream.Context()
	who := callerOf(ctx)
	select {
	case who.puts <- struct{}{}:
		defer func() { <-who.puts }()
	case <-ctx.Done():
		return ctx.Err()
	}
	blobs := who.session.Blobs()
	var class storage.Class
	var part []storage.Blob
	total, size, want := 0, 0, -1
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		err := blobs.Put(ctx, class, part)
		part, size = nil, 0
		return err
	}
	for {
		f, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if want < 0 {
			if class, err = getClass(f.Class); err != nil {
				return err
			}
			want = int(f.Count)
		}
		b, err := getBlob(f.Blob)
		if total++; err != nil || total > storage.MaxBatch {
			return storage.ErrInvalid
		}
		part = append(part, b)
		if size += len(b.Data); size >= c.s.cfg.MaxBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if want >= 0 && total != want {
		return storage.ErrInvalid // cut off
	}
	if err := flush(); err != nil {
		return err
	}
	return stream.SendAndClose(&pb.Empty{})
}

func (c chunksServer) Missing(ctx context.Context, r *pb.MissingRequest) (*pb.MissingReply, error) {
	refs, err := getRefs(r.Refs)
	if err != nil {
		return nil, err
	}
	missing, err := callerOf(ctx).session.Blobs().Missing(ctx, refs, nil)
	if err != nil {
		return nil, err
	}
	return &pb.MissingReply{Refs: putRefs(missing)}, nil
}
