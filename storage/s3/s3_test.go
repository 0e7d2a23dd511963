package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/spokefs/spokefs/e2e/harness"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/storagetest"
)

func TestBucketOnMinIO(t *testing.T) {
	m := harness.OpenMinIO(t)
	cfg := Config{Endpoint: m.Endpoint, AccessKey: m.Access, Secret: m.Secret}
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
