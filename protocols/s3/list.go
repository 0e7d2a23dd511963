package s3

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3response"

	"github.com/spokefs/spokefs/fabric"
)

// listing is what is asked of a list.
type listing struct {
	prefix    string
	delimiter string
	after     string // keys and prefixes greater than this
	max       int
}

// item is one key.
type item struct {
	key  string
	attr fabric.Attr
}

// page is what a list answers: keys and prefixes, each once, in byte order, max in all.
type page struct {
	objects  []item
	prefixes []string
	last     string // the greatest key or prefix in the page
	more     bool
}

// errPageFull ends a walk.
var errPageFull = errors.New("page full")

// walker walks a bucket in the byte order of its keys, which is not that of its names: the
// directory "a" stands where "a/" does, after the file "a-b".
type walker struct {
	v    *view
	l    listing
	page page
}

func (v *view) list(ctx context.Context, l listing) (page, error) {
	w := &walker{v: v, l: l}
	if l.max <= 0 {
		return w.page, nil
	}
	err := w.dir(ctx, v.Root(), "")
	if err != nil && !errors.Is(err, errPageFull) {
		return w.page, failed(err)
	}
	return w.page, nil
}

// dir walks the directory whose keys start with base.
func (w *walker) dir(ctx context.Context, dir fabric.Ino, base string) error {
	from, only, exact := w.start(base)
	// Directories whose name is a prefix of where the walk starts, but whose keys come after it.
	var waiting []fabric.Entry
	for i := range from {
		if from[i] < '/' && i > 0 && !exact {
			if a, err := w.v.Lookup(ctx, dir, from[:i]); err == nil && a.Type == fabric.TypeDir && strings.HasPrefix(from[:i]+"/", only) {
				waiting = push(waiting, fabric.Entry{Name: from[:i], Attr: a})
			}
		}
	}
	for e, err := range w.v.ReadDir(ctx, dir, fabric.Pos{ByName: true, At: from}) {
		if err != nil {
			return err
		}
		if base == "" && e.Name == hidden {
			continue
		}
		for len(waiting) > 0 && waiting[0].Name+"/" < e.Name {
			if err := w.enter(ctx, waiting[0], base); err != nil {
				return err
			}
			waiting = waiting[1:]
		}
		if !strings.HasPrefix(e.Name, only) && !strings.HasPrefix(only, e.Name+"/") && e.Name != only {
			if e.Name > only {
				break
			}
			continue
		}
		switch e.Attr.Type {
		case fabric.TypeDir:
			waiting = push(waiting, e)
		case fabric.TypeFile:
			if err := w.key(item{base + e.Name, e.Attr}); err != nil {
				return err
			}
		}
	}
	for _, e := range waiting {
		if err := w.enter(ctx, e, base); err != nil {
			return err
		}
	}
	return nil
}

// push keeps waiting directories in the order of their keys. There are no more than the bytes of
// a name, since each one's name starts the next one's.
func push(waiting []fabric.Entry, e fabric.Entry) []fabric.Entry {
	i := len(waiting)
	for i > 0 && waiting[i-1].Name+"/" > e.Name+"/" {
		i--
	}
	waiting = append(waiting, fabric.Entry{})
	copy(waiting[i+1:], waiting[i:])
	waiting[i] = e
	return waiting
}

// start gives the first name to look at in the directory of base, what names must start with,
// and whether that is one name.
func (w *walker) start(base string) (from, only string, exact bool) {
	if len(w.l.prefix) > len(base) {
		only, _, exact = strings.Cut(w.l.prefix[len(base):], "/")
		from = only
	}
	if rest, ok := strings.CutPrefix(w.l.after, base); ok {
		comp, _, _ := strings.Cut(rest, "/")
		if comp > from {
			from = comp
		}
	}
	return from, only, exact
}

