package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// workers is how many readers or writers work at once.
const workers = 16

// client reaches a portal by one protocol, at one site. Paths are relative, with slashes.
type client interface {
	name() string
	// list gives the paths of all regular files.
	list(ctx context.Context) (map[string]bool, error)
	read(ctx context.Context, path string, w io.Writer) error
	write(ctx context.Context, path string, data io.ReadSeeker) error
	rename(ctx context.Context, old, path string) error
	remove(ctx context.Context, path string) error
}

// mounted is a client by a mount of the kernel.
type mounted struct {
	proto string
	dir   string
}

func (m *mounted) name() string { return m.proto }

func (m *mounted) at(p string) string { return filepath.Join(m.dir, filepath.FromSlash(p)) }

func (m *mounted) list(context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	err := filepath.WalkDir(m.dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(m.dir, name)
		out[filepath.ToSlash(rel)] = true
		return err
	})
	return out, err
}

func (m *mounted) read(_ context.Context, p string, w io.Writer) error {
	f, err := os.Open(m.at(p))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func (m *mounted) write(_ context.Context, p string, data io.ReadSeeker) error {
	if err := os.MkdirAll(filepath.Dir(m.at(p)), 0o755); err != nil {
		return err
	}
	f, err := os.Create(m.at(p))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, data)
	return errors.Join(err, f.Close())
}

func (m *mounted) rename(_ context.Context, old, p string) error {
	return os.Rename(m.at(old), m.at(p))
}

func (m *mounted) remove(_ context.Context, p string) error { return os.Remove(m.at(p)) }

// object is a client by S3.
type object struct {
	s3     *s3.Client
	bucket string
}

func (o *object) name() string { return "S3" }

func (o *object) list(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	pages := s3.NewListObjectsV2Paginator(o.s3, &s3.ListObjectsV2Input{Bucket: &o.bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range page.Contents {
			if key := aws.ToString(c.Key); !strings.HasSuffix(key, "/") {
				out[key] = true
			}
		}
	}
	return out, nil
}

func (o *object) read(ctx context.Context, p string, w io.Writer) error {
	got, err := o.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.bucket, Key: &p})
	if err != nil {
		return err
	}
	defer got.Body.Close()
	_, err = io.Copy(w, got.Body)
	return err
}

func (o *object) write(ctx context.Context, p string, data io.ReadSeeker) error {
	_, err := o.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &o.bucket, Key: &p, Body: data})
	return err
}

func (o *object) rename(ctx context.Context, old, p string) error {
	var buf bytes.Buffer
	if err := o.read(ctx, old, &buf); err != nil {
		return err
	}
	if err := o.write(ctx, p, bytes.NewReader(buf.Bytes())); err != nil {
		return err
	}
	return o.remove(ctx, old)
}

func (o *object) remove(ctx context.Context, p string) error {
	_, err := o.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.bucket, Key: &p})
	return err
}

// each runs f for every item by workers at once, and returns the first error.
func each[T any](ctx context.Context, items []T, f func(ctx context.Context, item T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(items) {
					return
				}
				if err := f(ctx, items[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// check reads every file of t and compares its sum and its size.
func check(ctx context.Context, c client, t *tree, step func(n int64)) error {
	return each(ctx, t.files, func(ctx context.Context, f file) error {
		h := sha256.New()
		n := &counter{w: h}
		if err := c.read(ctx, f.path, n); err != nil {
			return fmt.Errorf("%s: read %s: %w", c.name(), f.path, err)
		}
		if n.n != f.size || [sha256.Size]byte(h.Sum(nil)) != f.sum {
			return fmt.Errorf("%s: %s differs: %d bytes, want %d", c.name(), f.path, n.n, f.size)
		}
		step(1)
		return nil
	})
}

// checkNames compares what a listing shows with what must be there.
func checkNames(ctx context.Context, c client, t *tree) error {
	got, err := c.list(ctx)
	if err != nil {
		return fmt.Errorf("%s: list: %w", c.name(), err)
	}
	want := t.names()
	for p := range want {
		if !got[p] {
			return fmt.Errorf("%s: the listing lacks %s", c.name(), p)
		}
	}
	for p := range got {
		if !want[p] {
			return fmt.Errorf("%s: the listing has %s, which should not be there", c.name(), p)
		}
	}
	return nil
}

// edit carries out e by c.
func edit(ctx context.Context, c client, e edits) error {
	for p, data := range e.write {
		if err := c.write(ctx, p, bytes.NewReader(data)); err != nil {
			return fmt.Errorf("%s: write %s: %w", c.name(), p, err)
		}
	}
	for old, p := range e.rename {
		if err := c.rename(ctx, old, p); err != nil {
			return fmt.Errorf("%s: rename %s: %w", c.name(), old, err)
		}
	}
	for _, p := range e.remove {
		if err := c.remove(ctx, p); err != nil {
			names, e := c.list(ctx)
			return fmt.Errorf("%s: remove %s: %w (listed: %v of %d, %v)", c.name(), p, err, names[p], len(names), e)
		}
	}
	return nil
}

// counter counts bytes on their way.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
