package chunk

import (
	"runtime"

	"github.com/klauspost/compress/zstd"

	"github.com/spokefs/spokefs/storage"
)

// Config of a Codec.
type Config struct {
	// Workers is how many callers compress, and how many decompress, at a time; each costs about
	// 2 MiB once used. Default: GOMAXPROCS, since the work is all CPU.
	Workers int
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	return c
}

// Codec compresses and decompresses. Safe for concurrent use.
type Codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// NewCodec gives a codec; it owns no goroutine and needs no end.
func NewCodec(cfg Config) *Codec {
	cfg = cfg.WithDefaults()
	// The digest is the checksum. A single segment states its length and needs no window.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(cfg.Workers), zstd.WithSingleSegment(true), zstd.WithWindowSize(storage.MaxRaw))
	if err != nil { // only wrong options
		panic(err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(cfg.Workers),
		zstd.WithDecoderMaxMemory(storage.MaxRaw), zstd.WithDecoderMaxWindow(storage.MaxRaw),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err)
	}
	enc.EncodeAll([]byte{0}, nil) // makes its workers now, not in the first caller's test bubble
	return &Codec{enc: enc, dec: dec}
}

// Compress appends raw to dst as a zstd frame, or returns raw itself where that saves less than
// 3 %. dst may be nil; a capacity of len(raw) + len(raw)/64 + 64 avoids allocations.
func (c *Codec) Compress(dst, raw []byte) ([]byte, storage.Form) {
	if len(raw) < smallest {
		return raw, storage.Raw
	}
	out := c.enc.EncodeAll(raw, dst)
	if worth(len(out)-len(dst), len(raw)) {
		return out, storage.Zstd
	}
	return raw, storage.Raw
}

// smallest is the length below which no frame is worth its header.
const smallest = 32

// worth says whether n stored bytes for size raw ones are few enough to pay for decoding them.
func worth(n, size int) bool { return n*100 <= size*97 }

// Decompress gives the raw bytes of b, which are as many as its Ref says; their digest is not
// looked at. The result is where Verify says.
func (c *Codec) Decompress(b storage.Blob, dst []byte) ([]byte, error) {
	n := int(b.Ref.Len)
	if n == 0 || b.Ref.Len > storage.MaxRaw {
		return nil, corrupt(b.Ref, "is of no allowed length")
	}
	switch b.Form {
	case storage.Raw:
		if len(b.Data) != n {
			return nil, corrupt(b.Ref, "has %d bytes", len(b.Data))
		}
		return b.Data, nil
	case storage.Zstd:
		if len(b.Data) >= n {
			return nil, corrupt(b.Ref, "is longer compressed: %d bytes", len(b.Data))
		}
		if err := checkFrame(b.Data, uint64(n)); err != nil {
			return nil, corrupt(b.Ref, "is no frame: %v", err)
		}
		if cap(dst) < n {
			dst = make([]byte, 0, n)
		}
		raw, err := c.dec.DecodeAll(b.Data, dst[:0:n])
		if err != nil {
			return nil, corrupt(b.Ref, "does not decode: %v", err)
		}
		if len(raw) != n {
			return nil, corrupt(b.Ref, "decodes to %d bytes", len(raw))
		}
		return raw, nil
	default:
		return nil, corrupt(b.Ref, "is of form %d", b.Form)
	}
}
