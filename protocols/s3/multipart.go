package s3

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/spokefs/spokefs/fabric"
)

// Limits of multipart uploads.
const (
	maxParts    = 10_000
	minPartSize = 5 << 20 // bytes, of all but the last
	maxUploads  = 100_000 // shown by one listing
)

// upload is an open multipart upload: a directory of .spokefs/uploads whose name is its id.
type upload struct {
	id   string
	dir  fabric.Ino
	attr fabric.Attr
	head uploadHead
}

// uploadXattr holds an uploadHead as JSON.
const uploadXattr = "user.spokefs.s3.upload"

// uploadHead is what was said when the upload was opened.
type uploadHead struct {
	Key   string             `json:"key"`
	Owner string             `json:"owner"`
	Meta  meta               `json:"meta"`
	By    string             `json:"by,omitempty"`
	Kind  types.ChecksumType `json:"kind,omitempty"`
}

// uploads gives the directory of open uploads, made if it is not there. It is the gateway's own:
// who may write to it is decided by upload ids, which nobody can guess.
func (v *view) uploads(ctx context.Context) (fabric.Ino, error) {
	root := v.asRoot()
	dir := v.Root()
	for _, name := range []string{hidden, "uploads"} {
		a, err := root.Lookup(ctx, dir, name)
		if errors.Is(err, fabric.NotExist) {
			a, _, err = root.Make(ctx, dir, name, fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o711})
			if errors.Is(err, fabric.Exist) {
				a, err = root.Lookup(ctx, dir, name)
			}
		}
		if err != nil {
			return 0, failed(err)
		}
		dir = a.Ino
	}
	return dir, nil
}

// upload finds an open upload of a key.
func (v *view) upload(ctx context.Context, key, id string) (upload, error) {
	u := upload{id: id}
	if fabric.CheckName(id) != fabric.OK {
		return u, s3err.GetNoSuchUploadErr(id)
	}
	dir, err := v.uploads(ctx)
	if err != nil {
		return u, err
	}
	root := v.asRoot()
	if u.attr, err = root.Lookup(ctx, dir, id); err != nil {
		if errors.Is(err, fabric.NotExist) {
			return u, s3err.GetNoSuchUploadErr(id)
		}
		return u, failed(err)
	}
	u.dir = u.attr.Ino
	ok, err := root.load(ctx, u.dir, uploadXattr, &u.head)
	if err == nil && (!ok || u.head.Key != key) {
		err = s3err.GetNoSuchUploadErr(id)
	}
	return u, err
}

// CreateMultipartUpload implements backend.Backend.
func (s *store) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	var out s3response.InitiateMultipartUploadResult
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return out, err
	}
	p, err := parseKey(str(in.Key))
	if err != nil {
		return out, err
	}
	if p.dir {
		return out, s3err.GetAPIError(s3err.ErrDirectoryObjectContainsData)
	}
	if v.portal.Policy().ReadOnly {
		return out, s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	head := uploadHead{Key: str(in.Key), Owner: account(ctx).Access, By: strings.ToLower(string(in.ChecksumAlgorithm)), Kind: in.ChecksumType}
	head.Meta = meta{
		Type: str(in.ContentType), Encoding: str(in.ContentEncoding), Disposition: str(in.ContentDisposition),
		Language: str(in.ContentLanguage), Cache: str(in.CacheControl), Expires: str(in.Expires),
		Redirect: str(in.WebsiteRedirectLocation), User: in.Metadata,
	}
	if head.Meta.Tags, err = backend.ParseObjectTags(str(in.Tagging)); err != nil {
		return out, err
	}
	dir, err := v.uploads(ctx)
	if err != nil {
		return out, err
	}
	var id [16]byte
	rand.Read(id[:])
	root := v.asRoot()
	a, _, err := root.Make(ctx, dir, hex.EncodeToString(id[:]), fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o700})
	if err != nil {
		return out, failed(err)
	}
	out.Bucket, out.Key, out.UploadId = str(in.Bucket), str(in.Key), hex.EncodeToString(id[:])
	return out, root.save(ctx, a.Ino, uploadXattr, head)
}

// partName is a part's file: five digits, so that names sort as numbers do.
func partName(n int32) string { return fmt.Sprintf("%05d", n) }