// enter goes into a directory, or makes a common prefix of it.
func (w *walker) enter(ctx context.Context, e fabric.Entry, base string) error {
	key := base + e.Name + "/"
	if !strings.HasPrefix(key, w.l.prefix) && !strings.HasPrefix(w.l.prefix, key) {
		return nil
	}
	if w.l.after > key && !strings.HasPrefix(w.l.after, key) {
		return nil // all below is at or before it
	}
	if w.l.delimiter == "/" && len(key) > len(w.l.prefix) {
		return w.prefix(key)
	}
	if strings.HasPrefix(key, w.l.prefix) && key > w.l.after {
		shown, err := w.shown(ctx, e.Attr.Ino)
		if err != nil {
			return err
		}
		if shown {
			if err := w.key(item{key, e.Attr}); err != nil {
				return err
			}
		}
	}
	return w.dir(ctx, e.Attr.Ino, key)
}

// shown says whether a directory is a key of its own: it was put as one, or is empty.
func (w *walker) shown(ctx context.Context, dir fabric.Ino) (bool, error) {
	if w.v.mark(ctx, dir) == markKey {
		return true, nil
	}
	for _, err := range w.v.ReadDir(ctx, dir, fabric.Pos{}) {
		return false, err
	}
	return true, nil
}

// key takes a key into the page, or folds it into a prefix.
func (w *walker) key(i item) error {
	if !strings.HasPrefix(i.key, w.l.prefix) {
		return nil
	}
	if d := w.l.delimiter; d != "" {
		if head, _, found := strings.Cut(i.key[len(w.l.prefix):], d); found {
			return w.prefix(w.l.prefix + head + d)
		}
	}
	if i.key <= w.l.after {
		return nil
	}
	if err := w.room(); err != nil {
		return err
	}
	w.page.objects = append(w.page.objects, i)
	w.page.last = i.key
	return nil
}

// prefix takes a common prefix into the page, once. One that the marker is, or is in, was shown.
func (w *walker) prefix(p string) error {
	if p <= w.l.after || p == w.page.last {
		return nil
	}
	if strings.HasPrefix(w.l.after, p) {
		return nil
	}
	if err := w.room(); err != nil {
		return err
	}
	w.page.prefixes = append(w.page.prefixes, p)
	w.page.last = p
	return nil
}

func (w *walker) room() error {
	if len(w.page.objects)+len(w.page.prefixes) == w.l.max {
		w.page.more = true
		return errPageFull
	}
	return nil
}

// listWorkers is how many objects of a page are described at once.
const listWorkers = 16

