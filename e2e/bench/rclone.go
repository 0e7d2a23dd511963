package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// rclone measures rclone mount as F2 and F4 measure us: a full cache on the same disk, over a versitygw
// of the same files. Its listings are trusted for ever, which makes it fast and stale. Small files are
// those that cross the link for F6, since it takes long to fill.
func (w *near) rclone(ctx context.Context) (err error) {
	program, lookErr := exec.LookPath("rclone")
	gateway := os.Getenv("SPOKEFS_VERSITYGW")
	if !w.cfg.Peers || lookErr != nil || gateway == "" {
		return nil
	}
	w.say("rclone mount")
	port, err := w.port(7072)
	if err != nil {
		return err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	side, dir, cache := filepath.Join(w.dir, "sidecar2"), filepath.Join(w.dir, "rclone-mnt"), filepath.Join(w.dir, "rclone")
	for _, d := range []string{side, dir, cache} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	gw, err := w.peer(ctx, "versitygw2", nil, addr, gateway, "--port", addr, "--access", peerCred, "--secret", peerCred,
		"--region", "us-east-1", "--quiet", "posix", "--sidecar", side, filepath.Dir(w.bench.local))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gw.kill()) }()
	n, out, err := launch(w.dir, "rclone-mount", w.home, []string{"AWS_CA_BUNDLE="}, program, "mount", ":s3:local", dir,
		"--config", "/dev/null", "--s3-provider", "Other", "--s3-endpoint", "http://"+addr, "--s3-region", "us-east-1",
		"--s3-access-key-id", peerCred, "--s3-secret-access-key", peerCred, "--read-only",
		"--vfs-cache-mode", "full", "--cache-dir", cache, "--vfs-cache-max-size", "100G", "--vfs-cache-max-age", "1000h",
		"--dir-cache-time", "1000h", "--use-server-modtime", "--vfs-fast-fingerprint", "--attr-timeout", "10s")
	if err != nil {
		return err
	}
	go func() {
		for out.Scan() {
		}
		n.done <- n.cmd.Wait()
	}()
	defer func() {
		unix.Unmount(dir, unix.MNT_DETACH)
		err = errors.Join(err, n.kill())
	}()
	if err := n.appears(ctx, filepath.Join(dir, "train")); err != nil {
		return err
	}
	return w.rcloneReads(ctx, mounted{dir, 1 << 20, cache})
}

func (w *near) rcloneReads(ctx context.Context, m mounted) error {
	for _, x := range []struct {
		files   []*file
		workers int
		rate    func(pass) float64
		to      *float64
		what    string
	}{
		{refs(w.data.shards)[:1], 1, pass.mb, &w.rcloneMB, "rclone mount, one shard, warm, pages dropped, MB/s"},
		{refs(w.data.small[:len(w.data.small)/4]), 8, pass.rate, &w.rcloneFiles, "rclone mount, a quarter of the small files, 8 readers, warm, pages dropped, files/s"},
	} {
		if _, err := readAll(ctx, m, x.files, x.workers); err != nil { // fills
			return fmt.Errorf("rclone mount: %w", err)
		}
		var got []float64
		for round := range rounds {
			if err := forget(m, x.files); err != nil {
				return err
			}
			p, err := readAll(ctx, m, shuffledIf(x.files, x.workers > 1, uint64(round)), x.workers)
			if err != nil {
				return fmt.Errorf("rclone mount: %w", err)
			}
			got = append(got, x.rate(p))
		}
		*x.to = median(got)
		w.reads.add(x.what, "", number(*x.to), "")
	}
	return nil
}

// appears waits until a name is there, or the process has ended.
func (n *process) appears(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, err := os.Stat(name); err == nil {
			return nil
		}
		select {
		case e := <-n.done:
			n.done <- e
			return errors.Join(fmt.Errorf("%s ended: %w", n.name, e), n.tail())
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %w", n.name, ctx.Err()), n.tail())
		}
	}
}

// kill ends a server that is compared with, whatever it thinks of it.
func (n *process) kill() error {
	n.cmd.Process.Kill()
	<-n.done
	return nil
}
