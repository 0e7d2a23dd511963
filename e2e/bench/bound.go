package bench

import (
	"os"
	"path/filepath"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// bound counts what has to cross a link: each chunk once, compressed. It cuts with a key of its own,
// so its cuts are others than the namespace's, of the same size in the mean.
type bound struct {
	hasher *chunk.Hasher
	seen   map[storage.Ref]bool
	buf    []byte
}

func newBound() *bound {
	return &bound{hasher: chunk.New([32]byte{1}), seen: map[storage.Ref]bool{}}
}

// add reads files below dir and gives the compressed bytes of chunks that were not seen before.
func (b *bound) add(dir string, fs []*file) (unique int64, err error) {
	cut := b.hasher.Cutter(chunk.Default())
	for _, f := range fs {
		p, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.path)))
		if err != nil {
			return 0, err
		}
		cut.Reset()
		for start, off := 0, 0; off < len(p); {
			n, end := cut.Next(p[off:])
			off += n
			if !end && off < len(p) {
				continue
			}
			raw := p[start:off]
			start = off
			if ref := b.hasher.Chunk(raw); !b.seen[ref] {
				b.seen[ref] = true
				unique += int64(len(b.hasher.Seal(storage.Chunk, raw, b.buf[:0]).Data))
			}
		}
	}
	return unique, nil
}
