package chunk

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/zeebo/blake3"

	"github.com/spokefs/spokefs/storage"
)

// FastCDC is the one algorithm there is; the number is part of what a namespace records.
const FastCDC = 1

// Params say how content is cut. A namespace keeps the ones it was made with: other cuts find
// nothing of what is stored.
type Params struct {
	Algorithm uint8
	Min       uint32 // bytes; only the last chunk of a stream is shorter
	Mean      uint32 // bytes; where the condition for a cut becomes easier
	Max       uint32 // bytes; at most storage.MaxRaw
}

// Default is what new namespaces get; docs/decisions/0002-chunk-size.md has the measurement.
func Default() Params {
	return Params{Algorithm: FastCDC, Min: 16 << 10, Mean: 64 << 10, Max: 256 << 10}
}

// minParam keeps the table of chunks of a file sane.
const minParam = 64

// Validate refuses parameters that cannot cut: 64 ≤ Min < Mean < Max ≤ storage.MaxRaw.
func (p Params) Validate() error {
	if p.Algorithm != FastCDC {
		return fmt.Errorf("chunking algorithm %d is unknown: %w", p.Algorithm, storage.ErrInvalid)
	}
	if p.Min < minParam || p.Mean <= p.Min || p.Max <= p.Mean || p.Max > storage.MaxRaw {
		return fmt.Errorf("chunk sizes %d, %d, %d are not in order or out of range: %w",
			p.Min, p.Mean, p.Max, storage.ErrInvalid)
	}
	return nil
}

// ease is how much rarer than one in Mean cuts are before Mean, and more frequent after it: it
// draws sizes together.
const ease = 4

// Cutter finds the ends of the chunks of one stream. One goroutine at a time.
type Cutter struct {
	gear       *[256]uint64
	params     Params
	hard, easy uint64 // a cut is where the rolling hash is below
	hash       uint64
	size       uint32 // bytes of the chunk so far
}

// Cutter gives a cutter at the start of a stream, with cuts of this key. p must be valid.
func (h *Hasher) Cutter(p Params) *Cutter {
	if err := p.Validate(); err != nil {
		panic(err)
	}
	one, _ := bits.Div64(1, 0, uint64(p.Mean))
	return &Cutter{gear: &h.gear, params: p, hard: one / ease, easy: one * ease}
}

// Next reads on in the stream and says where the chunk it is in ends: n bytes of p belong to it,
// and end says that it ends there. Without end, n is len(p). The end of the stream ends the last
// chunk; that is the caller's to see.
func (c *Cutter) Next(p []byte) (n int, end bool) {
	if c.size < c.params.Min {
		n = min(len(p), int(c.params.Min-c.size))
		c.size += uint32(n)
	}
	if n, end = c.scan(p, n, c.params.Mean, c.hard); end {
		return n, true
	}
	return c.scan(p, n, c.params.Max, c.easy)
}

// scan looks for a cut from p[n:] until the chunk has limit bytes; a chunk of Max bytes ends.
func (c *Cutter) scan(p []byte, n int, limit uint32, below uint64) (int, bool) {
	if c.size >= limit || n == len(p) {
		return n, false
	}
	part := p[n:min(len(p), n+int(limit-c.size))]
	hash, gear := c.hash, c.gear
	for i, b := range part {
		if hash = hash<<1 + gear[b]; hash < below {
			c.Reset()
			return n + i + 1, true
		}
	}
	c.hash = hash
	c.size += uint32(len(part))
	n += len(part)
	if c.size == c.params.Max {
		c.Reset()
		return n, true
	}
	return n, false
}

// Reset goes back to the start of a chunk.
func (c *Cutter) Reset() { c.hash, c.size = 0, 0 }

// fillGear derives the 256 numbers of the rolling hash from a key.
func fillGear(gear *[256]uint64, key []byte) {
	var raw [256 * 8]byte
	blake3.DeriveKey("spokefs 2026-12-01 chunk cuts", key, raw[:])
	for i := range gear {
		gear[i] = binary.LittleEndian.Uint64(raw[i*8:])
	}
}
