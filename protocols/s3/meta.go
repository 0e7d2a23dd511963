package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3response"
	"github.com/zeebo/xxh3"

	"github.com/spokefs/spokefs/fabric"
)

// metaXattr holds an object's meta as JSON.
const metaXattr = "user.spokefs.s3"

// meta is what an object has beside its content: it stays when the content changes.
type meta struct {
	Type        string            `json:"type,omitempty"`
	Encoding    string            `json:"encoding,omitempty"`
	Disposition string            `json:"disposition,omitempty"`
	Language    string            `json:"language,omitempty"`
	Cache       string            `json:"cache,omitempty"`
	Expires     string            `json:"expires,omitempty"`
	Redirect    string            `json:"redirect,omitempty"`
	User        map[string]string `json:"user,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// content describes an object's bytes, in fabric.ContentXattr as JSON: it goes with them.
type content struct {
	ETag   string             `json:"etag"` // with quotes
	Sum    string             `json:"sum,omitempty"`
	By     string             `json:"by,omitempty"`   // the checksum's algorithm
	Kind   types.ChecksumType `json:"kind,omitempty"` // of the whole, or of parts' checksums
	Upload string             `json:"upload,omitempty"`
	Parts  []int64            `json:"parts,omitempty"` // where each part ends; only if they are few
}

// maxPartsKept bounds content.Parts, so that the attribute stays small.
const maxPartsKept = 1000

// load reads a JSON attribute into out; ok is false if there is none, or none of ours.
func (v *view) load(ctx context.Context, ino fabric.Ino, name string, out any) (ok bool, err error) {
	p := make([]byte, 1024)
	n, err := v.Xattr(ctx, ino, name, p)
	if errors.Is(err, fabric.Invalid) { // larger than that
		if n, err = v.Xattr(ctx, ino, name, nil); err == nil {
			p = make([]byte, n)
			n, err = v.Xattr(ctx, ino, name, p)
		}
	}
	switch {
	case errors.Is(err, fabric.NoXattr), errors.Is(err, fabric.Unsupported):
		return false, nil
	case err != nil:
		return false, failed(err)
	}
	return json.Unmarshal(p[:n], out) == nil, nil
}

// save writes a JSON attribute.
func (v *view) save(ctx context.Context, ino fabric.Ino, name string, in any) error {
	p, err := json.Marshal(in)
	if err != nil {
		return failed(&fabric.Error{Op: "encode metadata", Ino: ino, Code: fabric.Internal, Err: err})
	}
	return failed(v.SetXattr(ctx, ino, name, p, fabric.XattrAny))
}

// describe gives the content of a file: what was stored with it, or a tag made from its version.
func (v *view) describe(ctx context.Context, a *fabric.Attr) (content, error) {
	var c content
	ok, err := v.load(ctx, a.Ino, fabric.ContentXattr, &c)
	if err != nil || ok {
		return c, err
	}
	if a.Type == fabric.TypeDir {
		return content{ETag: emptyETag}, nil
	}
	id := fmt.Appendf(nil, "%x %x %x", v.portal.ID(), uint64(a.Ino), a.Iver)
	return content{ETag: fmt.Sprintf("\"v-%016x\"", xxh3.Hash(id))}, nil
}

// emptyETag is the MD5 of nothing.
const emptyETag = "\"d41d8cd98f00b204e9800998ecf8427e\""

// checksum is c's checksum in the gateway's form.
func (c *content) checksum() s3response.Checksum {
	sum := s3response.Checksum{Algorithm: types.ChecksumAlgorithm(strings.ToUpper(c.By)), Type: c.Kind}
	if c.Sum == "" {
		return s3response.Checksum{}
	}
	v := &c.Sum
	switch strings.ToLower(c.By) {
	case "crc32":
		sum.CRC32 = v
	case "crc32c":
		sum.CRC32C = v
	case "sha1":
		sum.SHA1 = v
	case "sha256":
		sum.SHA256 = v
	case "crc64nvme":
		sum.CRC64NVME = v
	case "sha512":
		sum.SHA512 = v
	case "md5":
		sum.MD5 = v
	case "xxhash64":
		sum.XXHASH64 = v
	case "xxhash3":
		sum.XXHASH3 = v
	case "xxhash128":
		sum.XXHASH128 = v
	}
	return sum
}

// ptr gives nil for "".
func ptr(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// str gives "" for nil.
func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
