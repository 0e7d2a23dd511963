package s3

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/spokefs/spokefs/fabric"
)

// CopyObject implements backend.Backend. Within a namespace no bytes move (O11).
func (s *store) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	var none s3response.CopyObjectOutput
	srcBucket, srcKey, _, err := backend.ParseCopySource(str(in.CopySource))
	if err != nil {
		return none, err
	}
	from, err := s.open(ctx, srcBucket)
	if err != nil {
		return none, err
	}
	to, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return none, err
	}
	o, err := from.stat(ctx, srcKey)
	if err != nil {
		return none, err
	}
	err = backend.EvaluatePreconditions(o.content.ETag, wall(o.attr.Mtime), backend.PreConditions{
		IfMatch: in.CopySourceIfMatch, IfNoneMatch: in.CopySourceIfNoneMatch,
		IfModSince: in.CopySourceIfModifiedSince, IfUnmodeSince: in.CopySourceIfUnmodifiedSince,
	})
	if err != nil {
		return none, err
	}
	same := srcBucket == str(in.Bucket) && srcKey == str(in.Key)
	if same && in.MetadataDirective != types.MetadataDirectiveReplace && in.TaggingDirective != types.TaggingDirectiveReplace {
		return none, s3err.GetAPIError(s3err.ErrInvalidCopyDest)
	}
	m, err := copiedMeta(o.meta, in)
	if err != nil {
		return none, err
	}
	p, err := parseKey(str(in.Key))
	if err != nil {
		return none, err
	}
	if p.dir || o.attr.Type == fabric.TypeDir {
		return to.copyDir(ctx, p, m)
	}
	dirs, name := p.parent()
	dir, err := to.dirs(ctx, dirs)
	if err != nil {
		return none, err
	}
	ino, c, err := to.clone(ctx, dir, from, &o)
	if err != nil {
		return none, err
	}
	if err := to.publish(ctx, ino, dir, name, m, c, fabric.Cond{}); err != nil {
		return none, err
	}
	now, err := to.Stat(ctx, ino)
	if err != nil {
		return none, failed(err)
	}
	mtime := wall(now.Mtime)
	sum := c.checksum()
	return s3response.CopyObjectOutput{CopyObjectResult: &s3response.CopyObjectResult{
		ETag: &c.ETag, LastModified: &mtime, ChecksumType: sum.Type,
		ChecksumCRC32: sum.CRC32, ChecksumCRC32C: sum.CRC32C, ChecksumCRC64NVME: sum.CRC64NVME,
		ChecksumSHA1: sum.SHA1, ChecksumSHA256: sum.SHA256, ChecksumSHA512: sum.SHA512, ChecksumMD5: sum.MD5,
		ChecksumXXHASH64: sum.XXHASH64, ChecksumXXHASH3: sum.XXHASH3, ChecksumXXHASH128: sum.XXHASH128,
	}}, nil
}

// copiedMeta is what the copy has beside its content.
func copiedMeta(m meta, in s3response.CopyObjectInput) (meta, error) {
	tags := m.Tags
	if in.MetadataDirective == types.MetadataDirectiveReplace {
		m = meta{
			Type: str(in.ContentType), Encoding: str(in.ContentEncoding), Disposition: str(in.ContentDisposition),
			Language: str(in.ContentLanguage), Cache: str(in.CacheControl), Expires: str(in.Expires),
			Redirect: str(in.WebsiteRedirectLocation), User: in.Metadata,
		}
	}
	m.Tags = tags
	var err error
	if in.TaggingDirective == types.TaggingDirectiveReplace {
		m.Tags, err = backend.ParseObjectTags(str(in.Tagging))
	}
	return m, err
}

func (v *view) copyDir(ctx context.Context, p path, m meta) (s3response.CopyObjectOutput, error) {
	dir, err := v.dirs(ctx, p.segments)
	if err != nil {
		return s3response.CopyObjectOutput{}, err
	}
	if err := v.SetXattr(ctx, dir, dirXattr, []byte(markKey), fabric.XattrAny); err != nil {
		return s3response.CopyObjectOutput{}, failed(err)
	}
	etag := emptyETag
	return s3response.CopyObjectOutput{CopyObjectResult: &s3response.CopyObjectResult{ETag: &etag}}, v.save(ctx, dir, metaXattr, m)
}

// clone makes a file without a name that has another's content. Where the other is in another
// namespace, or has no description that goes with its bytes, they are read and written.
func (v *view) clone(ctx context.Context, dir fabric.Ino, from *view, o *object) (fabric.Ino, content, error) {
	may, err := from.Access(ctx, o.attr.Ino, fabric.PermRead)
	if err != nil || may == 0 {
		return 0, content{}, s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	if from.portal.ID() == v.portal.ID() && o.content.Sum != "" {
		a, _, err := v.Make(ctx, dir, "", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644})
		if err != nil {
			return 0, content{}, failed(err)
		}
		part := fabric.Part{Ino: o.attr.Ino, Len: -1, Cond: fabric.Cond{Ino: o.attr.Ino, Iver: o.attr.Iver}}
		if _, err = v.Clone(ctx, a.Ino, []fabric.Part{part}); err != nil {
			v.discard(ctx, a.Ino)
		}
		return a.Ino, o.content, failed(err)
	}
	f, err := from.Open(ctx, o.attr.Ino, fabric.OpenRead|fabric.OpenFixed)
	if err != nil {
		return 0, content{}, failed(err)
	}
	body := newBody(f, 0, o.attr.Size)
	defer body.Close()
	ino, _, c, err := v.store(ctx, dir, body, sum{by: "crc64nvme"})
	return ino, c, err
}
