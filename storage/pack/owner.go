package pack

import (
	"context"
	"errors"
	"fmt"

	"github.com/spokefs/spokefs/storage"
)

// Own claims prefix in a bucket for a hub cluster, or sees that it has it (A40): it must succeed
// before anything else is written there. ErrDenied: another cluster has it; the error names it.
// ErrCorrupt: the OWNER object is not one.
func Own(ctx context.Context, b storage.Bucket, prefix, cluster string) error {
	key := "OWNER"
	if prefix != "" {
		key = prefix + "/OWNER"
	}
	err := b.Put(ctx, key, []byte(ownerHead+cluster+"\n"))
	if err == nil {
		return nil
	}
	if !errors.Is(err, storage.ErrExist) {
		return fmt.Errorf("claim %s: %w", key, err)
	}
	size, err := b.Size(ctx, key)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if size > maxOwner || size <= int64(len(ownerHead)) {
		return fmt.Errorf("%s has %d bytes: %w", key, size, storage.ErrCorrupt)
	}
	body := make([]byte, size)
	if err := b.Get(ctx, key, 0, body); err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if string(body[:len(ownerHead)]) != ownerHead || body[size-1] != '\n' {
		return fmt.Errorf("%s is torn: %w", key, storage.ErrCorrupt)
	}
	return fmt.Errorf("%s: the bucket belongs to cluster %q: %w", key, body[len(ownerHead):size-1], storage.ErrDenied)
}

const (
	ownerHead = "spokefs owner 1 "
	maxOwner  = 256 // bytes
)
