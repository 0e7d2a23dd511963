package cache

import (
	"context"
	"fmt"
	"testing"

	"github.com/spokefs/spokefs/storage"
)

// BenchmarkHit is reads of a file of chunks that are here, in steps that do not fall on their ends.
func BenchmarkHit(b *testing.B) {
	for _, size := range []int{4 << 10, 128 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			r := newRig(b, Config{})
			const mean = 77_000
			var refs []storage.Ref
			for i := range 100 {
				ref, raw := r.put(byte(i), mean+i)
				r.store.Add(ref, storage.Chunk, raw)
				refs = append(refs, ref)
			}
			p := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			at, off := 0, int64(0)
			for b.Loop() {
				for q := p; len(q) > 0; {
					n, err := r.store.ReadAt(context.Background(), refs[at], q, off)
					if err != nil {
						b.Fatal(err)
					}
					q, off = q[n:], off+int64(n)
					if off == int64(refs[at].Len) {
						at, off = (at+1)%len(refs), 0
					}
				}
			}
		})
	}
}
