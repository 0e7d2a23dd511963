package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokefs/spokefs/cmd/spokefs/node"
	"github.com/spokefs/spokefs/fabric"
)

// inProcess measures below the front ends, on a hub and a spoke in this process: F1's allocations and
// F10.
func (b *bench) inProcess(ctx context.Context) (err error) {
	b.say("below the front ends")
	dir := filepath.Join(b.dir, "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	site, err := node.Local(ctx, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close(ctx), os.RemoveAll(dir)) }()
	p, err := site.Portals.Portal("main")
	if err != nil {
		return err
	}
	fs := p.As(fabric.Root())
	if b.allocs, err = allocations(ctx, fs); err != nil {
		return err
	}
	b.made, err = b.makes(ctx, fs)
	return err
}

// allocations counts those of one look and one read of 128 KiB of a file that is held and cached.
func allocations(ctx context.Context, fs fabric.FS) (n float64, err error) {
	a, _, err := fs.Make(ctx, fs.Root(), "warm", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644})
	if err != nil {
		return 0, err
	}
	f, err := fs.Open(ctx, a.Ino, fabric.OpenRead|fabric.OpenWrite)
	if err != nil {
		return 0, err
	}
	p := make([]byte, 1<<20)
	noise(p, 1)
	if _, _, err := f.WriteAt(ctx, p, 0); err != nil {
		return 0, err
	}
	if err := errors.Join(f.Sync(ctx), f.Close(ctx)); err != nil {
		return 0, err
	}
	if f, err = fs.Open(ctx, a.Ino, fabric.OpenRead); err != nil {
		return 0, err
	}
	off := int64(0)
	n = testing.AllocsPerRun(1000, func() {
		_, e1 := fs.Lookup(ctx, fs.Root(), "warm")
		_, e2 := fs.Stat(ctx, a.Ino)
		_, e3 := f.ReadAt(ctx, p[:128<<10], off%(1<<20))
		off += 128 << 10
		err = errors.Join(err, e1, e2, e3)
	})
	return n, errors.Join(err, f.Close(ctx))
}

// makers is how many create at once.
const makers = 64

// makes counts the files that are created in a second, each durable when it is answered.
func (b *bench) makes(ctx context.Context, fs fabric.FS) (perSecond float64, err error) {
	var dirs [16]fabric.Ino
	for i := range dirs {
		a, _, err := fs.Make(ctx, fs.Root(), fmt.Sprint("d", i), fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
		if err != nil {
			return 0, err
		}
		dirs[i] = a.Ino
	}
	return perSecondOf(ctx, b.cfg.Least, makers, func(ctx context.Context, i int) error {
		_, _, err := fs.Make(ctx, dirs[i%len(dirs)], fmt.Sprint("f", i), fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644})
		return err
	})
}

// perSecondOf calls f by several workers for a time and gives how often a second.
func perSecondOf(ctx context.Context, least time.Duration, workers int, f func(ctx context.Context, i int) error) (float64, error) {
	const most = 1 << 30
	began := time.Now()
	var done atomic.Int64
	err := each(ctx, workers, most, func(ctx context.Context, _, i int) error {
		if time.Since(began) > least {
			return errEnough
		}
		err := f(ctx, i)
		done.Add(1)
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return float64(done.Load()) / time.Since(began).Seconds(), err
}

var errEnough = errors.New("enough")
