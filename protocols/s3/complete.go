package s3

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/spokefs/spokefs/fabric"
)

// CompleteMultipartUpload implements backend.Backend. Said again it answers from the object.
func (s *store) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	var none s3response.CompleteMultipartUploadResult
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return none, "", err
	}
	u, err := v.upload(ctx, str(in.Key), str(in.UploadId))
	if err != nil {
		if o, e := v.stat(ctx, str(in.Key)); e == nil && o.content.Upload != "" && o.content.Upload == str(in.UploadId) {
			return completed(in, o.content), "", nil
		}
		return none, "", err
	}
	if in.MultipartUpload == nil || len(in.MultipartUpload.Parts) == 0 {
		return none, "", s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	root := v.asRoot()
	stored, err := root.parts(ctx, &u, 0, maxParts)
	if err != nil {
		return none, "", err
	}
	chosen, err := choose(&u, in.MultipartUpload.Parts, stored)
	if err != nil {
		return none, "", err
	}
	c, size, err := composed(&u, in, chosen)
	if err != nil {
		return none, "", err
	}
	if in.MpuObjectSize != nil && *in.MpuObjectSize != size {
		return none, "", s3err.GetIncorrectMpObjectSizeErr(*in.MpuObjectSize, size)
	}
	p, err := parseKey(str(in.Key))
	if err != nil {
		return none, "", err
	}
	cond, err := v.condition(ctx, p, in.IfMatch, in.IfNoneMatch)
	if err != nil {
		return none, "", err
	}
	if err := v.join(ctx, p, &u, chosen, c, cond); err != nil {
		return none, "", err
	}
	return completed(in, c), "", root.drop(ctx, &u)
}

// choose checks the parts that a completion names against those that are stored.
func choose(u *upload, named []types.CompletedPart, stored []part) ([]part, error) {
	byNumber := make(map[int32]part, len(stored))
	for _, p := range stored {
		byNumber[p.number] = p
	}
	var out []part
	for i, n := range named {
		if n.PartNumber == nil || n.ETag == nil {
			return nil, s3err.GetAPIError(s3err.ErrMalformedXML)
		}
		if *n.PartNumber < 1 {
			return nil, s3err.GetInvalidArgumentErr(s3err.InvalidArgCompleteMpPartNumber, fmt.Sprint(*n.PartNumber))
		}
		if i > 0 && *n.PartNumber <= *named[i-1].PartNumber {
			return nil, s3err.GetAPIError(s3err.ErrInvalidPartOrder)
		}
		p, ok := byNumber[*n.PartNumber]
		if !ok || !backend.AreEtagsSame(*n.ETag, p.content.ETag) {
			return nil, s3err.GetInvalidPartErr(u.id, *n.PartNumber, *n.ETag)
		}
		if i < len(named)-1 && p.attr.Size < minPartSize {
			return nil, s3err.GetEntityTooSmallErr(p.attr.Size, minPartSize)
		}
		out = append(out, p)
	}
	return out, nil
}

// composed describes the object that parts make.
func composed(u *upload, in *s3.CompleteMultipartUploadInput, parts []part) (content, int64, error) {
	c := content{Upload: u.id, By: cmp.Or(u.head.By, "crc64nvme"), Kind: cmp.Or(u.head.Kind, types.ChecksumTypeFullObject)}
	if in.ChecksumType != "" && in.ChecksumType != c.Kind {
		return c, 0, s3err.GetChecksumTypeMismatchOnMpErr(cmp.Or(u.head.Kind, types.ChecksumType("null")))
	}
	var size int64
	named := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		size += p.attr.Size
		c.Parts = append(c.Parts, size)
		named[i] = types.CompletedPart{ETag: &p.content.ETag, PartNumber: &p.number}
	}
	if len(c.Parts) > maxPartsKept {
		c.Parts = nil
	}
	etag, err := backend.ComputeMultipartETagFromPartETags(named)
	if err != nil {
		return c, 0, err
	}
	c.ETag = etag
	c.Sum, err = composeSum(c, parts)
	if err != nil {
		return c, 0, err
	}
	want := firstSum([]sum{
		{"crc32", str(in.ChecksumCRC32)}, {"crc32c", str(in.ChecksumCRC32C)}, {"sha1", str(in.ChecksumSHA1)},
		{"sha256", str(in.ChecksumSHA256)}, {"crc64nvme", str(in.ChecksumCRC64NVME)},
	}, "")
	if want.value != "" && (want.by != c.By || want.value != c.Sum) {
		return c, 0, s3err.GetChecksumBadDigestErr(types.ChecksumAlgorithm(strings.ToUpper(want.by)))
	}
	return c, size, nil
}

// composeSum makes the object's checksum of its parts'. One that cannot be is left out.
func composeSum(c content, parts []part) (string, error) {
	algorithm := types.ChecksumAlgorithm(strings.ToUpper(c.By))
	if c.Kind == types.ChecksumTypeComposite {
		r, err := utils.NewCompositeChecksumReader(utils.HashType(c.By))
		if err != nil {
			return "", failed(err)
		}
		for _, p := range parts {
			if err := r.Process(p.content.Sum); err != nil {
				return "", failed(err)
			}
		}
		return fmt.Sprintf("%s-%d", r.Sum(), len(parts)), nil
	}
	all := ""
	for i, p := range parts {
		if p.content.By != c.By {
			return "", nil
		}
		if i == 0 {
			all = p.content.Sum
			continue
		}
		var err error
		if all, err = utils.AddCRCChecksum(algorithm, all, p.content.Sum, p.attr.Size); err != nil {
			return "", nil //nolint:nilerr // not a checksum that can be added up
		}
	}
	return all, nil
}

// join makes the object of its parts, without moving bytes, and binds it to its key.
func (v *view) join(ctx context.Context, p path, u *upload, parts []part, c content, cond fabric.Cond) error {
	dirs, name := p.parent()
	dir, err := v.dirs(ctx, dirs)
	if err != nil {
		return err
	}
	a, _, err := v.Make(ctx, dir, "", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644})
	if err != nil {
		return failed(err)
	}
	pieces := make([]fabric.Part, len(parts))
	for i, p := range parts {
		pieces[i] = fabric.Part{Ino: p.attr.Ino, Len: -1, Cond: fabric.Cond{Ino: p.attr.Ino, Iver: p.attr.Iver}}
	}
	// The parts are the gateway's, so it is the gateway that reads them.
	if _, err := v.asRoot().Clone(ctx, a.Ino, pieces); err != nil {
		v.discard(ctx, a.Ino)
		return failed(err)
	}
	return v.publish(ctx, a.Ino, dir, name, u.head.Meta, c, cond)
}

func completed(in *s3.CompleteMultipartUploadInput, c content) s3response.CompleteMultipartUploadResult {
	sum := c.checksum()
	return s3response.CompleteMultipartUploadResult{
		Bucket: in.Bucket, Key: in.Key, ETag: &c.ETag, ChecksumType: &sum.Type,
		ChecksumCRC32: sum.CRC32, ChecksumCRC32C: sum.CRC32C, ChecksumCRC64NVME: sum.CRC64NVME,
		ChecksumSHA1: sum.SHA1, ChecksumSHA256: sum.SHA256,
	}
}
