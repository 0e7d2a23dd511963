package chunk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/spokefs/spokefs/storage"
)

var testKey = [32]byte{1, 2, 3}

var small = Params{Algorithm: FastCDC, Min: 256, Mean: 1024, Max: 4096}

// noise is n bytes that do not compress, the same for the same seed.
func noise(seed uint64, n int) []byte {
	p := make([]byte, n)
	state := seed
	for i := range p {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		p[i] = byte(z >> 32)
	}
	return p
}

// text is n bytes that compress well.
func text(seed uint64, n int) []byte {
	words := []string{"lease ", "recall ", "publish ", "chunk ", "node ", "spoke ", "hub\n"}
	var b []byte
	for r := rand.New(rand.NewPCG(seed, 0)); len(b) < n; {
		b = append(b, words[r.IntN(len(words))]...)
	}
	return b[:n]
}

// cut gives the chunks of p, read in pieces of the lengths that piece gives.
func cut(c *Cutter, p []byte, piece func() int) [][]byte {
	var out [][]byte
	from, at := 0, 0
	for at < len(p) {
		part := p[at:min(len(p), at+piece())]
		for len(part) > 0 {
			n, end := c.Next(part)
			part, at = part[n:], at+n
			if end {
				out = append(out, p[from:at])
				from = at
			}
		}
	}
	c.Reset()
	if from < len(p) {
		out = append(out, p[from:])
	}
	return out
}

func whole() int { return 1 << 30 }

func TestCutsDoNotDependOnHowInputIsSplit(t *testing.T) {
	h := New(testKey)
	r := rand.New(rand.NewPCG(1, 1))
	for _, data := range [][]byte{noise(1, 100_000), text(1, 100_000), make([]byte, 50_000), nil} {
		want := cut(h.Cutter(small), data, whole)
		for name, piece := range map[string]func() int{
			"bytes": func() int { return 1 }, "min": func() int { return 256 }, "random": func() int { return 1 + r.IntN(3000) },
		} {
			got := cut(h.Cutter(small), data, piece)
			if len(got) != len(want) {
				t.Fatalf("%s: %d chunks, whole %d", name, len(got), len(want))
			}
			for i := range got {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("%s: chunk %d differs", name, i)
				}
			}
		}
	}
}

func TestChunksKeepTheirBounds(t *testing.T) {
	h := New(testKey)
	for name, data := range map[string][]byte{"noise": noise(2, 4<<20), "text": text(2, 1<<20), "zeros": make([]byte, 1<<20)} {
		chunks := cut(h.Cutter(small), data, whole)
		for i, c := range chunks {
			if len(c) > int(small.Max) || len(c) < int(small.Min) && i < len(chunks)-1 {
				t.Fatalf("%s: chunk %d of %d has %d bytes", name, i, len(chunks), len(c))
			}
		}
		if mean := len(data) / len(chunks); name == "noise" && (mean < 900 || mean > 1400) {
			t.Errorf("mean %d, want about %d", mean, small.Mean)
		}
	}
}

func TestInsertionMovesOnlyCutsNearIt(t *testing.T) {
	h := New(testKey)
	data := noise(3, 1<<20)
	edited := bytes.Join([][]byte{data[:500_000], []byte("inserted"), data[500_000:]}, nil)
	had := map[storage.Ref]bool{}
	for _, c := range cut(h.Cutter(small), data, whole) {
		had[h.Chunk(c)] = true
	}
	fresh := 0
	for _, c := range cut(h.Cutter(small), edited, whole) {
		if !had[h.Chunk(c)] {
			fresh++
		}
	}
	if fresh == 0 || fresh > 4 {
		t.Fatalf("%d new chunks for one insertion", fresh)
	}
}

func TestCutsDependOnTheKey(t *testing.T) {
	data := noise(4, 100_000)
	a, b := cut(New(testKey).Cutter(small), data, whole), cut(New([32]byte{9}).Cutter(small), data, whole)
	if len(a[0]) == len(b[0]) && len(a[1]) == len(b[1]) {
		t.Fatal("two keys cut alike")
	}
}

func TestParamsAreChecked(t *testing.T) {
	for _, p := range []Params{
		{}, {FastCDC, 0, 1024, 4096}, {FastCDC, 63, 1024, 4096}, {FastCDC, 1024, 1024, 4096}, {FastCDC, 256, 1024, 1024},
		{FastCDC, 256, 1024, storage.MaxRaw + 1}, {2, 256, 1024, 4096},
	} {
		if err := p.Validate(); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte("a"), uint16(1))
	f.Add(text(5, 10_000), uint16(700))
	h := New(testKey)
	f.Fuzz(func(t *testing.T, data []byte, piece uint16) {
		want := cut(h.Cutter(small), data, whole)
		got := cut(h.Cutter(small), data, func() int { return int(piece) + 1 })
		if len(got) != len(want) || !bytes.Equal(bytes.Join(got, nil), data) {
			t.Fatal("cuts depend on pieces, or lose bytes")
		}
	})
}

func BenchmarkCut(b *testing.B) {
	h := New(testKey)
	data := noise(6, 16<<20)
	c := h.Cutter(Default())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		for p := data; len(p) > 0; {
			n, _ := c.Next(p)
			p = p[n:]
		}
		c.Reset()
	}
}
