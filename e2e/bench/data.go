package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"

	"github.com/zeebo/xxh3"
)

// file is one file of the data set.
type file struct {
	path string // relative, with slashes
	size int64
	seed uint64
	kind kind
	sum  xxh3.Uint128 // of its bytes; known once it is written
}

// kind says what the bytes of a file are like.
type kind uint8

const (
	image kind = iota // as JPEG: nothing to compress
	text              // as labels and logs: a quarter after compression
	shard             // images one after the other, one in ten of which all shards share
)

// data is an image folder beside a few shards. It is a function of scale and seed.
type data struct {
	small  []file // train/cNNN/imgNNNNN
	shards []file
	first  []file // in the root, for first bytes
}

// What the whole data set has, at scale 1.
const (
	smallFiles   = 20_000
	folderFiles  = 200
	smallMean    = 110_000 // bytes
	smallSigma   = 0.8     // of the logarithm
	shardFiles   = 8
	shardSize    = 256 << 20
	firstFiles   = 24 // whatever the scale
	textShare    = 0.165
	copyShare    = 0.025 // of files that are another one's bytes
	sharedRecord = 0.1   // of a shard's records
)

// newData lays out the data set.
func newData(scale float64, seed uint64) *data {
	r := rand.New(rand.NewPCG(seed, 1))
	d := &data{}
	n := max(int(smallFiles*scale), 16)
	folders := max(n/folderFiles, 4)
	for i := range n {
		f := file{path: fmt.Sprintf("train/c%03d/img%05d", i*folders/n, i), size: lognormal(r), seed: r.Uint64(), kind: image}
		switch p := r.Float64(); {
		case p < textShare:
			f.kind = text
		case p < textShare+copyShare && i > 0:
			o := d.small[r.IntN(i)]
			f.size, f.seed, f.kind = o.size, o.seed, o.kind
		}
		d.small = append(d.small, f)
	}
	total := int64(shardFiles * shardSize * scale)
	size := min(max(total/2, 1<<20), shardSize)
	for i := range max(total/size, 2) {
		d.shards = append(d.shards, file{path: fmt.Sprintf("shards/s%02d.tar", i), size: size, seed: r.Uint64(), kind: shard})
	}
	for i := range firstFiles {
		d.first = append(d.first, file{path: fmt.Sprintf("first%02d", i), size: smallMean, seed: r.Uint64(), kind: image})
	}
	return d
}

// lognormal draws the size of a small file.
func lognormal(r *rand.Rand) int64 {
	mu := math.Log(smallMean) - smallSigma*smallSigma/2
	return int64(min(max(math.Exp(mu+smallSigma*r.NormFloat64()), 2<<10), 4<<20))
}

// all lists every file.
func (d *data) all() []*file {
	var out []*file
	for _, fs := range [][]file{d.small, d.shards, d.first} {
		out = append(out, refs(fs)...)
	}
	return out
}

func refs(fs []file) []*file {
	out := make([]*file, len(fs))
	for i := range fs {
		out[i] = &fs[i]
	}
	return out
}

// part is what is copied over the link: the first quarter of the folders and of the shards.
func (d *data) part() []*file {
	return append(refs(d.small[:len(d.small)/4]), refs(d.shards[:max(len(d.shards)/4, 1)])...)
}

func bytesOf(fs []*file) (n int64) {
	for _, f := range fs {
		n += f.size
	}
	return n
}

// content gives a file's bytes.
func (f *file) content() []byte {
	p := make([]byte, f.size)
	switch f.kind {
	case image:
		noise(p, f.seed)
	case text:
		words(p, f.seed)
	case shard:
		records(p, f.seed)
	}
	return p
}

func noise(p []byte, seed uint64) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	rand.NewChaCha8(key).Read(p)
}

// words fills p with lines that compress to about a quarter.
func words(p []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	var line []byte
	for n := 0; n < len(p); n += copy(p[n:], line) {
		line = fmt.Appendf(line[:0], `{"label":%d,"box":[%.4f,%.4f],"split":"train","width":%d,"id":"%012x"}`+"\n",
			r.IntN(1000), r.Float64(), r.Float64(), 256*(1+r.IntN(4)), r.Uint64()>>16)
	}
}

// records fills p with images, some of which other shards have too.
func records(p []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	for len(p) > 0 {
		n := min(int(lognormal(r)), len(p))
		s := r.Uint64()
		if r.Float64() < sharedRecord {
			s = r.Uint64N(64)
			n = min(int(lognormal(rand.New(rand.NewPCG(s, 4)))), len(p))
		}
		noise(p[:n], s)
		p = p[n:]
	}
}

// write makes the files below dir and notes their sums.
func write(dir string, fs []*file) error {
	for _, f := range fs {
		if err := put(dir, f, f.content()); err != nil {
			return err
		}
	}
	return nil
}

func put(dir string, f *file, p []byte) error {
	name := filepath.Join(dir, filepath.FromSlash(f.path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f.sum = xxh3.Hash128(p)
	return os.WriteFile(name, p, 0o644)
}

// What the second version changes.
const (
	editShare   = 0.01 // of bytes
	editMean    = 16 << 10
	renameShare = 0.01 // of files: 200 of 20,000
	newShare    = 0.05 // of files
)

// edit writes the second version of files as a tree of its own, below v2 in dir: one byte in a
// hundred lies in a piece written anew, one file in a hundred has another name, one in twenty is
// new.
func edit(dir string, fs []*file, seed uint64) ([]*file, error) {
	r := rand.New(rand.NewPCG(seed, 5))
	var out []*file
	for i, f := range fs {
		g := *f
		g.path = path.Join("v2", f.path)
		if r.Float64() < renameShare {
			g.path += "-renamed"
		}
		p := f.content()
		change(p, r)
		if err := put(dir, &g, p); err != nil {
			return nil, err
		}
		out = append(out, &g)
		if f.kind != shard && r.Float64() < newShare {
			n := &file{path: fmt.Sprintf("%s-new%d", path.Join("v2", f.path), i), size: lognormal(r), seed: r.Uint64()}
			if err := put(dir, n, n.content()); err != nil {
				return nil, err
			}
			out = append(out, n)
		}
	}
	return out, nil
}

// change overwrites pieces of p, so many that over many files their bytes are editShare of all.
func change(p []byte, r *rand.Rand) {
	edits := float64(len(p)) * editShare / editMean
	n := int(edits)
	if r.Float64() < edits-float64(n) {
		n++
	}
	for range n {
		size := min(editMean/2+r.IntN(editMean), len(p))
		noise(p[r.IntN(len(p)-size+1):][:size], r.Uint64())
	}
}

// intact holds bytes that were read against those written.
func (f *file) intact(p []byte) error {
	if int64(len(p)) != f.size || xxh3.Hash128(p) != f.sum {
		return fmt.Errorf("%s: the %d bytes read are not the %d written", f.path, len(p), f.size)
	}
	return nil
}
