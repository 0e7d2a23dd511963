package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// creates is F10: empty files that are durable when they are answered.
func (b *bench) creates(ctx context.Context) error {
	b.say("creates")
	t := &table{title: "Creates of empty files, durable when answered", heads: []string{"what", "files/s"}}
	b.report.tables = append(b.report.tables, t)
	t.add(fmt.Sprintf("below the front ends, %d callers", makers), number(b.made))
	for _, x := range []struct{ name, dir string }{
		{fmt.Sprintf("FUSE at the hub, %d callers", writers), b.mount(b.hub)},
		{fmt.Sprintf("the local file system, each with fsync of file and folder, %d callers", writers), b.local},
	} {
		dir := filepath.Join(x.dir, "made")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		sync := x.dir == b.local
		rate, err := perSecondOf(ctx, b.cfg.Least, writers, func(_ context.Context, i int) error {
			return create(filepath.Join(dir, fmt.Sprint("f", i)), sync)
		})
		if err != nil {
			return err
		}
		t.add(x.name, number(rate))
	}
	b.report.figure(figure{id: "F10", what: "creates per second, one group, durable", note: "voters=1", conditions: []condition{
		{what: fmt.Sprintf("one voter, below the front ends, %d callers", makers), value: b.made, unit: "creates/s", target: 8000},
		{what: "against JuiceFS on its fastest durable engine", unit: "ratio", target: 2, peer: true, absent: noPeer},
	}})
	return nil
}

// create makes an empty file; sync makes it durable where the answer alone does not.
func create(name string, sync bool) error {
	fd, err := again(func() (int, error) {
		return unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	defer unix.Close(fd)
	if !sync {
		return nil
	}
	if err := unix.Fsync(fd); err != nil {
		return err
	}
	dir, err := open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Fsync(dir)
}
