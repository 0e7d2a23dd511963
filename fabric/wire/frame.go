package wire

import (
	"encoding/binary"
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	// The codec of all other messages, which ours hands them to.
	_ "google.golang.org/grpc/encoding/proto"

	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// chunkCodec is the content subtype of transfers: frames of blobs as they are, other messages as
// protobuf. A blob is copied once at each end: protobuf would copy it twice where it arrives.
//
//	Frame     kind, form, error, 0: a byte each; ref: 36; the rest: data
//	PutFrame  class, 0, 0, 0: a byte each; count: 4, little endian; Frame
const chunkCodec = "chunk"

const (
	frameHead = 4 + storage.RefLen
	putHead   = 8
)

func init() { encoding.RegisterCodecV2(frames{encoding.GetCodecV2("proto")}) }

// frames implements encoding.CodecV2.
type frames struct{ encoding.CodecV2 }

// Name implements encoding.CodecV2.
func (frames) Name() string { return chunkCodec }

// errBadFrame says that a message is no frame.
var errBadFrame = errors.New("a frame of a blob that is none")

// Marshal implements encoding.CodecV2.
func (c frames) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *pb.Frame:
		return frameOf(nil, v)
	case *pb.PutFrame:
		if v.Class > 255 {
			return nil, errBadFrame
		}
		head := binary.LittleEndian.AppendUint32([]byte{byte(v.Class), 0, 0, 0}, v.Count)
		return frameOf(head, v.GetBlob())
	}
	return c.CodecV2.Marshal(v)
}

// frameOf copies f, after some bytes, into a buffer of the pool: whose its data is may use it when
// the call returns, which is before it is sent.
func frameOf(before []byte, f *pb.Frame) (mem.BufferSlice, error) {
	if len(f.GetRef()) != storage.RefLen || f.Kind > 255 || f.Form > 255 || f.Error > 255 {
		return nil, errBadFrame
	}
	pool := mem.DefaultBufferPool()
	buf := pool.Get(len(before) + frameHead + len(f.Data))
	p := append((*buf)[:0], before...)
	p = append(p, byte(f.Kind), byte(f.Form), byte(f.Error), 0)
	p = append(p, f.Ref...)
	*buf = append(p, f.Data...)
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c frames) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *pb.Frame:
		return readFrame(data.Materialize(), v)
	case *pb.PutFrame:
		p := data.Materialize()
		if len(p) < putHead || p[1]|p[2]|p[3] != 0 {
			return errBadFrame
		}
		v.Class, v.Count, v.Blob = uint32(p[0]), binary.LittleEndian.Uint32(p[4:]), &pb.Frame{}
		return readFrame(p[putHead:], v.Blob)
	}
	return c.CodecV2.Unmarshal(data, v)
}

// readFrame takes p, which is the frame's from now on.
func readFrame(p []byte, f *pb.Frame) error {
	if len(p) < frameHead || p[3] != 0 {
		return errBadFrame
	}
	f.Kind, f.Form, f.Error = uint32(p[0]), uint32(p[1]), uint32(p[2])
	f.Ref, f.Data = p[4:frameHead:frameHead], p[frameHead:]
	return nil
}
