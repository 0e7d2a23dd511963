// Package s3 is a storage.Bucket on any server that speaks S3: MinIO, AWS, others. A key is
// written once, by a conditional put; an answer that leaves the outcome open is followed by the
// same put again, and a key that is taken by a look at what is there (A40).
//
// No goroutines of its own; calls may overlap.
package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/spokefs/spokefs/storage"
)

// Config of a Bucket.
type Config struct {
	// Endpoint is the server's URL; empty: AWS.
	Endpoint string
	// Bucket is the bucket's name; it must exist.
	Bucket string
	// Prefix is put before every key, with a '/' between; may be empty.
	Prefix string
	// Region defaults to "us-east-1".
	Region string
	// AccessKey and Secret; empty: as the AWS SDK finds them.
	AccessKey, Secret string
	// Attempts bounds how often a request is made. Default 4.
	Attempts int
	// Timeout bounds one attempt. Default 60 s: 16 MiB at 300 kB/s.
	Timeout time.Duration
}

// Bucket implements storage.Bucket.
type Bucket struct {
	cfg    Config
	client *s3.Client
}

// New returns the bucket. It makes no request.
func New(ctx context.Context, cfg Config) (*Bucket, error) {
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if cfg.Attempts == 0 {
		cfg.Attempts = 4
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 60 * time.Second
	}
	if cfg.Prefix = strings.Trim(cfg.Prefix, "/"); cfg.Prefix != "" {
		cfg.Prefix += "/"
	}
	// The SDK's own kind of client, so that it can add the certificates of AWS_CA_BUNDLE.
	web := awshttp.NewBuildableClient().WithTimeout(cfg.Timeout).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 64, 128
		t.ReadBufferSize, t.WriteBufferSize = 256<<10, 256<<10
	})
	opts := []func(*config.LoadOptions) error{config.WithRegion(cfg.Region), config.WithHTTPClient(web)}
	if cfg.AccessKey != "" {
		opts = append(opts, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(cfg.AccessKey, cfg.Secret, "")))
	}
	ac, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	client := s3.NewFromConfig(ac, func(o *s3.Options) {
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(cfg.Endpoint)
			o.UsePathStyle = true
		}
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts = cfg.Attempts })
	})
	return &Bucket{cfg: cfg, client: client}, nil
}

// told says what failed, where, and maps it once.
func (b *Bucket) told(op, key string, err error) error {
	if err == nil {
		return nil
	}
	kind := storage.ErrUnavailable
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) {
		switch code := resp.HTTPStatusCode(); {
		case code == http.StatusNotFound:
			kind = storage.ErrNotExist
		case code == http.StatusPreconditionFailed:
			kind = storage.ErrExist
		case code == http.StatusForbidden || code == http.StatusUnauthorized:
			kind = storage.ErrDenied
		case code == http.StatusInsufficientStorage:
			kind = storage.ErrNoSpace
		case code == http.StatusRequestedRangeNotSatisfiable:
			kind = storage.ErrCorrupt
		case code == http.StatusBadRequest:
			kind = storage.ErrInvalid
		}
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("s3: %s %s/%s%s: %w: %w", op, b.cfg.Bucket, b.cfg.Prefix, key, kind, err)
}

func (b *Bucket) key(key string) (*string, error) {
	if key == "" || len(key) > storage.MaxKeyLen {
		return nil, fmt.Errorf("s3: key %q: %w", key, storage.ErrInvalid)
	}
	return aws.String(b.cfg.Prefix + key), nil
}

// Put implements storage.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body []byte) error {
	k, err := b.key(key)
	if err != nil {
		return err
	}
	_, err = b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.cfg.Bucket, Key: k, Body: bytes.NewReader(body), IfNoneMatch: aws.String("*"),
		ContentLength: aws.Int64(int64(len(body))),
	})
	if err = b.told("put", key, err); errors.Is(err, storage.ErrExist) {
		return b.compare(ctx, key, body, err)
	}
	return err
}

// compare lets a put whose answer was lost succeed: what is there must be the same bytes.
func (b *Bucket) compare(ctx context.Context, key string, body []byte, taken error) error {
	k, _ := b.key(key)
	head, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.cfg.Bucket, Key: k})
	if err != nil {
		return b.told("look at", key, err)
	}
	sum := md5.Sum(body)
	if aws.ToInt64(head.ContentLength) == int64(len(body)) && strings.Trim(aws.ToString(head.ETag), `"`) == hex.EncodeToString(sum[:]) {
		return nil
	}
	if aws.ToInt64(head.ContentLength) == int64(len(body)) { // an ETag need not be an MD5
		there := make([]byte, len(body))
		if err := b.Get(ctx, key, 0, there); err != nil || bytes.Equal(there, body) {
			return err
		}
	}
	return taken
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, off int64, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	k, err := b.key(key)
	if err != nil {
		return err
	}
	got, err := b.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &b.cfg.Bucket, Key: k, Range: aws.String(fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1)),
	})
	if err != nil {
		return b.told("get", key, err)
	}
	defer got.Body.Close()
	if n := aws.ToInt64(got.ContentLength); n < int64(len(p)) {
		return fmt.Errorf("s3: get %s/%s%s: %d bytes at %d, want %d: %w", b.cfg.Bucket, b.cfg.Prefix, key, n, off, len(p), storage.ErrCorrupt)
	}
	if _, err := io.ReadFull(got.Body, p); err != nil {
		return b.told("read", key, err)
	}
	return nil
}

// Size implements storage.Bucket.
func (b *Bucket) Size(ctx context.Context, key string) (int64, error) {
	k, err := b.key(key)
	if err != nil {
		return 0, err
	}
	head, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.cfg.Bucket, Key: k})
	if err != nil {
		return 0, b.told("look at", key, err)
	}
	return aws.ToInt64(head.ContentLength), nil
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	k, err := b.key(key)
	if err != nil {
		return err
	}
	_, err = b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.cfg.Bucket, Key: k})
	if err = b.told("delete", key, err); errors.Is(err, storage.ErrNotExist) {
		return nil
	}
	return err
}

// List implements storage.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &b.cfg.Bucket, Prefix: aws.String(b.cfg.Prefix + prefix)}
		if after != "" {
			in.StartAfter = aws.String(b.cfg.Prefix + after)
		}
		pages := s3.NewListObjectsV2Paginator(b.client, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(storage.Object{}, b.told("list", prefix, err))
				return
			}
			for _, o := range page.Contents {
				key := strings.TrimPrefix(aws.ToString(o.Key), b.cfg.Prefix)
				if !yield(storage.Object{Key: key, Size: aws.ToInt64(o.Size)}, nil) {
					return
				}
			}
		}
	}
}
