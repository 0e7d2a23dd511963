package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/spokefs/spokefs/e2e/harness"
	"github.com/spokefs/spokefs/e2e/nfsclient"
)

// protocol carries out operations at one spoke by one protocol. One caller at a time.
type protocol interface {
	do(op harness.FileOp) harness.FileResult
	// can says whether the protocol has such an operation.
	can(kind string) bool
}

// mounted is a FUSE mount of this machine.
type mounted string

func (m mounted) do(op harness.FileOp) harness.FileResult { return op.Do(string(m)) }

func (m mounted) can(string) bool { return true }

// result gives an error the shape of a mount's.
func result(r harness.FileResult, err error) harness.FileResult {
	var missing *types.NoSuchKey
	var taken interface{ ErrorCode() string }
	switch {
	case err == nil:
		return r
	case errors.As(err, &missing), errors.Is(err, os.ErrNotExist):
		r.Errno = syscall.ENOENT
	case errors.As(err, &taken) && taken.ErrorCode() == "PreconditionFailed":
		r.Errno = syscall.EEXIST
	default:
		r.Errno = syscall.EIO
	}
	r.Error = err.Error()
	return r
}

// userNFS is a client of NFS without a cache.
type userNFS struct{ c *nfsclient.Client }

func dialNFS(t *testing.T, n *harness.Node) userNFS {
	t.Helper()
	c, err := nfsclient.Dial(n.Endpoint("nfs"), "/main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return userNFS{c}
}

// can: exclusive creation is not in this client.
func (u userNFS) can(kind string) bool { return kind != harness.Create }

func (u userNFS) do(op harness.FileOp) (r harness.FileResult) {
	p := "/" + op.Path
	switch op.Kind {
	case harness.ReadFile:
		var b bytes.Buffer
		err := u.c.Read(p, &b)
		r.Data = b.Bytes()
		return result(r, err)
	case harness.ReadDir:
		list, err := u.c.List(p)
		for _, e := range list {
			r.Names = append(r.Names, e.Name)
		}
		return result(r, err)
	case harness.Overwrite:
		return result(r, u.c.Write(p, bytes.NewReader(op.Data)))
	case harness.Append:
		return result(r, u.c.Append(p, bytes.NewReader(op.Data)))
	case harness.Truncate:
		return result(r, u.c.Truncate(p, uint64(op.Size)))
	case harness.Rename:
		return result(r, u.c.Rename(p, "/"+op.To))
	case harness.Remove:
		return result(r, u.c.Remove(p))
	}
	return result(r, errors.ErrUnsupported)
}

// objects is a client of S3.
type objects struct {
	ctx context.Context
	c   *s3.Client
}

func dialS3(t *testing.T, w *harness.World, n *harness.Node) objects {
	return objects{t.Context(), harness.S3(n.Endpoint("s3"), w.Key.Access, w.Key.Secret)}
}

// bucket shows the portal of the tests.
var bucket = aws.String("main")

// can: an object is replaced as a whole.
func (o objects) can(kind string) bool { return kind != harness.Append && kind != harness.Truncate }

func (o objects) do(op harness.FileOp) (r harness.FileResult) {
	switch op.Kind {
	case harness.ReadFile:
		got, err := o.c.GetObject(o.ctx, &s3.GetObjectInput{Bucket: bucket, Key: &op.Path})
		if err != nil {
			return result(r, err)
		}
		defer got.Body.Close()
		r.Data, err = io.ReadAll(got.Body)
		return result(r, err)
	case harness.ReadDir:
		return o.list(op.Path + "/")
	case harness.Create:
		_, err := o.c.PutObject(o.ctx, &s3.PutObjectInput{Bucket: bucket, Key: &op.Path, Body: bytes.NewReader(op.Data), IfNoneMatch: aws.String("*")})
		return result(r, err)
	case harness.Overwrite:
		_, err := o.c.PutObject(o.ctx, &s3.PutObjectInput{Bucket: bucket, Key: &op.Path, Body: bytes.NewReader(op.Data)})
		return result(r, err)
	case harness.Rename: // as its clients do
		_, err := o.c.CopyObject(o.ctx, &s3.CopyObjectInput{Bucket: bucket, Key: &op.To, CopySource: aws.String(*bucket + "/" + op.Path)})
		if err != nil {
			return result(r, err)
		}
		_, err = o.c.DeleteObject(o.ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: &op.Path})
		return result(r, err)
	case harness.Remove:
		_, err := o.c.DeleteObject(o.ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: &op.Path})
		return result(r, err)
	}
	return result(r, errors.ErrUnsupported)
}

func (o objects) list(prefix string) (r harness.FileResult) {
	pages := s3.NewListObjectsV2Paginator(o.c, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(o.ctx)
		if err != nil {
			return result(r, err)
		}
		for _, c := range page.Contents {
			r.Names = append(r.Names, strings.TrimPrefix(aws.ToString(c.Key), prefix))
		}
	}
	return r
}
