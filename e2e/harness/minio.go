package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// MinIO is a real S3 server on loopback, with a folder of its own. It can be killed and started
// again: address and content stay.
type MinIO struct {
	Process
	Endpoint       string // URL
	Access, Secret string
	Bucket         string // made at the start
}

// minioVar names the setting that says where minio is.
const minioVar = "SPOKEFS_MINIO"

// OpenMinIO starts a server for a test, which is skipped where there is none; it ends with the test.
func OpenMinIO(t TB) *MinIO {
	t.Helper()
	bin := os.Getenv(minioVar)
	if bin == "" {
		Lacking(t, errors.New(minioVar+" does not name minio; e2e/tools.sh builds it"))
	}
	dir, err := os.MkdirTemp("", "spokefs-minio-")
	if err != nil {
		t.Fatal(err)
	}
	var m *MinIO
	t.Cleanup(func() {
		if m != nil {
			m.Stop() // how it ends is not ours to judge
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	// It cannot be asked to take a free port and tell: another process may be faster.
	for range 3 {
		if m, err = newMinIO(bin, dir); err == nil {
			err = m.Start(t.Context())
		}
		if err == nil || t.Context().Err() != nil {
			break
		}
	}
	if err == nil {
		_, err = m.Client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &m.Bucket})
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newMinIO(bin, dir string) (*MinIO, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	m := &MinIO{Endpoint: "http://" + addr, Access: "testadmin", Secret: "testsecret", Bucket: "packs"}
	m.Process = Process{
		name: "minio", log: filepath.Join(dir, "log"),
		args: []string{bin, "server", "--quiet", "--address", addr, "--console-address", "127.0.0.1:0", filepath.Join(dir, "data")},
		env:  []string{"MINIO_ROOT_USER=" + m.Access, "MINIO_ROOT_PASSWORD=" + m.Secret, "MINIO_BROWSER=off", "MINIO_UPDATE=off"},
	}
	return m, nil
}

// Start starts the server and waits until it answers. It fails at once if the server ends.
func (m *MinIO) Start(ctx context.Context) error {
	if err := m.start(func(string) {}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ready := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			if m.healthy(ctx) == nil {
				close(ready)
				return
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-m.ended:
				return
			case <-ctx.Done():
			}
		}
	}()
	return m.await(ctx, ready)
}

// healthy asks the server whether its store is there: "ready" comes before that.
func (m *MinIO) healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Endpoint+"/minio/health/cluster", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("minio: %s", resp.Status)
	}
	return nil
}

// Client is root's.
func (m *MinIO) Client() *s3.Client { return S3(m.Endpoint, m.Access, m.Secret) }
