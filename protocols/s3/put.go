package s3

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/spokefs/spokefs/fabric"
)

// copyBuf is how much of a body is written at once.
const copyBuf = 1 << 20

var buffers = sync.Pool{New: func() any { p := make([]byte, copyBuf); return &p }}

// PutObject implements backend.Backend.
func (s *store) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	var none s3response.PutObjectOutput
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return none, err
	}
	p, err := parseKey(str(in.Key))
	if err != nil {
		return none, err
	}
	m := meta{
		Type: str(in.ContentType), Encoding: str(in.ContentEncoding), Disposition: str(in.ContentDisposition),
		Language: str(in.ContentLanguage), Cache: str(in.CacheControl), Expires: str(in.Expires),
		Redirect: str(in.WebsiteRedirectLocation), User: in.Metadata,
	}
	if m.Tags, err = backend.ParseObjectTags(str(in.Tagging)); err != nil {
		return none, err
	}
	cond, err := v.condition(ctx, p, in.IfMatch, in.IfNoneMatch)
	if err != nil {
		return none, err
	}
	if p.dir {
		return v.putDir(ctx, p, m, in)
	}
	dirs, name := p.parent()
	dir, err := v.dirs(ctx, dirs)
	if err != nil {
		return none, err
	}
	ino, size, c, err := v.store(ctx, dir, in.Body, declared(in))
	if err != nil {
		return none, err
	}
	if err := v.publish(ctx, ino, dir, name, m, c, cond); err != nil {
		return none, err
	}
	sum := c.checksum()
	return s3response.PutObjectOutput{
		ETag: c.ETag, Size: &size, ChecksumType: sum.Type,
		ChecksumCRC32: sum.CRC32, ChecksumCRC32C: sum.CRC32C, ChecksumCRC64NVME: sum.CRC64NVME,
		ChecksumSHA1: sum.SHA1, ChecksumSHA256: sum.SHA256, ChecksumSHA512: sum.SHA512, ChecksumMD5: sum.MD5,
		ChecksumXXHASH64: sum.XXHASH64, ChecksumXXHASH3: sum.XXHASH3, ChecksumXXHASH128: sum.XXHASH128,
	}, nil
}

// putDir makes the directory that a key "d/" is.
func (v *view) putDir(ctx context.Context, p path, m meta, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	var none s3response.PutObjectOutput
	if in.ContentLength != nil && *in.ContentLength != 0 {
		return none, s3err.GetAPIError(s3err.ErrDirectoryObjectContainsData)
	}
	dir, err := v.dirs(ctx, p.segments)
	if err != nil {
		return none, err
	}
	if err := v.SetXattr(ctx, dir, dirXattr, []byte(markKey), fabric.XattrAny); err != nil {
		return none, failed(err)
	}
	return s3response.PutObjectOutput{ETag: emptyETag}, v.save(ctx, dir, metaXattr, m)
}

// condition turns If-Match and If-None-Match into one that is evaluated with the change (O2).
func (v *view) condition(ctx context.Context, p path, ifMatch, ifNoneMatch *string) (fabric.Cond, error) {
	if ifMatch == nil && ifNoneMatch == nil {
		return fabric.Cond{}, nil
	}
	attrs, err := v.Walk(ctx, v.Root(), p.segments)
	exists := err == nil
	if err != nil && !errors.Is(err, fabric.NotExist) {
		return fabric.Cond{}, failed(err)
	}
	var etag string
	var a fabric.Attr
	if exists {
		a = attrs[len(attrs)-1]
		c, err := v.describe(ctx, &a)
		if err != nil {
			return fabric.Cond{}, err
		}
		etag = c.ETag
	}
	if ifMatch != nil {
		trimmed := strings.Trim(*ifMatch, `"`)
		ifMatch = &trimmed
	}
	if err := backend.EvaluateObjectPutPreconditions(etag, ifMatch, ifNoneMatch, exists); err != nil {
		return fabric.Cond{}, err
	}
	if ifNoneMatch != nil {
		return fabric.Cond{Absent: true}, nil
	}
	return fabric.Cond{Ino: a.Ino, Iver: a.Iver}, nil
}

// sum is a checksum that a client declared, or the default.
type sum struct {
	by    string // algorithm, lower case
	value string // "" if it comes with the body or was not said
}

// declared finds which checksum a PUT brings.
func declared(in s3response.PutObjectInput) sum {
	return firstSum([]sum{
		{"crc32", str(in.ChecksumCRC32)}, {"crc32c", str(in.ChecksumCRC32C)}, {"sha1", str(in.ChecksumSHA1)},
		{"sha256", str(in.ChecksumSHA256)}, {"crc64nvme", str(in.ChecksumCRC64NVME)}, {"sha512", str(in.ChecksumSHA512)},
		{"md5", str(in.ChecksumMD5)}, {"xxhash64", str(in.ChecksumXXHASH64)}, {"xxhash3", str(in.ChecksumXXHASH3)},
		{"xxhash128", str(in.ChecksumXXHASH128)},
	}, in.ChecksumAlgorithm)
}