// UploadPart implements backend.Backend. A part sent again replaces the one before.
func (s *store) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return nil, err
	}
	u, err := v.upload(ctx, str(in.Key), str(in.UploadId))
	if err != nil {
		return nil, err
	}
	want := firstSum([]sum{
		{"crc32", str(in.ChecksumCRC32)}, {"crc32c", str(in.ChecksumCRC32C)}, {"sha1", str(in.ChecksumSHA1)},
		{"sha256", str(in.ChecksumSHA256)}, {"crc64nvme", str(in.ChecksumCRC64NVME)}, {"sha512", str(in.ChecksumSHA512)},
		{"md5", str(in.ChecksumMD5)}, {"xxhash64", str(in.ChecksumXXHASH64)}, {"xxhash3", str(in.ChecksumXXHASH3)},
		{"xxhash128", str(in.ChecksumXXHASH128)},
	}, in.ChecksumAlgorithm)
	if want.value == "" && u.head.By != "" {
		want.by = u.head.By
	}
	root := v.asRoot()
	ino, _, c, err := root.store(ctx, u.dir, in.Body, want)
	if err != nil {
		return nil, err
	}
	if u.head.By != "" && c.By != u.head.By {
		root.discard(ctx, ino)
		return nil, s3err.GetChecksumTypeMismatchErr(types.ChecksumAlgorithm(strings.ToUpper(u.head.By)), types.ChecksumAlgorithm(strings.ToUpper(c.By)))
	}
	if err := root.publish(ctx, ino, u.dir, partName(aws.ToInt32(in.PartNumber)), meta{}, c, fabric.Cond{}); err != nil {
		return nil, err
	}
	sum := c.checksum()
	return &s3.UploadPartOutput{
		ETag: &c.ETag, ChecksumCRC32: sum.CRC32, ChecksumCRC32C: sum.CRC32C, ChecksumCRC64NVME: sum.CRC64NVME,
		ChecksumSHA1: sum.SHA1, ChecksumSHA256: sum.SHA256, ChecksumSHA512: sum.SHA512, ChecksumMD5: sum.MD5,
		ChecksumXXHASH64: sum.XXHASH64, ChecksumXXHASH3: sum.XXHASH3, ChecksumXXHASH128: sum.XXHASH128,
	}, nil
}

// UploadPartCopy implements backend.Backend. A whole object is cloned; a range of one is read.
func (s *store) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (s3response.CopyPartResult, error) {
	var out s3response.CopyPartResult
	bucket, key, _, err := backend.ParseCopySource(str(in.CopySource))
	if err != nil {
		return out, err
	}
	from, err := s.open(ctx, bucket)
	if err != nil {
		return out, err
	}
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return out, err
	}
	u, err := v.upload(ctx, str(in.Key), str(in.UploadId))
	if err != nil {
		return out, err
	}
	o, err := from.stat(ctx, key)
	if err != nil {
		return out, err
	}
	err = backend.EvaluatePreconditions(o.content.ETag, wall(o.attr.Mtime), backend.PreConditions{
		IfMatch: in.CopySourceIfMatch, IfNoneMatch: in.CopySourceIfNoneMatch,
		IfModSince: in.CopySourceIfModifiedSince, IfUnmodeSince: in.CopySourceIfUnmodifiedSince,
	})
	if err != nil {
		return out, err
	}
	off, size, err := backend.ParseCopySourceRange(o.attr.Size, str(in.CopySourceRange))
	if err != nil {
		return out, err
	}
	f, err := from.Open(ctx, o.attr.Ino, fabric.OpenRead|fabric.OpenFixed)
	if err != nil {
		return out, failed(err)
	}
	b := newBody(f, off, size)
	defer b.Close()
	by := cmp.Or(u.head.By, "crc64nvme")
	root := v.asRoot()
	ino, _, c, err := root.store(ctx, u.dir, b, sum{by: by})
	if err != nil {
		return out, err
	}
	if err := root.publish(ctx, ino, u.dir, partName(aws.ToInt32(in.PartNumber)), meta{}, c, fabric.Cond{}); err != nil {
		return out, err
	}
	a, err := root.Stat(ctx, ino)
	sum := c.checksum()
	return s3response.CopyPartResult{
		ETag: &c.ETag, LastModified: wall(a.Mtime),
		ChecksumCRC32: sum.CRC32, ChecksumCRC32C: sum.CRC32C, ChecksumCRC64NVME: sum.CRC64NVME,
		ChecksumSHA1: sum.SHA1, ChecksumSHA256: sum.SHA256,
	}, failed(err)
}

// part is one stored part.
type part struct {
	number  int32
	attr    fabric.Attr
	content content
}

