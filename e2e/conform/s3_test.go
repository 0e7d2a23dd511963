package conform

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/spokefs/spokefs/e2e/harness"
	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
)

// s3Hub is a hub process that serves S3: the gateway has globals, so each gets a process.
type s3Hub struct {
	endpoint string
	key      system.Key
	admin    *admin.Client
}

func startS3(t *testing.T) *s3Hub {
	t.Helper()
	w := harness.Open(t, harness.Spec{S3: true, BucketsIn: "main"})
	return &s3Hub{endpoint: w.Hub.Endpoint("s3"), key: w.Key, admin: w.Hub.Admin}
}

func (h *s3Hub) client() *s3.Client { return harness.S3(h.endpoint, h.key.Access, h.key.Secret) }

func put(t *testing.T, c *s3.Client, key string, data []byte) string {
	t.Helper()
	out, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("main"), Key: &key, Body: bytes.NewReader(data)})
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return aws.ToString(out.ETag)
}

func get(t *testing.T, c *s3.Client, key, span string) []byte {
	t.Helper()
	in := &s3.GetObjectInput{Bucket: aws.String("main"), Key: &key}
	if span != "" {
		in.Range = &span
	}
	out, err := c.GetObject(t.Context(), in)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	defer out.Body.Close()
	p, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return p
}

func TestS3(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	h := startS3(t)
	c := h.client()
	bucket := aws.String("main")

	t.Run("objects", func(t *testing.T) {
		big := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
		put(t, c, "dir/big", big)
		put(t, c, "dir/small", []byte("small"))
		if !bytes.Equal(get(t, c, "dir/big", ""), big) || string(get(t, c, "dir/small", "")) != "small" {
			t.Error("other bytes come back")
		}
		if got := get(t, c, "dir/big", "bytes=100000-100099"); !bytes.Equal(got, big[100000:100100]) {
			t.Errorf("a range has %d other bytes", len(got))
		}
		var seen bytes.Buffer
		if err := h.admin.Read(t.Context(), "main", "/dir/big", &seen); err != nil || !bytes.Equal(seen.Bytes(), big) {
			t.Errorf("the file has other bytes: %v", err)
		}
		if _, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("dir/small")}); err != nil {
			t.Error(err)
		}
		var missing *types.NoSuchKey
		if _, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: aws.String("dir/small")}); !errors.As(err, &missing) {
			t.Errorf("a deleted object: %v", err)
		}
	})
	t.Run("tag follows content", func(t *testing.T) {
		first := put(t, c, "tag", []byte("one"))
		if err := h.admin.Write(t.Context(), "main", "/tag", strings.NewReader("two")); err != nil {
			t.Fatal(err)
		}
		head, err := c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("tag")})
		if err != nil || aws.ToString(head.ETag) == first || !strings.HasPrefix(aws.ToString(head.ETag), `"v-`) {
			t.Errorf("after a write by another protocol the tag is %s, was %s, %v", aws.ToString(head.ETag), first, err)
		}
	})
	t.Run("one winner", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for range 16 {
			wg.Go(func() {
				_, err := c.PutObject(context.Background(), &s3.PutObjectInput{Bucket: bucket, Key: aws.String("once"), Body: strings.NewReader("x"), IfNoneMatch: aws.String("*")})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("%d of 16 conditional puts won", won)
		}
	})
	t.Run("multipart", func(t *testing.T) { multipart(t, c) })
	t.Run("listing", func(t *testing.T) { pages(t, c) })
	t.Run("keys", func(t *testing.T) {
		for _, key := range []string{"../x", "a/../b", "a//b", "./a", strings.Repeat("n", 256), ".spokefs/uploads/x"} {
			if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader("x")}); err == nil {
				t.Errorf("key %q was taken", key)
			}
		}
		put(t, c, "k", []byte("x"))
		if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: aws.String("k/below"), Body: strings.NewReader("x")}); err == nil {
			t.Error("an object is below an object")
		}
	})
}

