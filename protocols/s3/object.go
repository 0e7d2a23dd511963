package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/spokefs/spokefs/fabric"
)

// object is all that a HEAD tells.
type object struct {
	attr    fabric.Attr
	meta    meta
	content content
}

// stat gives an object by its key.
func (v *view) stat(ctx context.Context, key string) (object, error) {
	var o object
	_, a, err := v.find(ctx, key)
	if err != nil {
		return o, err
	}
	o.attr = a
	if _, err := v.load(ctx, a.Ino, metaXattr, &o.meta); err != nil {
		return o, err
	}
	o.content, err = v.describe(ctx, &a)
	if a.Type == fabric.TypeDir {
		o.attr.Size = 0
		if o.meta.Type == "" {
			o.meta.Type = "application/x-directory"
		}
	}
	if o.meta.Type == "" {
		o.meta.Type = "binary/octet-stream"
	}
	return o, err
}

// part gives the range of one part of an object; an object put whole is its own part 1.
func (o *object) part(n int32) (off, size int64, count int32, err error) {
	ends := o.content.Parts
	if len(ends) == 0 {
		if n != 1 {
			return 0, 0, 0, s3err.GetInvalidPartNumberRangeErr(1, n)
		}
		return 0, o.attr.Size, 0, nil
	}
	count = int32(len(ends))
	if n < 1 || n > count {
		return 0, 0, count, s3err.GetInvalidPartNumberRangeErr(count, n)
	}
	if n > 1 {
		off = ends[n-2]
	}
	return off, ends[n-1] - off, count, nil
}

// HeadObject implements backend.Backend.
func (s *store) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (*s3.HeadObjectOutput, error) {
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return nil, err
	}
	if str(in.VersionId) != "" && str(in.VersionId) != "null" {
		return nil, s3err.GetNoSuchVersionErr(str(in.Key), str(in.VersionId))
	}
	o, err := v.stat(ctx, str(in.Key))
	if err != nil {
		return nil, err
	}
	mtime := wall(o.attr.Mtime)
	err = backend.EvaluatePreconditions(o.content.ETag, mtime, backend.PreConditions{
		IfMatch: in.IfMatch, IfNoneMatch: in.IfNoneMatch, IfModSince: in.IfModifiedSince, IfUnmodeSince: in.IfUnmodifiedSince,
	})
	if err != nil {
		return nil, err
	}
	out := &s3.HeadObjectOutput{
		AcceptRanges: aws.String("bytes"), ContentLength: aws.Int64(o.attr.Size), ETag: &o.content.ETag, LastModified: &mtime,
		ContentType: ptr(o.meta.Type), ContentEncoding: ptr(o.meta.Encoding), ContentDisposition: ptr(o.meta.Disposition),
		ContentLanguage: ptr(o.meta.Language), CacheControl: ptr(o.meta.Cache), ExpiresString: ptr(o.meta.Expires),
		WebsiteRedirectLocation: ptr(o.meta.Redirect), Metadata: o.meta.User, StorageClass: types.StorageClassStandard,
	}
	if n := len(o.meta.Tags); n > 0 {
		out.TagCount = aws.Int32(int32(n))
	}
	var off, size int64
	var partial bool
	if in.PartNumber != nil {
		var count int32
		if off, size, count, err = o.part(*in.PartNumber); err != nil {
			return nil, err
		}
		if partial = size > 0; count > 0 {
			out.PartsCount = &count
		}
	} else if off, size, partial, err = backend.ParseObjectRange(o.attr.Size, str(in.Range)); err != nil {
		return nil, err
	}
	out.ContentLength = &size
	if partial {
		out.ContentRange = contentRange(off, size, o.attr.Size)
	}
	if in.ChecksumMode == types.ChecksumModeEnabled && !partial {
		sum := o.content.checksum()
		out.ChecksumCRC32, out.ChecksumCRC32C, out.ChecksumCRC64NVME = sum.CRC32, sum.CRC32C, sum.CRC64NVME
		out.ChecksumSHA1, out.ChecksumSHA256, out.ChecksumType = sum.SHA1, sum.SHA256, sum.Type
		out.ChecksumSHA512, out.ChecksumMD5 = sum.SHA512, sum.MD5
		out.ChecksumXXHASH64, out.ChecksumXXHASH3, out.ChecksumXXHASH128 = sum.XXHASH64, sum.XXHASH3, sum.XXHASH128
	}
	return out, nil
}

