// Package folder is a storage.Bucket in a local folder: the embedded default of a hub, and the
// quick one of tests. An object is a file; a '/' of its key is a folder. A key is written once:
// the file is made under a temporary name, synced, and given its own name only if nobody has it.
//
// No goroutines; calls may overlap, from several processes too.
package folder

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/disk"
)

// Bucket implements storage.Bucket.
type Bucket struct{ path string }

// temporary starts the names of files that are being written. A key's segments are escaped so
// that none can start like that.
const temporary = "%tmp-"

// New is the bucket in a folder of the machine's file system.
func New(dir disk.Dir) (*Bucket, error) {
	if dir.Path() == "" {
		return nil, fmt.Errorf("folder: the disk has no path")
	}
	return &Bucket{dir.Path()}, nil
}

// path turns a key into a file's path: each segment is escaped, so that none is "..", and none can
// be a temporary name.
func (b *Bucket) at(key string) (string, error) {
	if key == "" || len(key) > storage.MaxKeyLen {
		return "", fmt.Errorf("folder: key %q: %w", key, storage.ErrInvalid)
	}
	segments := strings.Split(key, "/")
	for i, s := range segments {
		if s == "" || s == "." || s == ".." {
			return "", fmt.Errorf("folder: key %q: %w", key, storage.ErrInvalid)
		}
		segments[i] = url.PathEscape(s)
	}
	return filepath.Join(b.path, filepath.Join(segments...)), nil
}

// told maps an error of the file system, once.
func told(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", storage.ErrNotExist, err)
	case errors.Is(err, disk.ErrNoSpace):
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", storage.ErrDenied, err)
	}
	return err
}

// Put implements storage.Bucket.
func (b *Bucket) Put(_ context.Context, key string, body []byte) error {
	path, err := b.at(key)
	if err != nil {
		return err
	}
	if err := b.put(path, body); err != nil {
		return fmt.Errorf("folder: put %s: %w", key, told(err))
	}
	return nil
}

func (b *Bucket) put(path string, body []byte) error {
	dir, name := filepath.Split(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	d, err := disk.OS(dir)
	if err != nil {
		return err
	}
	var id [8]byte
	rand.Read(id[:])
	tmp := temporary + hex.EncodeToString(id[:])
	f, err := d.Open(tmp, disk.CreateNew)
	if err != nil {
		return err
	}
	defer d.Remove(tmp)
	_, err = f.WriteAt(body, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, fails if the name is taken.
	err = os.Link(filepath.Join(dir, tmp), path)
	if errors.Is(err, fs.ErrExist) {
		return b.compare(path, name, body)
	}
	return errors.Join(err, b.syncUp(dir))
}

// compare lets the same bytes be put again.
func (b *Bucket) compare(path, name string, body []byte) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !slices.Equal(old, body) {
		return fmt.Errorf("%s: %w", name, storage.ErrExist)
	}
	return b.syncUp(filepath.Dir(path))
}

// syncUp makes the names from dir up to the bucket durable.
func (b *Bucket) syncUp(dir string) error {
	dir = filepath.Clean(dir)
	for {
		d, err := disk.OS(dir)
		if err == nil {
			err = d.Sync()
		}
		if err != nil || dir == b.path || len(dir) < len(b.path) {
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// Get implements storage.Bucket.
func (b *Bucket) Get(_ context.Context, key string, off int64, p []byte) error {
	path, err := b.at(key)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("folder: get %s: %w", key, told(err))
	}
	defer f.Close()
	if _, err := f.ReadAt(p, off); errors.Is(err, io.EOF) {
		return fmt.Errorf("folder: get %s: shorter than %d bytes: %w", key, off+int64(len(p)), storage.ErrCorrupt)
	} else if err != nil {
		return fmt.Errorf("folder: get %s: %w", key, told(err))
	}
	return nil
}

// Size implements storage.Bucket.
func (b *Bucket) Size(_ context.Context, key string) (int64, error) {
	path, err := b.at(key)
	if err != nil {
		return 0, err
	}
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, fmt.Errorf("folder: size of %s: %w", key, told(err))
	}
	return st.Size(), nil
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(_ context.Context, key string) error {
	path, err := b.at(key)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder: delete %s: %w", key, told(err))
	}
	return nil
}

// List implements storage.Bucket. It reads the names of the whole bucket first.
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		var all []storage.Object
		err := filepath.WalkDir(b.path, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), temporary) {
				return err
			}
			rel, err := filepath.Rel(b.path, path)
			if err != nil {
				return err
			}
			key, err := url.PathUnescape(filepath.ToSlash(rel))
			if err != nil || !strings.HasPrefix(key, prefix) || key <= after {
				return nil // not ours, or not asked for
			}
			st, err := d.Info()
			if err == nil {
				all = append(all, storage.Object{Key: key, Size: st.Size()})
			}
			return ctx.Err()
		})
		if err != nil {
			yield(storage.Object{}, fmt.Errorf("folder: list: %w", told(err)))
			return
		}
		slices.SortFunc(all, func(a, b storage.Object) int { return strings.Compare(a.Key, b.Key) })
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}
