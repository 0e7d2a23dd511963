package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/mem"
	"github.com/spokefs/spokefs/storage/storagetest"
)

func TestBlobs(t *testing.T) {
	storagetest.Blobs(t, func(_ *testing.T, h *chunk.Hasher) storage.Blobs {
		return New(Config{Link: 1 << 30}, time.Now, mem.New(h))
	})
}

func TestBudgetHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Class: [storage.Classes]int64{storage.Upload: 1000}}, time.Now, nil)
		start := time.Now()
		for range 11 {
			if err := b.take(t.Context(), storage.Upload, 1000); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(start); d < 10*time.Second || d > 10100*time.Millisecond {
			t.Errorf("11,000 bytes at 1000 a second took %v", d)
		}
		if err := b.take(t.Context(), storage.Demand, 1<<40); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 10100*time.Millisecond {
			t.Errorf("demand has no limit, and waited: %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := b.take(ctx, storage.Upload, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestLowerClassGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Link: 1000}, time.Now, nil)
		if err := b.take(t.Context(), storage.Prefetch, 1000); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []storage.Class
		var wg sync.WaitGroup
		for _, c := range []storage.Class{storage.Scrub, storage.Prefetch, storage.ReadAhead, storage.Demand, storage.Upload} {
			wg.Go(func() {
				if err := b.take(t.Context(), c, 1000); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, c)
				mu.Unlock()
			})
			synctest.Wait()
		}
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 5 {
			t.Errorf("order %v", order)
		}
	})
}
