package s3

import (
	"context"
	"testing"
	"unsafe"

	"github.com/spokefs/spokefs/fabric"
)

// keeper keeps the names it is given, as a cache does.
type keeper struct {
	fabric.FS
	names []string
}

func (k *keeper) Lookup(_ context.Context, _ fabric.Ino, name string) (a fabric.Attr, err error) {
	k.names = append(k.names, name)
	return a, nil
}

func (k *keeper) Walk(_ context.Context, _ fabric.Ino, path []string) ([]fabric.Attr, error) {
	k.names = append(k.names, path...)
	return nil, nil
}

func (k *keeper) Make(_ context.Context, _ fabric.Ino, name string, _ fabric.NodeSpec) (a fabric.Attr, c fabric.Change, err error) {
	k.names = append(k.names, name)
	return a, c, nil
}

func (k *keeper) Link(_ context.Context, _, _ fabric.Ino, name string) (a fabric.Attr, c fabric.Change, err error) {
	k.names = append(k.names, name)
	return a, c, nil
}

func (k *keeper) Replace(_ context.Context, _, _ fabric.Ino, name string, _ fabric.Cond) (a fabric.Attr, c fabric.Change, err error) {
	k.names = append(k.names, name)
	return a, c, nil
}

func (k *keeper) Rename(_ context.Context, _ fabric.Ino, old string, _ fabric.Ino, name string, _ fabric.RenameMode) (src, dst fabric.Change, err error) {
	k.names = append(k.names, old, name)
	return src, dst, nil
}

func (k *keeper) Remove(_ context.Context, _ fabric.Ino, name string, _ fabric.RemoveKind, _ fabric.Cond) (c fabric.Change, err error) {
	k.names = append(k.names, name)
	return c, nil
}

// The gateway's strings change when the request is over; what a file system was given must not.
func TestNamesOutliveTheRequest(t *testing.T) {
	k := &keeper{}
	fs, ctx := owned{k}, t.Context()
	buffer := []byte("name")
	name := unsafe.String(&buffer[0], len(buffer))
	fs.Lookup(ctx, 1, name)
	fs.Walk(ctx, 1, []string{name, name})
	fs.Make(ctx, 1, name, fabric.NodeSpec{})
	fs.Link(ctx, 1, 2, name)
	fs.Replace(ctx, 1, 2, name, fabric.Cond{})
	fs.Rename(ctx, 1, name, 2, name, 0)
	fs.Remove(ctx, 1, name, 0, fabric.Cond{})
	copy(buffer, "next")
	if len(k.names) != 9 {
		t.Fatalf("%d names were kept", len(k.names))
	}
	for i, got := range k.names {
		if got != "name" {
			t.Errorf("kept name %d has become %q", i, got)
		}
	}
}