func multipart(t *testing.T, c *s3.Client) {
	bucket, key := aws.String("main"), aws.String("parts")
	up, err := c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	parts := make([]types.CompletedPart, 3)
	for _, n := range []int32{3, 1, 2} {
		size := 5 << 20
		if n == 3 {
			size = 12345
		}
		p := bytes.Repeat([]byte{byte(n), 7, 9}, size/3+1)[:size]
		out, err := c.UploadPart(t.Context(), &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: up.UploadId, PartNumber: aws.Int32(n), Body: bytes.NewReader(p)})
		if err != nil {
			t.Fatal(err)
		}
		parts[n-1] = types.CompletedPart{PartNumber: aws.Int32(n), ETag: out.ETag}
	}
	for n := 1; n <= 3; n++ {
		size := 5 << 20
		if n == 3 {
			size = 12345
		}
		want = append(want, bytes.Repeat([]byte{byte(n), 7, 9}, size/3+1)[:size]...)
	}
	complete := func(p []types.CompletedPart) error {
		_, err := c.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: key, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: p}})
		return err
	}
	swapped := slices.Clone(parts)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	if complete(swapped) == nil {
		t.Error("parts out of order were taken")
	}
	for range 2 { // the second time answers from the object
		if err := complete(parts); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, c, "parts", ""); !bytes.Equal(got, want) {
		t.Errorf("%d other bytes, want %d", len(got), len(want))
	}
}

// pages holds every page size and delimiter against what the listing must be.
func pages(t *testing.T, c *s3.Client) {
	keys := []string{"p/a", "p/a-b", "p/a/x", "p/a/y/z", "p/a0", "p/b-/q", "p/b/1", "p/b/2", "p/c", "p/c.d", "p/c/e"}
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == "p/a" || k == "p/c" }) // "a" and "a/x" exclude each other
	for _, k := range keys {
		put(t, c, k, []byte(k))
	}
	slices.Sort(keys)
	for _, delimiter := range []string{"", "/", "-"} {
		var want []string
		for _, k := range keys {
			if i := strings.Index(k[2:], delimiter); delimiter != "" && i >= 0 {
				k = k[:2+i+len(delimiter)]
			}
			if !slices.Contains(want, k) {
				want = append(want, k)
			}
		}
		for size := int32(1); size <= 4; size++ {
			var got []string
			in := &s3.ListObjectsV2Input{Bucket: aws.String("main"), Prefix: aws.String("p/"), MaxKeys: &size}
			if delimiter != "" {
				in.Delimiter = &delimiter
			}
			for {
				out, err := c.ListObjectsV2(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				var page []string
				for _, o := range out.Contents {
					page = append(page, aws.ToString(o.Key))
				}
				for _, p := range out.CommonPrefixes {
					page = append(page, aws.ToString(p.Prefix))
				}
				slices.Sort(page)
				if got = append(got, page...); !aws.ToBool(out.IsTruncated) {
					break
				}
				in.ContinuationToken = out.NextContinuationToken
			}
			if !slices.Equal(got, want) {
				t.Errorf("delimiter %q, pages of %d: %q, want %q", delimiter, size, got, want)
			}
		}
	}
}

// minVersitygw is how many cases of versitygw's suite pass at the least. It may only rise; what
// does not pass is in docs/protocols/s3.md.
const minVersitygw = 487

func TestVersitygw(t *testing.T) {
	if testing.Short() {
		t.Skip("an outside suite of 700 cases")
	}
	bin := os.Getenv("SPOKEFS_VERSITYGW")
	if bin == "" {
		harness.Lacking(t, errors.New("SPOKEFS_VERSITYGW does not name versitygw; e2e/tools.sh builds it"))
	}
	h := startS3(t)
	cmd := exec.CommandContext(t.Context(), bin, "test", "-a", h.key.Access, "-s", h.key.Secret, "-e", h.endpoint, "full-flow", "--parallel")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "AWS_CA_BUNDLE=") })
	out, _ := cmd.CombinedOutput() // it fails if one case does
	m := regexp.MustCompile(`PASS: (\d+) FAIL: (\d+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no count in its output:\n%s", out[max(0, len(out)-2000):])
	}
	passed, _ := strconv.Atoi(string(m[1]))
	t.Logf("versitygw: %s pass, %s fail", m[1], m[2])
	if passed < minVersitygw {
		t.Errorf("%d cases pass, %d did before", passed, minVersitygw)
	}
}
