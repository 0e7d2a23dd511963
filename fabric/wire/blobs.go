package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// blobs implements storage.Blobs over a session. What comes in is not verified: whoever keeps or
// uses a blob does that.
type blobs struct{ s *Conn }

// opener starts, or starts again, the stream of a fetch.
type opener func(ctx context.Context, chunks pb.ChunksClient, got map[storage.Ref]bool) (grpc.ServerStreamingClient[pb.Frame], error)

func (b blobs) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	if len(refs) > storage.MaxBatch || c >= storage.Classes {
		return failedFetch(storage.ErrInvalid)
	}
	return b.fetch(ctx, c, func(ctx context.Context, chunks pb.ChunksClient, got map[storage.Ref]bool) (grpc.ServerStreamingClient[pb.Frame], error) {
		rest := refs
		if len(got) > 0 {
			rest = nil
			for _, r := range refs {
				if !got[r] {
					rest = append(rest, r)
				}
			}
		}
		return chunks.Fetch(ctx, &pb.FetchRequest{Class: uint32(c), Refs: putRefs(rest)}, grpc.CallContentSubtype(chunkCodec))
	})
}

func (b blobs) FetchRange(ctx context.Context, c storage.Class, root storage.Ref, off, n int64) iter.Seq2[storage.Blob, error] {
	if c >= storage.Classes {
		return failedFetch(storage.ErrInvalid)
	}
	return b.fetch(ctx, c, func(ctx context.Context, chunks pb.ChunksClient, _ map[storage.Ref]bool) (grpc.ServerStreamingClient[pb.Frame], error) {
		return chunks.FetchRange(ctx, &pb.FetchRangeRequest{Class: uint32(c), Root: root.Append(nil), Off: off, N: n}, grpc.CallContentSubtype(chunkCodec))
	})
}

func failedFetch(err error) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) { yield(storage.Blob{}, err) }
}

// fetch yields what streams bring, each blob once; a stream that breaks is opened again. It waits
// its turn.
func (b blobs) fetch(ctx context.Context, c storage.Class, open opener) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		leave, err := b.s.c.gates.enter(ctx, c)
		if err != nil {
			yield(storage.Blob{}, err)
			return
		}
		defer leave()
		got := map[storage.Ref]bool{} // at most what one answer has: refs, no data
		for tries := 0; ; {
			before := len(got)
			l := b.s.c.take()
			err, stop := b.once(ctx, l, open, got, yield)
			if stop || err == nil {
				return
			}
			err, broken := fromBlobs(ctx, err)
			if len(got) > before {
				tries = 0
			}
			if tries++; !broken || tries > b.s.c.cfg.Retries || !b.s.c.ready(ctx, l.conn) {
				if ctx.Err() != nil {
					err = ctx.Err()
				}
				yield(storage.Blob{}, err)
				return
			}
		}
	}
}

// once reads one stream to its end (nil) or its failure; stop says that the caller broke off or has
// its error already. It leaves the lane.
func (b blobs) once(ctx context.Context, l *lane, open opener, got map[storage.Ref]bool, yield func(storage.Blob, error) bool) (err error, stop bool) {
	defer l.leave()
	call, cancel := context.WithCancel(b.s.with(ctx))
	defer cancel()
	stream, err := open(call, l.chunks, got)
	if err != nil {
		return err, false
	}
	for {
		f, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, false
		}
		if err != nil {
			return err, false
		}
		blob, err := getBlob(f)
		if err != nil {
			yield(storage.Blob{}, fmt.Errorf("%w: a frame that is none", storage.ErrCorrupt))
			return nil, true
		}
		if got[blob.Ref] {
			continue // from before the break
		}
		got[blob.Ref] = true
		if f.Error != 0 {
			blob, err = storage.Blob{Ref: blob.Ref}, storageError(f.Error)
		} else {
			n := &b.s.c.count
			n.blobIn.Add(1)
			n.rawIn.Add(int64(blob.Ref.Len))
			n.storedIn.Add(int64(len(blob.Data)))
		}
		if !yield(blob, err) {
			return nil, true
		}
	}
}

func (b blobs) Put(ctx context.Context, c storage.Class, list []storage.Blob) error {
	if len(list) > storage.MaxBatch || c >= storage.Classes {
		return storage.ErrInvalid
	}
	if len(list) == 0 {
		return ctx.Err()
	}
	leave, err := b.s.c.gates.enter(ctx, c)
	if err != nil {
		return err
	}
	defer leave()
	for tries := 1; ; tries++ {
		l := b.s.c.take()
		err := b.put(ctx, l, c, list)
		if err == nil {
			return nil
		}
		err, broken := fromBlobs(ctx, err)
		if !broken || tries > b.s.c.cfg.Retries || !b.s.c.ready(ctx, l.conn) {
			return err
		}
	}
}

func (b blobs) put(ctx context.Context, l *lane, c storage.Class, list []storage.Blob) error {
	defer l.leave()
	call, cancel := context.WithCancel(b.s.with(ctx))
	defer cancel()
	stream, err := l.chunks.Put(call, grpc.CallContentSubtype(chunkCodec))
	if err != nil {
		return err
	}
	n := &b.s.c.count
	for i := range list {
		f := &pb.PutFrame{Blob: putBlob(&list[i])}
		if i == 0 {
			f.Class, f.Count = uint32(c), uint32(len(list))
		}
		if err := stream.Send(f); err != nil {
			break // the reason comes below
		}
		n.blobOut.Add(1)
		n.rawOut.Add(int64(list[i].Ref.Len))
		n.storedOut.Add(int64(len(list[i].Data)))
	}
	_, err = stream.CloseAndRecv()
	return err
}

func (b blobs) Missing(ctx context.Context, refs, dst []storage.Ref) ([]storage.Ref, error) {
	if len(refs) > storage.MaxBatch {
		return dst, storage.ErrInvalid
	}
	if len(refs) == 0 {
		return dst, ctx.Err()
	}
	l := b.s.c.take()
	defer l.leave()
	r, err := l.chunks.Missing(b.s.with(ctx), &pb.MissingRequest{Refs: putRefs(refs)})
	if err != nil {
		err, _ = fromBlobs(ctx, err)
		return dst, err
	}
	missing, err := getRefs(r.Refs)
	if err != nil {
		return dst, err
	}
	return append(dst, missing...), nil
}