func contentRange(off, size, total int64) *string {
	return aws.String(fmt.Sprintf("bytes %d-%d/%d", off, off+size-1, total))
}

// GetObject implements backend.Backend. The body is one version to its end (A39).
func (s *store) GetObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	h, err := s.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: in.Bucket, Key: in.Key, Range: in.Range, PartNumber: in.PartNumber, VersionId: in.VersionId,
		ChecksumMode: in.ChecksumMode, IfMatch: in.IfMatch, IfNoneMatch: in.IfNoneMatch,
		IfModifiedSince: in.IfModifiedSince, IfUnmodifiedSince: in.IfUnmodifiedSince,
	})
	if err != nil {
		return nil, err
	}
	out := &s3.GetObjectOutput{
		AcceptRanges: h.AcceptRanges, ContentLength: h.ContentLength, ContentRange: h.ContentRange, ETag: h.ETag,
		LastModified: h.LastModified, ContentType: h.ContentType, ContentEncoding: h.ContentEncoding,
		ContentDisposition: h.ContentDisposition, ContentLanguage: h.ContentLanguage, CacheControl: h.CacheControl,
		ExpiresString: h.ExpiresString, Metadata: h.Metadata, TagCount: h.TagCount, PartsCount: h.PartsCount,
		WebsiteRedirectLocation: h.WebsiteRedirectLocation, StorageClass: h.StorageClass,
		ChecksumCRC32: h.ChecksumCRC32, ChecksumCRC32C: h.ChecksumCRC32C, ChecksumCRC64NVME: h.ChecksumCRC64NVME,
		ChecksumSHA1: h.ChecksumSHA1, ChecksumSHA256: h.ChecksumSHA256, ChecksumType: h.ChecksumType,
		ChecksumSHA512: h.ChecksumSHA512, ChecksumMD5: h.ChecksumMD5,
		ChecksumXXHASH64: h.ChecksumXXHASH64, ChecksumXXHASH3: h.ChecksumXXHASH3, ChecksumXXHASH128: h.ChecksumXXHASH128,
	}
	if strings.HasSuffix(str(in.Key), "/") {
		return out, nil
	}
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return nil, err
	}
	_, a, err := v.find(ctx, str(in.Key))
	if err != nil {
		return nil, err
	}
	f, err := v.Open(ctx, a.Ino, fabric.OpenRead|fabric.OpenFixed)
	if err != nil {
		return nil, failed(err)
	}
	now, err := f.Stat(ctx)
	if err == nil && now.Size != a.Size {
		err = fabric.Unavailable // changed between the two: the client asks again
	}
	if err != nil {
		f.Close(ctx)
		return nil, failed(err)
	}
	var off int64
	if out.ContentRange != nil {
		fmt.Sscanf(*out.ContentRange, "bytes %d-", &off)
	}
	out.Body = newBody(f, off, *out.ContentLength)
	return out, nil
}

// body reads a range of a file. It has a context of its own, since the request's ends when the
// handler returns, before the body is read; Close ends it.
type body struct {
	f      fabric.File
	off    int64
	end    int64
	ctx    context.Context
	cancel context.CancelFunc
}

