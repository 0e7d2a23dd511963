package mem_test

import (
	"testing"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/mem"
	"github.com/spokefs/spokefs/storage/storagetest"
)

func TestBlobs(t *testing.T) {
	storagetest.Blobs(t, func(_ *testing.T, h *chunk.Hasher) storage.Blobs { return mem.New(h) })
}
