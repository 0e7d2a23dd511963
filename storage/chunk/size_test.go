package chunk

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokefs/spokefs/storage"
)

// goroot is where the toolchain is.
func goroot(b *testing.B) string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// corpus is up to n bytes of Go's own sources, one after the other.
func corpus(b *testing.B, n int) []byte {
	var out []byte
	err := filepath.WalkDir(filepath.Join(goroot(b), "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		p, err := os.ReadFile(path)
		if out = append(out, p...); len(out) >= n {
			return filepath.SkipAll
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return out[:min(n, len(out))]
}

// edit inserts, removes or overwrites up to 4 KiB at n places.
func edit(p []byte, n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var out []byte
	step := len(p) / n
	for i := range n {
		part := p[i*step : (i+1)*step]
		at, k := r.IntN(len(part)-4096), 1+r.IntN(4096)
		out = append(out, part[:at]...)
		fresh := noise(uint64(i), k)
		switch i % 3 {
		case 0:
			out = append(append(out, fresh...), part[at:]...)
		case 1:
			out = append(out, part[at+k:]...)
		default:
			out = append(append(out, fresh...), part[at+k:]...)
		}
	}
	return append(out, p[n*step:]...)
}

// BenchmarkSize compares chunk sizes; docs/decisions/0002-chunk-size.md has its table. An item of
// a manifest costs 48 bytes, sent again with each changed leaf.
func BenchmarkSize(b *testing.B) {
	const n = 32 << 20
	h := New(testKey)
	for name, old := range map[string][]byte{"source": corpus(b, n), "weights": noise(1, n)} {
		next := edit(old, 40)
		for _, mean := range []uint32{64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20} {
			p := Params{FastCDC, mean / 4, mean, min(mean*4, storage.MaxRaw)}
			b.Run(fmt.Sprintf("%s/%dK", name, mean>>10), func(b *testing.B) {
				b.SetBytes(int64(len(old)))
				var first, second, count int
				var buf []byte
				for b.Loop() {
					had := map[storage.Ref]bool{}
					first, second, count = 0, 0, 0
					for _, c := range cut(h.Cutter(p), old, whole) {
						blob := h.Seal(storage.Chunk, c, buf[:0])
						had[blob.Ref] = true
						first += len(blob.Data)
						count++
					}
					for _, c := range cut(h.Cutter(p), next, whole) {
						if had[h.Chunk(c)] {
							continue
						}
						second += len(h.Seal(storage.Chunk, c, buf[:0]).Data)
					}
				}
				b.ReportMetric(float64(first)/1e6, "MB-first")
				b.ReportMetric(float64(second)/1e6, "MB-edited")
				b.ReportMetric(float64(len(old)/count)/1024, "KiB-mean")
			})
		}
	}
}
