package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
)

// Limits of blobs (coherence.md 1.10).
const (
	MaxRaw    = 4 << 20         // bytes of a blob, not compressed
	MaxFrame  = MaxRaw + 64<<10 // bytes of a message that carries one
	RefLen    = 36              // bytes of an encoded Ref
	MaxBatch  = 4096            // refs in one Fetch, Put or Missing
	MaxKeyLen = 512             // bytes of an object's key
)

// Errors of Blobs and Bucket, told apart by errors.Is. What carries none of them is unexpected.
var (
	ErrNotExist    = errors.New("does not exist")
	ErrExist       = errors.New("exists already with other content")
	ErrCorrupt     = errors.New("content does not match its name")
	ErrUnavailable = errors.New("store unavailable")
	ErrNoSpace     = errors.New("no space")
	ErrDenied      = errors.New("refused")
	ErrInvalid     = errors.New("invalid")
)

// Ref names content: keyed BLAKE3-256 of the raw bytes, and their count. The zero Ref names
// nothing (a hole, an empty file).
type Ref struct {
	Sum [32]byte
	Len uint32
}

// IsZero says whether r names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// String is the first bytes of the sum and the length, for logs.
func (r Ref) String() string { return fmt.Sprintf("%s+%d", hex.EncodeToString(r.Sum[:8]), r.Len) }

// Append encodes r in RefLen bytes: sum, length little endian.
func (r Ref) Append(dst []byte) []byte {
	dst = append(dst, r.Sum[:]...)
	return append(dst, byte(r.Len), byte(r.Len>>8), byte(r.Len>>16), byte(r.Len>>24))
}

// DecodeRef reads what Append wrote; ok is false if p is shorter than RefLen.
func DecodeRef(p []byte) (r Ref, ok bool) {
	if len(p) < RefLen {
		return Ref{}, false
	}
	copy(r.Sum[:], p)
	p = p[32:]
	r.Len = uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
	return r, true
}

// Form says how a blob's bytes are stored and shipped. The values are part of stored formats.
type Form uint8

// The forms.
const (
	Raw  Form = 1
	Zstd Form = 2 // one zstd frame
)

// Kind tells a chunk from a manifest node. Refs of the two never meet: a node's digest is keyed
// apart. The values are part of stored formats.
type Kind uint8

// The kinds.
const (
	Chunk Kind = 1
	Node  Kind = 2
)

// Blob is a chunk or manifest node as it is stored and shipped.
type Blob struct {
	Ref  Ref
	Kind Kind
	Form Form
	Data []byte
}

// Class is the priority of a transfer; lower goes first.
type Class uint8

// The classes, in order of priority.
const (
	Demand Class = iota
	ReadAhead
	Upload
	Prefetch
	Scrub
	Classes = 5
)

// String is the class's name in metrics.
func (c Class) String() string {
	return [...]string{"demand", "readahead", "upload", "prefetch", "scrub"}[c]
}

// Blobs keeps one dedup domain. No Delete: the hub collects packs. Calls may overlap.
type Blobs interface {
	// Fetch yields each blob once, in any order; Data lives until the next step. A bad one
	// yields its Ref and an error; the rest follow. A zero Ref with an error ends it.
	Fetch(ctx context.Context, c Class, refs []Ref) iter.Seq2[Blob, error]
	// FetchRange is Fetch of what n bytes at off of a file need, nodes first; the hub walks.
	FetchRange(ctx context.Context, c Class, root Ref, off, n int64) iter.Seq2[Blob, error]
	// Put returns once all are durable; a node whose children are neither stored nor before
	// it in blobs is refused with ErrInvalid, and so is a blob that is not what its Ref says.
	Put(ctx context.Context, c Class, blobs []Blob) error
	// Missing appends to dst what must be uploaded; the rest is pinned for this session.
	Missing(ctx context.Context, refs, dst []Ref) ([]Ref, error)
}

// Object is one entry of a Bucket's listing.
type Object struct {
	Key  string
	Size int64
}

// Bucket keeps objects under keys that are written once. Calls may overlap.
type Bucket interface {
	// Put stores body under a key nobody had. It returns once it is durable. The same key with
	// the same bytes is success (an ambiguous answer retried), with others ErrExist.
	Put(ctx context.Context, key string, body []byte) error
	// Get fills p from offset off of an object; a shorter object is ErrCorrupt, none ErrNotExist.
	Get(ctx context.Context, key string, off int64, p []byte) error
	// Size is the object's length, or ErrNotExist.
	Size(ctx context.Context, key string) (int64, error)
	// Delete removes an object; a missing one is success.
	Delete(ctx context.Context, key string) error
	// List gives objects whose key starts with prefix and is greater than after, in byte order.
	List(ctx context.Context, prefix, after string) iter.Seq2[Object, error]
}
