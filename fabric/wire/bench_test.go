package wire

import (
	"fmt"
	"testing"

	"github.com/spokefs/spokefs/storage"
)

// BenchmarkFetch moves blobs over loopback and TLS: both ends' work.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dK", size>>10), func(b *testing.B) {
			w := newWorld(b, Config{})
			c := w.connect(b)
			refs := noise(b, w, c, 64, size)
			b.SetBytes(int64(size) * int64(len(refs)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range c.Blobs().Fetch(b.Context(), storage.Demand, refs) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