func newBody(f fabric.File, off, size int64) *body {
	b := &body{f: f, off: off, end: off + size}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.off == b.end {
		return 0, io.EOF
	}
	if left := b.end - b.off; int64(len(p)) > left {
		p = p[:left]
	}
	n, err := b.f.ReadAt(b.ctx, p, b.off)
	b.off += int64(n)
	if err == nil && n == 0 && len(p) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// bodyPiece is how much of a body is read at once, in bytes. Left to itself, the HTTP library reads 4 KiB
// and then 32 KiB at a time, and each read of a file has its price.
const bodyPiece = 256 << 10

var bodyPieces = sync.Pool{New: func() any { return new([bodyPiece]byte) }}

// WriteTo implements io.WriterTo.
func (b *body) WriteTo(w io.Writer) (sent int64, err error) {
	buf := bodyPieces.Get().(*[bodyPiece]byte)
	defer bodyPieces.Put(buf)
	for {
		n, err := b.Read(buf[:])
		if err == io.EOF {
			return sent, nil
		}
		if err == nil {
			n, err = w.Write(buf[:n])
			sent += int64(n)
		}
		if err != nil {
			return sent, err
		}
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.cancel()
	return b.f.Close(context.WithoutCancel(b.ctx))
}

// DeleteObject implements backend.Backend. A key that is not there is deleted already.
func (s *store) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (*s3.DeleteObjectOutput, error) {
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return nil, err
	}
	key := str(in.Key)
	p, a, err := v.find(ctx, key)
	if isNoSuchKey(err) {
		return &s3.DeleteObjectOutput{}, nil
	}
	if err != nil {
		return nil, err
	}
	cond := fabric.Cond{Ino: a.Ino}
	if in.IfMatch != nil || in.IfMatchLastModifiedTime != nil || in.IfMatchSize != nil {
		c, err := v.describe(ctx, &a)
		if err != nil {
			return nil, err
		}
		err = backend.EvaluateObjectDeletePreconditions(c.ETag, wall(a.Mtime), a.Size, backend.ObjectDeletePreconditions{
			IfMatch: in.IfMatch, IfMatchLastModTime: in.IfMatchLastModifiedTime, IfMatchSize: in.IfMatchSize,
		})
		if err != nil {
			return nil, err
		}
		cond.Iver = a.Iver
	}
	dirs, name := p.parent()
	parent := v.Root()
	if len(dirs) > 0 {
		attrs, err := v.Walk(ctx, v.Root(), dirs)
		if err != nil {
			return nil, failed(err)
		}
		parent = attrs[len(attrs)-1].Ino
	}
	_, err = v.Remove(ctx, parent, name, fabric.RemoveAny, cond)
	switch {
	case p.dir && errors.Is(err, fabric.NotEmpty):
		// The key goes; the directory stays for what is below it.
		return &s3.DeleteObjectOutput{}, failed(v.SetXattr(ctx, a.Ino, dirXattr, []byte(markImplicit), fabric.XattrAny))
	case errors.Is(err, fabric.NotExist):
	case err != nil:
		return nil, failed(err)
	}
	v.prune(ctx, dirs)
	return &s3.DeleteObjectOutput{}, nil
}

func isNoSuchKey(err error) bool {
	var api s3err.APIError
	return errors.As(err, &api) && api.Code == s3err.GetAPIError(s3err.ErrNoSuchKey).Code
}

// DeleteObjects implements backend.Backend.
func (s *store) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	var out s3response.DeleteResult
	if in.Delete == nil {
		return out, nil
	}
	for _, o := range in.Delete.Objects {
		_, err := s.DeleteObject(ctx, &s3.DeleteObjectInput{
			Bucket: in.Bucket, Key: o.Key, IfMatch: o.ETag, IfMatchLastModifiedTime: o.LastModifiedTime, IfMatchSize: o.Size,
		})
		if err != nil {
			out.Error = append(out.Error, s3err.ObjectDeleteError(o.Key, o.VersionId, err))
			continue
		}
		if in.Delete.Quiet == nil || !*in.Delete.Quiet {
			out.Deleted = append(out.Deleted, types.DeletedObject{Key: o.Key, VersionId: o.VersionId})
		}
	}
	return out, nil
}

// GetObjectAttributes implements backend.Backend.
func (s *store) GetObjectAttributes(ctx context.Context, in *s3.GetObjectAttributesInput) (s3response.GetObjectAttributesResponse, error) {
	var out s3response.GetObjectAttributesResponse
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return out, err
	}
	o, err := v.stat(ctx, str(in.Key))
	if err != nil {
		return out, err
	}
	mtime := wall(o.attr.Mtime)
	out.ETag, out.ObjectSize, out.LastModified = backend.TrimEtag(&o.content.ETag), &o.attr.Size, &mtime
	out.StorageClass = types.StorageClassStandard
	if sum := o.content.checksum(); sum.Algorithm != "" {
		out.Checksum = &types.Checksum{
			ChecksumCRC32: sum.CRC32, ChecksumCRC32C: sum.CRC32C, ChecksumCRC64NVME: sum.CRC64NVME,
			ChecksumSHA1: sum.SHA1, ChecksumSHA256: sum.SHA256, ChecksumType: sum.Type,
			ChecksumSHA512: sum.SHA512, ChecksumMD5: sum.MD5,
			ChecksumXXHASH64: sum.XXHASH64, ChecksumXXHASH3: sum.XXHASH3, ChecksumXXHASH128: sum.XXHASH128,
		}
	}
	if n := len(o.content.Parts); n > 0 {
		out.ObjectParts = &s3response.ObjectParts{MaxParts: n}
	}
	return out, nil
}
