package chunk

import (
	"fmt"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/spokefs/spokefs/storage"
)

// Hasher names the content of one dedup domain. Safe for concurrent use.
type Hasher struct {
	codec  *Codec
	gear   [256]uint64
	chunks sync.Pool // of *digest
	nodes  sync.Pool // of *digest
}

// digest is a keyed hash with room for its result, so that neither is allocated per call.
type digest struct {
	hash *blake3.Hasher
	sum  [32]byte
}

// New gives the Hasher of a namespace's digest key. Its codec is its own; NewWith shares one.
func New(key [32]byte) *Hasher { return NewWith(key, NewCodec(Config{})) }

// NewWith is New with a codec that may serve several namespaces.
func NewWith(key [32]byte, codec *Codec) *Hasher {
	h := &Hasher{codec: codec}
	fillGear(&h.gear, key[:])
	h.chunks.New = newDigest("spokefs 2026-12-01 chunk", key)
	h.nodes.New = newDigest("spokefs 2026-12-01 manifest node", key)
	return h
}

func newDigest(context string, key [32]byte) func() any {
	var sub [32]byte
	blake3.DeriveKey(context, key[:], sub[:])
	return func() any {
		hash, err := blake3.NewKeyed(sub[:])
		if err != nil { // only a key of another length
			panic(err)
		}
		return &digest{hash: hash}
	}
}

// Chunk names a chunk of 1 to storage.MaxRaw bytes; no bytes have the zero Ref.
func (h *Hasher) Chunk(p []byte) storage.Ref { return sum(&h.chunks, p) }

// Node names a manifest node.
func (h *Hasher) Node(p []byte) storage.Ref { return sum(&h.nodes, p) }

// Ref names p as a blob of kind k.
func (h *Hasher) Ref(k storage.Kind, p []byte) storage.Ref {
	if k == storage.Node {
		return h.Node(p)
	}
	return h.Chunk(p)
}

func sum(pool *sync.Pool, p []byte) storage.Ref {
	if len(p) == 0 {
		return storage.Ref{}
	}
	d := pool.Get().(*digest)
	d.hash.Reset()
	_, _ = d.hash.Write(p) // never fails
	d.hash.Sum(d.sum[:0])
	r := storage.Ref{Sum: d.sum, Len: uint32(len(p))}
	pool.Put(d)
	return r
}

// Seal makes a blob of 1 to storage.MaxRaw raw bytes. Its Data is raw itself, or is appended to
// dst (which may be nil): the blob lives as long as both.
func (h *Hasher) Seal(k storage.Kind, raw, dst []byte) storage.Blob {
	if len(raw) == 0 || len(raw) > storage.MaxRaw {
		panic(fmt.Sprintf("chunk: a blob of %d bytes", len(raw)))
	}
	data, form := h.codec.Compress(dst, raw)
	return storage.Blob{Ref: h.Ref(k, raw), Kind: k, Form: form, Data: data}
}

// Verify gives the raw bytes of b if they are what its Ref names, else ErrCorrupt. They are b.Data
// itself if b is raw, else they are in dst's memory where its capacity allows, else new.
func (h *Hasher) Verify(b storage.Blob, dst []byte) (raw []byte, err error) {
	if b.Kind != storage.Chunk && b.Kind != storage.Node {
		return nil, corrupt(b.Ref, "is of kind %d", b.Kind)
	}
	if raw, err = h.codec.Decompress(b, dst); err != nil {
		return nil, err
	}
	if h.Ref(b.Kind, raw) != b.Ref {
		return nil, corrupt(b.Ref, "has another digest")
	}
	return raw, nil
}

func corrupt(r storage.Ref, format string, args ...any) error {
	return fmt.Errorf("blob %s %s: %w", r, fmt.Sprintf(format, args...), storage.ErrCorrupt)
}
