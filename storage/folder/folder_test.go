package folder

import (
	"errors"
	"testing"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/disk"
	"github.com/spokefs/spokefs/storage/storagetest"
)

func open(t *testing.T) storage.Bucket {
	t.Helper()
	d, err := disk.OS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBucket(t *testing.T) { storagetest.Bucket(t, open) }

func TestKeysStayInside(t *testing.T) {
	b := open(t)
	for _, k := range []string{"..", "../x", "a/../../x", "a//b", "/a", "a/", "."} {
		if err := b.Put(t.Context(), k, []byte("x")); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("key %q: %v", k, err)
		}
	}
	if err := b.Put(t.Context(), "%tmp-x", []byte("x")); err != nil { // looks like our own temporary
		t.Fatal(err)
	}
	n := 0
	for o, err := range b.List(t.Context(), "", "") {
		if err != nil || o.Key != "%tmp-x" {
			t.Errorf("listed %q, %v", o.Key, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d objects listed", n)
	}
}
