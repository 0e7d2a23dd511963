package mem

import (
	"testing"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/storagetest"
)

func TestBucketContract(t *testing.T) {
	storagetest.Bucket(t, func(*testing.T) storage.Bucket { return &Bucket{} })
}
