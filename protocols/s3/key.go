package s3

import (
	"context"
	"errors"
	"strings"

	"github.com/versity/versitygw/s3err"

	"github.com/spokefs/spokefs/fabric"
)

// hidden is the directory at a bucket's root that no key reaches.
const hidden = ".spokefs"

// path is a key as the tree has it.
type path struct {
	segments []string
	dir      bool // the key ends in '/'
}

// parseKey turns a key into a path, by A53: bytes, split on '/' only, nothing cleaned.
func parseKey(key string) (path, error) {
	if len(key) > 1024 {
		return path{}, s3err.GetKeyTooLongErr(int64(len(key)), 1024)
	}
	key, dir := strings.CutSuffix(key, "/")
	p := path{segments: strings.Split(key, "/"), dir: dir}
	for _, s := range p.segments {
		switch fabric.CheckName(s) {
		case fabric.OK:
		case fabric.NameTooLong:
			return path{}, s3err.GetKeyTooLongErr(int64(len(s)), fabric.MaxName)
		default:
			return path{}, s3err.GetAPIError(s3err.ErrInvalidURI)
		}
	}
	if p.segments[0] == hidden {
		return path{}, s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	return p, nil
}

// parent is the path of the directory that p is in, and p's name there.
func (p path) parent() (dirs []string, name string) {
	n := len(p.segments) - 1
	return p.segments[:n], p.segments[n]
}

// find looks a key up: NoSuchKey if it is not there or is of the other kind. A link is not an
// object: following it could leave the bucket.
func (v *view) find(ctx context.Context, key string) (path, fabric.Attr, error) {
	p, err := parseKey(key)
	if err != nil {
		return p, fabric.Attr{}, err
	}
	attrs, err := v.Walk(ctx, v.Root(), p.segments)
	if err != nil {
		return p, fabric.Attr{}, failed(err)
	}
	a := attrs[len(attrs)-1]
	if (a.Type == fabric.TypeDir) != p.dir || (a.Type != fabric.TypeDir && a.Type != fabric.TypeFile) {
		return p, fabric.Attr{}, s3err.GetAPIError(s3err.ErrNoSuchKey)
	}
	return p, a, nil
}

// dirs makes the directories above a key that are missing and returns the last. Those it makes
// are marked, so that they can go again with the last object below them.
func (v *view) dirs(ctx context.Context, names []string) (fabric.Ino, error) {
	if len(names) == 0 {
		return v.Root(), nil
	}
	attrs, err := v.Walk(ctx, v.Root(), names)
	for _, a := range attrs {
		if a.Type != fabric.TypeDir {
			return 0, s3err.GetAPIError(s3err.ErrObjectParentIsFile)
		}
	}
	if err == nil {
		return attrs[len(attrs)-1].Ino, nil
	}
	if !errors.Is(err, fabric.NotExist) {
		if errors.Is(err, fabric.NotDir) {
			return 0, s3err.GetAPIError(s3err.ErrObjectParentIsFile)
		}
		return 0, failed(err)
	}
	dir := v.Root()
	if len(attrs) > 0 {
		dir = attrs[len(attrs)-1].Ino
	}
	for _, name := range names[len(attrs):] {
		if dir, err = v.mkdir(ctx, dir, name, markImplicit); err != nil {
			return 0, err
		}
	}
	return dir, nil
}

// Marks of directories that S3 made.
const (
	dirXattr     = "user.spokefs.s3.dir"
	markImplicit = "implicit" // for the sake of a key below it
	markKey      = "key"      // it was put as "d/"
)

// mkdir makes a directory, or finds that another just did.
func (v *view) mkdir(ctx context.Context, dir fabric.Ino, name, mark string) (fabric.Ino, error) {
	a, _, err := v.Make(ctx, dir, name, fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
	if errors.Is(err, fabric.Exist) {
		if a, err = v.Lookup(ctx, dir, name); err == nil && a.Type != fabric.TypeDir {
			return 0, s3err.GetAPIError(s3err.ErrObjectParentIsFile)
		}
		if err != nil {
			return 0, failed(err)
		}
		return a.Ino, nil
	}
	if err != nil {
		return 0, failed(err)
	}
	if err := v.SetXattr(ctx, a.Ino, dirXattr, []byte(mark), fabric.XattrAny); err != nil {
		return 0, failed(err)
	}
	return a.Ino, nil
}

// mark reads the mark of a directory, "" if it has none.
func (v *view) mark(ctx context.Context, dir fabric.Ino) string {
	var p [16]byte
	n, err := v.Xattr(ctx, dir, dirXattr, p[:])
	if err != nil {
		return ""
	}
	return string(p[:n])
}

// prune removes the directories above a removed key that are empty and were made for keys alone.
// It stops at the first that is not; that it could not go on is no one's error.
func (v *view) prune(ctx context.Context, names []string) {
	for n := len(names); n > 0; n-- {
		attrs, err := v.Walk(ctx, v.Root(), names[:n])
		if err != nil || v.mark(ctx, attrs[n-1].Ino) != markImplicit {
			return
		}
		parent := v.Root()
		if n > 1 {
			parent = attrs[n-2].Ino
		}
		if _, err := v.Remove(ctx, parent, names[n-1], fabric.RemoveDir, fabric.Cond{Ino: attrs[n-1].Ino}); err != nil {
			return
		}
	}
}
