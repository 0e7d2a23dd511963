package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/disk"
)

// Form of a record: see docs/formats/cache.md.
const (
	recordMagic   = 0x53504b43 // "CKPS" on disk
	recordVersion = 2
	recordFixed   = 4 + 1 + 1 + 2 + storage.RefLen + 4
	// blockSize is what one checksum covers: the least that a read costs. Reads do not fall on the ends
	// of blocks, so a smaller one saves at both ends of each chunk.
	blockSize = 16 << 10
	suffix    = ".segment"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment is one file of records.
type segment struct {
	number uint64
	name   string
	file   disk.File
	size   int64 // where the next record goes
	refs   int   // readers and one for being listed; the Store's mu guards it
	gone   bool  // evicted: nothing is found in it any more; mu guards it
	items  []storage.Ref
}

// place is where a blob's bytes are.
type place struct {
	seg  *segment
	off  int64 // of the data
	kind storage.Kind
	used bool     // read since it was written
	keep uint32   // score of Keep; higher stays longer
	sums []uint32 // CRC32C of each block
}

func blocks(n uint32) int { return int((int64(n) + blockSize - 1) / blockSize) }

// recordLen is the length of a blob's record.
func recordLen(n uint32) int64 { return recordFixed + 4*int64(blocks(n)) + int64(n) }

// appendHead encodes the head of a record, block sums included.
func appendHead(dst []byte, ref storage.Ref, kind storage.Kind, sums []uint32) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, recordMagic)
	dst = append(dst, recordVersion, byte(kind), 0, 0)
	dst = ref.Append(dst)
	for _, s := range sums {
		dst = binary.LittleEndian.AppendUint32(dst, s)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// decodeHead reads a head; ok is false if it is none. n is its length.
func decodeHead(p []byte) (ref storage.Ref, kind storage.Kind, sums []uint32, n int, ok bool) {
	if len(p) < recordFixed || binary.LittleEndian.Uint32(p) != recordMagic || p[4] != recordVersion {
		return ref, 0, nil, 0, false
	}
	kind = storage.Kind(p[5])
	ref, _ = storage.DecodeRef(p[8:])
	if ref.Len == 0 || ref.Len > storage.MaxRaw || kind != storage.Chunk && kind != storage.Node {
		return ref, 0, nil, 0, false
	}
	n = recordFixed + 4*blocks(ref.Len)
	if len(p) < n || crc32.Checksum(p[:n-4], castagnoli) != binary.LittleEndian.Uint32(p[n-4:]) {
		return ref, 0, nil, 0, false
	}
	sums = make([]uint32, 0, blocks(ref.Len))
	for i := range blocks(ref.Len) {
		sums = append(sums, binary.LittleEndian.Uint32(p[8+storage.RefLen+4*i:]))
	}
	return ref, kind, sums, n, true
}

// sumBlocks computes the blocks' checksums.
func sumBlocks(raw []byte) []uint32 {
	sums := make([]uint32, 0, blocks(uint32(len(raw))))
	for len(raw) > 0 {
		n := min(len(raw), blockSize)
		sums = append(sums, crc32.Checksum(raw[:n], castagnoli))
		raw = raw[n:]
	}
	return sums
}

func segmentName(n uint64) string { return fmt.Sprintf("%016x%s", n, suffix) }

func segmentNumber(name string) (uint64, bool) {
	hex, ok := strings.CutSuffix(name, suffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(hex, 16, 64)
	return n, err == nil
}

// load reads the heads of a segment's records. It ends at the first that is none: what a crash
// tore, or anything else; the rest of the file is not used.
func (s *segment) load(found func(ref storage.Ref, p *place)) error {
	size, err := s.file.Size()
	if err != nil {
		return err
	}
	head := make([]byte, recordFixed+4*blocks(storage.MaxRaw))
	var off int64
	for off < size {
		n, err := s.file.ReadAt(head[:min(int64(len(head)), size-off)], off)
		if n == 0 && err != nil {
			return err
		}
		ref, kind, sums, h, ok := decodeHead(head[:n])
		if !ok || off+recordLen(ref.Len) > size {
			break
		}
		found(ref, &place{seg: s, off: off + int64(h), kind: kind, sums: sums})
		s.items = append(s.items, ref)
		off += recordLen(ref.Len)
	}
	s.size = off
	return nil
}

// errBlock says that a block's bytes are not what was written.
var errBlock = errors.New("block does not match its checksum")

// errNoRecord says that a file has nothing to read: it is of another version, or a crash tore its first.
var errNoRecord = errors.New("no record")

// readAt fills dst from offset off of a blob of length size, checking every block it touches.
// scratch has blockSize bytes, for blocks that dst does not want whole.
func (p *place) readAt(dst []byte, off int64, size uint32, scratch []byte) error {
	for len(dst) > 0 {
		b := off / blockSize
		start := b * blockSize
		in := off - start
		buf := dst[:wholeBlocks(int64(len(dst)), int64(size)-start)]
		whole := in == 0 && len(buf) > 0
		if !whole {
			buf = scratch[:min(int64(size)-start, blockSize)]
		}
		if _, err := p.seg.file.ReadAt(buf, p.off+start); err != nil {
			return err
		}
		if !p.intact(buf, int(b)) {
			return errBlock
		}
		n := len(buf)
		if !whole {
			n = copy(dst, buf[in:])
		}
		dst, off = dst[n:], off+int64(n)
	}
	return nil
}

// wholeBlocks is how much of n bytes are whole blocks, from the start of one on that has left bytes
// behind it; the last block of a blob is whole with what there is.
func wholeBlocks(n, left int64) int64 {
	if n >= left {
		return left
	}
	return n - n%blockSize
}

// intact compares whole blocks, from number b on, with their sums.
func (p *place) intact(buf []byte, b int) bool {
	for ; len(buf) > 0; b++ {
		n := min(len(buf), blockSize)
		if crc32.Checksum(buf[:n], castagnoli) != p.sums[b] {
			return false
		}
		buf = buf[n:]
	}
	return true
}
