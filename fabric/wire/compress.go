package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"

	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
)

// Calls of the Fabric service carry names, attributes and small files as they are, so that a large
// request or reply of theirs is compressed. Content is not: blobs have their stored form, and
// digests do not get smaller.
const (
	// compressor is the name of our compressor on the wire.
	compressor = "zstd"
	// minCompress is the least that is compressed, in bytes: below it there is nothing to gain.
	minCompress = 512
)

func init() {
	z, err := newZstd()
	if err != nil {
		panic(err) // options that contradict each other: a bug
	}
	encoding.RegisterCompressor(z)
}

// zstdCompressor makes each message one frame that states its length. Calls overlap.
type zstdCompressor struct {
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	bufs sync.Pool // of *bytes.Buffer
}

func newZstd() (*zstdCompressor, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &zstdCompressor{enc: enc, dec: dec, bufs: sync.Pool{New: func() any { return new(bytes.Buffer) }}}, nil
}

// Name implements encoding.Compressor.
func (z *zstdCompressor) Name() string { return compressor }

// packing collects a message and compresses it when it is closed.
type packing struct {
	z   *zstdCompressor
	to  io.Writer
	raw *bytes.Buffer
}

// Compress implements encoding.Compressor.
func (z *zstdCompressor) Compress(w io.Writer) (io.WriteCloser, error) {
	return &packing{z: z, to: w, raw: z.buffer()}, nil
}

func (z *zstdCompressor) buffer() *bytes.Buffer {
	b := z.bufs.Get().(*bytes.Buffer)
	b.Reset()
	return b
}

func (p *packing) Write(data []byte) (int, error) { return p.raw.Write(data) }

func (p *packing) Close() error {
	out := p.z.buffer()
	_, err := p.to.Write(p.z.enc.EncodeAll(p.raw.Bytes(), out.AvailableBuffer()))
	p.z.bufs.Put(p.raw)
	p.z.bufs.Put(out)
	return err
}

// errFrame says that a message is not one frame that states its length.
var errFrame = errors.New("not a zstd frame of stated length")

// Decompress implements encoding.Compressor. gRPC bounds what it reads of r by maxMessage.
func (z *zstdCompressor) Decompress(r io.Reader) (io.Reader, error) {
	in := z.buffer()
	defer z.bufs.Put(in)
	if _, err := in.ReadFrom(r); err != nil {
		return nil, err
	}
	var h zstd.Header
	if err := h.Decode(in.Bytes()); err != nil || h.Skippable || !h.HasFCS {
		return nil, errFrame
	}
	if h.FrameContentSize > maxMessage {
		return endless{}, nil
	}
	out := z.buffer()
	out.Grow(int(h.FrameContentSize))
	raw, err := z.dec.DecodeAll(in.Bytes(), out.AvailableBuffer()[:0:h.FrameContentSize])
	if err != nil {
		z.bufs.Put(out)
		return nil, errors.Join(errFrame, err)
	}
	return &unpacked{Reader: *bytes.NewReader(raw), z: z, buf: out}, nil
}

// endless stands for a message that is too long: gRPC reads a byte more than its limit and says so,
// without anything being decompressed.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// unpacked is a message in a buffer that goes back to the pool.
type unpacked struct {
	bytes.Reader
	z   *zstdCompressor
	buf *bytes.Buffer
}

func (u *unpacked) Close() error {
	u.z.bufs.Put(u.buf)
	return nil
}

// worthwhile says whether a message of a call is compressed.
func worthwhile(method string, m any) bool {
	if !strings.HasPrefix(method, "/"+pb.Fabric_ServiceDesc.ServiceName+"/") {
		return false
	}
	p, ok := m.(proto.Message)
	return ok && proto.Size(p) >= minCompress
}

// compressRequest is a client's interceptor.
func compressRequest(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if worthwhile(method, req) {
		opts = append(opts, grpc.UseCompressor(compressor))
	}
	return call(ctx, method, req, reply, cc, opts...)
}

// compressReply chooses how a server's reply goes; gRPC would do as the request did.
func compressReply(ctx context.Context, method string, reply any) {
	name := encoding.Identity
	if worthwhile(method, reply) {
		name = compressor
	}
	// It fails for a caller that does not know the name, or has gone: nothing is compressed then.
	_ = grpc.SetSendCompressor(ctx, name)
}
