package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/disk"
	"github.com/spokefs/spokefs/storage/folder"
	"github.com/spokefs/spokefs/storage/s3"
)

// boot is CLOCK_BOOTTIME: it goes on while the machine sleeps, as other machines do (1.2).
func boot() fabric.Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("node: CLOCK_BOOTTIME: %v", err)) // Linux has it
	}
	return fabric.Instant(ts.Nano())
}

// claim opens a node's data folder for this process alone (D60), if it is fit to be one.
func claim(path string, log *slog.Logger) (disk.Dir, func() error, error) {
	dir, err := disk.OS(path)
	if err == nil {
		err = checkFolder(path, log)
	}
	if err != nil {
		return nil, nil, err
	}
	lock, err := dir.Lock("LOCK")
	if errors.Is(err, disk.ErrLocked) {
		return nil, nil, fmt.Errorf("%s is in use by another spokefs process", path)
	}
	if err != nil {
		return nil, nil, err
	}
	return dir, lock.Close, nil
}

// openBucket opens the bucket of a hub.
func openBucket(ctx context.Context, c BucketConfig) (storage.Bucket, error) {
	if c.Kind == "folder" {
		dir, err := disk.OS(c.Path)
		if err != nil {
			return nil, err
		}
		return folder.New(dir)
	}
	cfg := s3.Config{Endpoint: c.Endpoint, Bucket: c.Bucket, Prefix: c.Prefix, Region: c.Region}
	if c.Credentials != "" {
		p, err := os.ReadFile(c.Credentials)
		if err != nil {
			return nil, err
		}
		lines := strings.Fields(string(p))
		if len(lines) != 2 {
			return nil, fmt.Errorf("%s: want the access key and the secret, a line each", c.Credentials)
		}
		cfg.AccessKey, cfg.Secret = lines[0], lines[1]
	}
	return s3.New(ctx, cfg)
}