// contents gives the page's keys in S3's form.
func (v *view) contents(ctx context.Context, p page) ([]s3response.Object, error) {
	out := make([]s3response.Object, len(p.objects))
	errs := make([]error, listWorkers)
	var wg sync.WaitGroup
	for w := range min(listWorkers, len(p.objects)) {
		wg.Go(func() {
			for i := w; i < len(p.objects) && errs[w] == nil; i += listWorkers {
				errs[w] = v.entry(ctx, &p.objects[i], &out[i])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (v *view) entry(ctx context.Context, i *item, out *s3response.Object) error {
	a := i.attr
	if a.Type == fabric.TypeNone { // a listing need not bring attributes
		var err error
		if a, err = v.Stat(ctx, a.Ino); err != nil {
			return failed(err)
		}
	}
	c, err := v.describe(ctx, &a)
	if err != nil {
		if !isNoSuchKey(err) {
			return err
		}
		c.ETag = emptyETag // gone meanwhile; the listing is of a moment before
	}
	size, mtime := a.Size, wall(a.Mtime)
	if a.Type == fabric.TypeDir {
		size = 0
	}
	*out = s3response.Object{Key: &i.key, Size: &size, LastModified: &mtime, ETag: &c.ETag, StorageClass: types.ObjectStorageClassStandard}
	if c.By != "" {
		sum := c.checksum()
		out.ChecksumAlgorithm, out.ChecksumType = []types.ChecksumAlgorithm{sum.Algorithm}, sum.Type
	}
	return nil
}

func prefixes(p page) []types.CommonPrefix {
	var out []types.CommonPrefix
	for i := range p.prefixes {
		out = append(out, types.CommonPrefix{Prefix: &p.prefixes[i]})
	}
	return out
}

// ListObjects implements backend.Backend.
func (s *store) ListObjects(ctx context.Context, in *s3.ListObjectsInput) (s3response.ListObjectsResult, error) {
	out := s3response.ListObjectsResult{
		Name: in.Bucket, Prefix: in.Prefix, Marker: ptr(str(in.Marker)), MaxKeys: in.MaxKeys, Delimiter: in.Delimiter, EncodingType: in.EncodingType,
	}
	p, contents, err := s.listed(ctx, str(in.Bucket), listing{str(in.Prefix), str(in.Delimiter), str(in.Marker), int(aws.ToInt32(in.MaxKeys))})
	if err != nil {
		return out, err
	}
	out.Contents, out.CommonPrefixes, out.IsTruncated = contents, prefixes(p), &p.more
	if p.more {
		out.NextMarker = &p.last
	}
	return out, nil
}

// ListObjectsV2 implements backend.Backend.
func (s *store) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input) (s3response.ListObjectsV2Result, error) {
	out := s3response.ListObjectsV2Result{
		Name: in.Bucket, Prefix: in.Prefix, StartAfter: ptr(str(in.StartAfter)), ContinuationToken: in.ContinuationToken,
		MaxKeys: in.MaxKeys, Delimiter: in.Delimiter, EncodingType: in.EncodingType,
	}
	after := max(str(in.StartAfter), str(in.ContinuationToken))
	p, contents, err := s.listed(ctx, str(in.Bucket), listing{str(in.Prefix), str(in.Delimiter), after, int(aws.ToInt32(in.MaxKeys))})
	if err != nil {
		return out, err
	}
	if !aws.ToBool(in.FetchOwner) {
		for i := range contents {
			contents[i].Owner = nil
		}
	}
	out.Contents, out.CommonPrefixes, out.IsTruncated = contents, prefixes(p), &p.more
	out.KeyCount = aws.Int32(int32(len(contents) + len(p.prefixes)))
	if p.more {
		out.NextContinuationToken = &p.last
	}
	return out, nil
}

func (s *store) listed(ctx context.Context, bucket string, l listing) (page, []s3response.Object, error) {
	v, err := s.open(ctx, bucket)
	if err != nil {
		return page{}, nil, err
	}
	p, err := v.list(ctx, l)
	if err != nil {
		return p, nil, err
	}
	contents, err := v.contents(ctx, p)
	owner := account(ctx).Access
	for i := range contents {
		contents[i].Owner = &types.Owner{ID: &owner}
	}
	return p, contents, err
}

// ListObjectVersions implements backend.Backend: each object has one version, called "null".
func (s *store) ListObjectVersions(ctx context.Context, in *s3.ListObjectVersionsInput) (s3response.ListVersionsResult, error) {
	out := s3response.ListVersionsResult{
		Name: in.Bucket, Prefix: in.Prefix, KeyMarker: in.KeyMarker, VersionIdMarker: in.VersionIdMarker,
		MaxKeys: in.MaxKeys, Delimiter: in.Delimiter, EncodingType: in.EncodingType,
	}
	p, contents, err := s.listed(ctx, str(in.Bucket), listing{str(in.Prefix), str(in.Delimiter), str(in.KeyMarker), int(aws.ToInt32(in.MaxKeys))})
	if err != nil {
		return out, err
	}
	for _, c := range contents {
		out.Versions = append(out.Versions, s3response.ObjectVersion{
			Key: c.Key, ETag: c.ETag, Size: c.Size, LastModified: c.LastModified, Owner: c.Owner,
			IsLatest: aws.Bool(true), VersionId: aws.String("null"), StorageClass: types.ObjectVersionStorageClassStandard,
		})
	}
	out.CommonPrefixes, out.IsTruncated = prefixes(p), &p.more
	if p.more {
		out.NextKeyMarker = &p.last
	}
	return out, nil
}
