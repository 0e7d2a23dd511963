package s3

import (
	"context"
	"strings"

	"github.com/spokefs/spokefs/fabric"
)

// owned is an FS for callers whose strings do not last: those of the gateway are views of a request's
// buffer, which the next request on the connection overwrites, and an FS keeps names.
type owned struct{ fabric.FS }

// Lookup implements fabric.FS.
func (o owned) Lookup(ctx context.Context, dir fabric.Ino, name string) (fabric.Attr, error) {
	return o.FS.Lookup(ctx, dir, strings.Clone(name))
}

// Walk implements fabric.FS.
func (o owned) Walk(ctx context.Context, dir fabric.Ino, path []string) ([]fabric.Attr, error) {
	mine := make([]string, len(path))
	for i, name := range path {
		mine[i] = strings.Clone(name)
	}
	return o.FS.Walk(ctx, dir, mine)
}

// Make implements fabric.FS.
func (o owned) Make(ctx context.Context, dir fabric.Ino, name string, spec fabric.NodeSpec) (fabric.Attr, fabric.Change, error) {
	return o.FS.Make(ctx, dir, strings.Clone(name), spec)
}

// Replace implements fabric.FS.
func (o owned) Replace(ctx context.Context, ino, dir fabric.Ino, name string, c fabric.Cond) (fabric.Attr, fabric.Change, error) {
	return o.FS.Replace(ctx, ino, dir, strings.Clone(name), c)
}

// Link implements fabric.FS.
func (o owned) Link(ctx context.Context, ino, dir fabric.Ino, name string) (fabric.Attr, fabric.Change, error) {
	return o.FS.Link(ctx, ino, dir, strings.Clone(name))
}

// Rename implements fabric.FS.
func (o owned) Rename(ctx context.Context, from fabric.Ino, old string, to fabric.Ino, name string, m fabric.RenameMode) (src, dst fabric.Change, err error) {
	return o.FS.Rename(ctx, from, strings.Clone(old), to, strings.Clone(name), m)
}

// Remove implements fabric.FS.
func (o owned) Remove(ctx context.Context, dir fabric.Ino, name string, k fabric.RemoveKind, c fabric.Cond) (fabric.Change, error) {
	return o.FS.Remove(ctx, dir, strings.Clone(name), k, c)
}
