package manifest

import (
	"testing"

	"github.com/spokefs/spokefs/storage"
)

func BenchmarkBuild(b *testing.B) {
	e := long(100_000, 1000)
	for b.Loop() {
		if _, err := Build(hasher, 100_000_000, e); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/extent")
}

// BenchmarkSplice makes changes spread over a file of 100,000 chunks.
func BenchmarkSplice(b *testing.B) {
	s := newStore()
	tree := build(b, s, 100_000_000, long(100_000, 1000))
	for name, n := range map[string]int64{"1": 1, "100": 100, "1000": 1000} {
		var cs []Extent
		for i := range n {
			cs = append(cs, Extent{Off: i * (tree.Size / n), Len: 10, Ref: storage.Ref{Sum: [32]byte{byte(i), byte(i >> 8), 1}, Len: 10}})
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Splice(hasher, s.source, tree.Root, tree.Size, tree.Size, cs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
