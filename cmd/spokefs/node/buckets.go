package node

import (
	"context"
	"errors"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/system"
)

// bucketsIn lets S3 clients create buckets in a namespace: a folder of its root, and a portal that
// shows it. It implements s3.Buckets.
type bucketsIn struct {
	p         *Process
	namespace string
}

// root is root's view of the namespace, by whichever portal shows all of it.
func (b bucketsIn) root() (fabric.FS, error) {
	x, err := b.p.spoke.Site.Portal(b.namespace)
	if err != nil {
		return nil, err
	}
	return x.As(fabric.Root()), nil
}

// CreateBucket implements s3.Buckets.
func (b bucketsIn) CreateBucket(ctx context.Context, name string, who fabric.Cred) error {
	if _, err := b.p.spoke.Site.Portal(name); err == nil {
		return fabric.Exist
	}
	fs, err := b.root()
	if err != nil {
		return err
	}
	a, _, err := fs.Make(ctx, fs.Root(), name, fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
	if err != nil {
		return err
	}
	if _, err := fs.SetAttr(ctx, a.Ino, fabric.SetAttr{Set: fabric.SetUID | fabric.SetGID, UID: who.UID, GID: who.GID}); err != nil {
		return err
	}
	return b.p.SetPortal(ctx, system.Portal{Name: name, Namespace: b.namespace, Path: "/" + name})
}

// DeleteBucket implements s3.Buckets.
func (b bucketsIn) DeleteBucket(ctx context.Context, name string) error {
	fs, err := b.root()
	if err != nil {
		return err
	}
	if err := b.empty(ctx, fs, name); err != nil {
		return err
	}
	if _, err := fs.Remove(ctx, fs.Root(), name, fabric.RemoveDir, fabric.Cond{}); err != nil {
		return err
	}
	return b.p.RemovePortal(ctx, name)
}

// empty removes what a bucket without objects may still have: folders that hold uploads.
func (b bucketsIn) empty(ctx context.Context, fs fabric.FS, name string) error {
	dir, err := fs.Lookup(ctx, fs.Root(), name)
	if err != nil {
		return err
	}
	hidden, err := fs.Lookup(ctx, dir.Ino, ".spokefs")
	if errors.Is(err, fabric.NotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	uploads, err := fs.Lookup(ctx, hidden.Ino, "uploads")
	if err == nil {
		if err := clearUploads(ctx, fs, uploads.Ino); err != nil {
			return err
		}
		_, err = fs.Remove(ctx, hidden.Ino, "uploads", fabric.RemoveDir, fabric.Cond{})
	}
	if err != nil && !errors.Is(err, fabric.NotExist) {
		return err
	}
	_, err = fs.Remove(ctx, dir.Ino, ".spokefs", fabric.RemoveDir, fabric.Cond{})
	return err
}

// clearUploads removes open uploads, which end with their bucket.
func clearUploads(ctx context.Context, fs fabric.FS, uploads fabric.Ino) error {
	for u, err := range fs.ReadDir(ctx, uploads, fabric.Pos{}) {
		if err != nil {
			return err
		}
		for part, err := range fs.ReadDir(ctx, u.Attr.Ino, fabric.Pos{}) {
			if err != nil {
				return err
			}
			if _, err := fs.Remove(ctx, u.Attr.Ino, part.Name, fabric.RemoveFile, fabric.Cond{}); err != nil {
				return err
			}
		}
		if _, err := fs.Remove(ctx, uploads, u.Name, fabric.RemoveDir, fabric.Cond{}); err != nil {
			return err
		}
	}
	return nil
}