func firstSum(said []sum, algorithm types.ChecksumAlgorithm) sum {
	for _, s := range said {
		if s.value != "" {
			return s
		}
	}
	if algorithm != "" {
		return sum{by: strings.ToLower(string(algorithm))}
	}
	return sum{by: "crc64nvme"}
}

// store writes a body into a new file without a name, synced, for publish or discard.
func (v *view) store(ctx context.Context, dir fabric.Ino, r io.Reader, want sum) (fabric.Ino, int64, content, error) {
	var c content
	a, _, err := v.Make(ctx, dir, "", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644})
	if err != nil {
		return 0, 0, c, failed(err)
	}
	f, err := v.Open(ctx, a.Ino, fabric.OpenWrite|fabric.OpenOwner)
	if err != nil {
		v.discard(ctx, a.Ino)
		return 0, 0, c, failed(err)
	}
	size, c, err := fill(ctx, f, r, want)
	if err == nil {
		err = failed(f.Sync(ctx))
	}
	if e := failed(f.Close(context.WithoutCancel(ctx))); err == nil {
		err = e
	}
	if err != nil {
		v.discard(ctx, a.Ino)
	}
	return a.Ino, size, c, err // as it is: the gateway knows its own errors by their type
}

// fill copies a body into a file and computes what describes it. The gateway's readers check
// signatures and declared checksums, and fail at the end if they do not match.
func fill(ctx context.Context, f fabric.File, r io.Reader, want sum) (int64, content, error) {
	if r == nil {
		r = strings.NewReader("")
	}
	trailer, _ := r.(middlewares.ChecksumReader)
	if trailer != nil && trailer.Algorithm() == "" {
		trailer = nil
	}
	digest := md5.New()
	body := io.TeeReader(r, digest)
	var hashed *utils.HashReader
	if trailer == nil {
		var err error
		if hashed, err = utils.NewHashReader(body, want.value, utils.HashType(want.by)); err != nil {
			return 0, content{}, s3err.GetAPIError(s3err.ErrInvalidChecksumAlgorithm)
		}
		body = hashed
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	var size int64
	for {
		n, err := fillBuffer(body, *buf)
		if n > 0 {
			if _, _, werr := f.WriteAt(ctx, (*buf)[:n], size); werr != nil {
				return size, content{}, failed(werr)
			}
			size += int64(n)
		}
		if err == io.EOF { // a body that was cut off says so by another error
			break
		}
		if err != nil {
			var mine s3err.S3Error
			if errors.As(err, &mine) {
				return size, content{}, err
			}
			return size, content{}, s3err.GetAPIError(s3err.ErrIncompleteBody)
		}
	}
	c := content{ETag: `"` + hex.EncodeToString(digest.Sum(nil)) + `"`, Kind: types.ChecksumTypeFullObject}
	if trailer != nil {
		c.By, c.Sum = strings.ToLower(trailer.Algorithm()), trailer.Checksum()
	} else {
		c.By, c.Sum = want.by, hashed.Sum()
	}
	return size, c, nil
}

// fillBuffer reads until p is full or the body ends. Unlike io.ReadFull it passes the body's error on
// as it is: ErrUnexpectedEOF is a body that was cut off, and not its end.
func fillBuffer(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = r.Read(p[n:])
		n += k
	}
	return n, err
}

// discard drops a file without a name, also when its client is gone. What fails here is dropped with
// the session.
func (v *view) discard(ctx context.Context, ino fabric.Ino) {
	v.Discard(context.WithoutCancel(ctx), ino)
}

// publish describes a file without a name and binds it to its name in one step, or discards it.
func (v *view) publish(ctx context.Context, ino, dir fabric.Ino, name string, m meta, c content, cond fabric.Cond) error {
	err := v.bind(ctx, ino, dir, name, m, c, cond)
	if err != nil {
		v.discard(ctx, ino)
	}
	return err
}

func (v *view) bind(ctx context.Context, ino, dir fabric.Ino, name string, m meta, c content, cond fabric.Cond) error {
	if err := v.save(ctx, ino, fabric.ContentXattr, c); err != nil {
		return err
	}
	if err := v.save(ctx, ino, metaXattr, m); err != nil {
		return err
	}
	_, _, err := v.Replace(ctx, ino, dir, name, cond)
	if errors.Is(err, fabric.Precondition) && cond.Absent {
		return s3err.GetPreconditionFailedErr(s3err.ConditionIfNoneMatch)
	}
	return failed(err)
}
