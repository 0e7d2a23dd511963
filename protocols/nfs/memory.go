package nfs

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// smallBlock is the size up to which blocks do not count: what calls without data need, in bytes.
const smallBlock = 8 << 10

// middleBlock is the capacity of middle blocks, bytes: a READ of 128 KiB, or a WRITE with its header.
const middleBlock = 136 << 10

// memory gives pooled blocks of three capacities. All but the small ones hold a share of one budget
// while they are in use, so that clients wait rather than fill the process's memory.
type memory struct {
	largest int
	budget  *semaphore.Weighted
	pools   [3]sync.Pool
}

func newMemory(largest int, budget int64) *memory {
	return &memory{largest: largest, budget: semaphore.NewWeighted(budget)}
}

// block is pooled memory. Whoever has it gives it back once, by free.
type block struct {
	p     []byte
	share int64 // of the budget
}

func (m *memory) kind(n int) (kind, size int) {
	switch {
	case n <= smallBlock:
		return 0, smallBlock
	case n <= middleBlock:
		return 1, middleBlock
	}
	return 2, m.largest
}

// get gives a block of n bytes, at most the largest. It waits for budget.
func (m *memory) get(ctx context.Context, n int) (*block, error) {
	kind, size := m.kind(n)
	b := &block{}
	if kind > 0 {
		if err := m.budget.Acquire(ctx, int64(size)); err != nil {
			return nil, err
		}
		b.share = int64(size)
	}
	if p, ok := m.pools[kind].Get().(*[]byte); ok {
		b.p = (*p)[:n]
	} else {
		b.p = make([]byte, n, size)
	}
	return b, nil
}

// adopt takes over memory that has grown elsewhere, waiting for its share.
func (m *memory) adopt(ctx context.Context, p []byte) (*block, error) {
	b := &block{p: p}
	if cap(p) > smallBlock {
		share := int64(min(cap(p), 2*m.largest))
		if err := m.budget.Acquire(ctx, share); err != nil {
			return nil, err
		}
		b.share = share
	}
	return b, nil
}

// free gives a block back; nil is nothing.
func (m *memory) free(b *block) {
	if b == nil {
		return
	}
	if b.share > 0 {
		m.budget.Release(b.share)
	}
	p := b.p[:0]
	switch c := cap(p); {
	case c >= m.largest && c <= 2*m.largest:
		m.pools[2].Put(&p)
	case c >= middleBlock && c < m.largest:
		m.pools[1].Put(&p)
	case c >= smallBlock && c < middleBlock:
		m.pools[0].Put(&p)
	}
}

// spare gives pooled memory that a record of about n bytes can grow into, of no certain capacity and
// uncounted; nil if there is none.
func (m *memory) spare(n int) []byte {
	kind, _ := m.kind(n)
	if p, ok := m.pools[kind].Get().(*[]byte); ok {
		return *p
	}
	if kind == 0 {
		return make([]byte, 0, smallBlock)
	}
	return nil
}
