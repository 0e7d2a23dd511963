package mem

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spokefs/spokefs/storage"
)

// Bucket keeps objects in memory. The zero value is empty and ready.
type Bucket struct {
	mu      sync.Mutex // guards objects; bodies do not change
	objects map[string][]byte
}

var _ storage.Bucket = (*Bucket)(nil)

// Put implements storage.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if key == "" || len(key) > storage.MaxKeyLen {
		return fmt.Errorf("key of %d bytes: %w", len(key), storage.ErrInvalid)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.objects[key]; ok {
		if bytes.Equal(old, body) {
			return nil
		}
		return fmt.Errorf("%s: %w", key, storage.ErrExist)
	}
	if b.objects == nil {
		b.objects = map[string][]byte{}
	}
	b.objects[key] = bytes.Clone(body)
	return nil
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, off int64, p []byte) error {
	body, err := b.body(ctx, key)
	if err != nil {
		return err
	}
	if off < 0 || off > int64(len(body)) || len(p) > len(body)-int(off) {
		return fmt.Errorf("%s has %d bytes: %w", key, len(body), storage.ErrCorrupt)
	}
	copy(p, body[off:])
	return nil
}

// Size implements storage.Bucket.
func (b *Bucket) Size(ctx context.Context, key string) (int64, error) {
	body, err := b.body(ctx, key)
	return int64(len(body)), err
}

func (b *Bucket) body(ctx context.Context, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	body, ok := b.objects[key]
	if !ok {
		return nil, fmt.Errorf("%s: %w", key, storage.ErrNotExist)
	}
	return body, nil
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
	return nil
}

// List implements storage.Bucket; it shows the objects there were when it began.
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		b.mu.Lock()
		keys := slices.Sorted(maps.Keys(b.objects))
		sizes := make([]int64, len(keys))
		for i, k := range keys {
			sizes[i] = int64(len(b.objects[k]))
		}
		b.mu.Unlock()
		for i, k := range keys {
			if err := ctx.Err(); err != nil {
				yield(storage.Object{}, err)
				return
			}
			if strings.HasPrefix(k, prefix) && k > after && !yield(storage.Object{Key: k, Size: sizes[i]}, nil) {
				return
			}
		}
	}
}
