package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/storagetest"
)

// minio starts a real server on loopback; the test is skipped where there is none, and fails where
// there must be one.
func minio(t *testing.T) Config {
	t.Helper()
	bin := os.Getenv("SPOKEFS_MINIO")
	if bin == "" {
		if os.Getenv("SPOKEFS_REQUIRE_MINIO") == "1" {
			t.Fatal("SPOKEFS_MINIO does not name minio")
		}
		t.Skip("SPOKEFS_MINIO does not name minio; e2e/tools.sh builds it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(bin, "server", "--quiet", "--address", addr, "--console-address", "127.0.0.1:0", t.TempDir())
	cmd.Env = append(os.Environ(), "MINIO_ROOT_USER=testadmin", "MINIO_ROOT_PASSWORD=testsecret", "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	for {
		resp, err := http.Get("http://" + addr + "/minio/health/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("minio did not become ready")
		}
	}
	return Config{Endpoint: "http://" + addr, AccessKey: "testadmin", Secret: "testsecret"}
}

func TestBucketOnMinIO(t *testing.T) {
	cfg := minio(t)
	n := 0
	storagetest.Bucket(t, func(t *testing.T) storage.Bucket {
		n++
		cfg := cfg
		cfg.Bucket, cfg.Prefix = fmt.Sprint("bucket-", n), "some/prefix"
		b, err := New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &cfg.Bucket}); err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// A server that answers badly gives an error that says where, and what kind it is.
func TestBadAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"503":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, storage.ErrUnavailable},
		"denied":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, storage.ErrDenied},
		"missing": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, storage.ErrNotExist},
		"truncated": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("short"))
		}, storage.ErrUnavailable},
		"too short": {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("short")) }, storage.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				c.answer(w, r)
			}))
			defer srv.Close()
			b, err := New(context.Background(), Config{Endpoint: srv.URL, Bucket: "b", AccessKey: "k", Secret: "s", Attempts: 2})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Get(t.Context(), "key", 0, make([]byte, 100)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if calls.Load() > 2 {
				t.Errorf("%d requests, 2 are the most", calls.Load())
			}
		})
	}
}