// parts lists the stored parts after a number, in order, at most n.
func (v *view) parts(ctx context.Context, u *upload, after int32, n int) ([]part, error) {
	var out []part
	for e, err := range v.ReadDir(ctx, u.dir, fabric.Pos{ByName: true, At: partName(after + 1)}) {
		if err != nil {
			return nil, failed(err)
		}
		number, err := strconv.ParseInt(e.Name, 10, 32)
		if err != nil {
			continue
		}
		if len(out) == n {
			break
		}
		p := part{number: int32(number)}
		if p.attr, err = v.Stat(ctx, e.Attr.Ino); err != nil {
			return nil, failed(err)
		}
		if p.content, err = v.describe(ctx, &p.attr); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// ListParts implements backend.Backend.
func (s *store) ListParts(ctx context.Context, in *s3.ListPartsInput) (s3response.ListPartsResult, error) {
	var out s3response.ListPartsResult
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return out, err
	}
	u, err := v.upload(ctx, str(in.Key), str(in.UploadId))
	if err != nil {
		return out, err
	}
	marker, err := strconv.ParseInt(cmp.Or(str(in.PartNumberMarker), "0"), 10, 32)
	if err != nil || marker > maxParts {
		marker = maxParts
	}
	n := int(aws.ToInt32(in.MaxParts))
	parts, err := v.asRoot().parts(ctx, &u, int32(marker), n+1)
	if err != nil {
		return out, err
	}
	out = s3response.ListPartsResult{
		Bucket: str(in.Bucket), Key: str(in.Key), UploadID: u.id, MaxParts: n, PartNumberMarker: int(marker),
		Owner: s3response.Owner{ID: u.head.Owner}, StorageClass: types.StorageClassStandard,
		ChecksumAlgorithm: types.ChecksumAlgorithm(strings.ToUpper(u.head.By)), ChecksumType: u.head.Kind,
	}
	if out.IsTruncated = len(parts) > n; out.IsTruncated {
		parts = parts[:n]
	}
	for _, p := range parts {
		entry := s3response.Part{PartNumber: int(p.number), ETag: p.content.ETag, Size: p.attr.Size, LastModified: wall(p.attr.Mtime)}
		if u.head.By != "" {
			sum := p.content.checksum()
			entry.ChecksumCRC32, entry.ChecksumCRC32C, entry.ChecksumCRC64NVME = sum.CRC32, sum.CRC32C, sum.CRC64NVME
			entry.ChecksumSHA1, entry.ChecksumSHA256 = sum.SHA1, sum.SHA256
		}
		out.Parts = append(out.Parts, entry)
		out.NextPartNumberMarker = int(p.number)
	}
	return out, nil
}

// ListMultipartUploads implements backend.Backend.
func (s *store) ListMultipartUploads(ctx context.Context, in *s3.ListMultipartUploadsInput) (s3response.ListMultipartUploadsResult, error) {
	var out s3response.ListMultipartUploadsResult
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return out, err
	}
	dir, err := v.uploads(ctx)
	if err != nil {
		return out, err
	}
	root := v.asRoot()
	var all []s3response.Upload
	for e, err := range root.ReadDir(ctx, dir, fabric.Pos{}) {
		if err != nil {
			return out, failed(err)
		}
		var head uploadHead
		if ok, err := root.load(ctx, e.Attr.Ino, uploadXattr, &head); err != nil || !ok {
			continue // being opened, or just gone
		}
		if len(all) == maxUploads {
			break
		}
		all = append(all, s3response.Upload{
			Key: head.Key, UploadID: e.Name, Initiated: wall(e.Attr.Btime), StorageClass: types.StorageClassStandard,
			Owner: s3response.Owner{ID: head.Owner}, Initiator: s3response.Initiator{ID: head.Owner},
			ChecksumAlgorithm: types.ChecksumAlgorithm(strings.ToUpper(head.By)), ChecksumType: head.Kind,
		})
	}
	slices.SortFunc(all, func(a, b s3response.Upload) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), a.Initiated.Compare(b.Initiated), cmp.Compare(a.UploadID, b.UploadID))
	})
	n := int(aws.ToInt32(in.MaxUploads))
	page, err := backend.ListMultipartUploads(all, str(in.Prefix), str(in.Delimiter), str(in.KeyMarker), str(in.UploadIdMarker), n)
	if err != nil {
		return out, err
	}
	return s3response.ListMultipartUploadsResult{
		Bucket: str(in.Bucket), KeyMarker: str(in.KeyMarker), UploadIDMarker: str(in.UploadIdMarker),
		Prefix: str(in.Prefix), Delimiter: str(in.Delimiter), MaxUploads: n,
		Uploads: page.Uploads, CommonPrefixes: page.CommonPrefixes, IsTruncated: page.IsTruncated,
		NextKeyMarker: page.NextKeyMarker, NextUploadIDMarker: page.NextUploadIDMarker,
	}, nil
}

// AbortMultipartUpload implements backend.Backend.
func (s *store) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput) error {
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return err
	}
	u, err := v.upload(ctx, str(in.Key), str(in.UploadId))
	if err != nil {
		return err
	}
	if t := in.IfMatchInitiatedTime; t != nil && t.Unix() != wall(u.attr.Btime).Unix() {
		return s3err.GetAPIError(s3err.ErrPreconditionFailed)
	}
	return v.asRoot().drop(ctx, &u)
}

// drop removes an upload with its parts. A part that comes meanwhile makes it start again.
func (v *view) drop(ctx context.Context, u *upload) error {
	dir, err := v.uploads(ctx)
	if err != nil {
		return err
	}
	for range 8 {
		for e, err := range v.ReadDir(ctx, u.dir, fabric.Pos{}) {
			if err != nil {
				return failed(err)
			}
			if _, err := v.Remove(ctx, u.dir, e.Name, fabric.RemoveFile, fabric.Cond{}); err != nil && !errors.Is(err, fabric.NotExist) {
				return failed(err)
			}
		}
		_, err = v.Remove(ctx, dir, u.id, fabric.RemoveDir, fabric.Cond{})
		if !errors.Is(err, fabric.NotEmpty) {
			break
		}
	}
	if errors.Is(err, fabric.NotExist) {
		return nil
	}
	return failed(err)
}
