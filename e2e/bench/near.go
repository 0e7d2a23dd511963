package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
)

// near is what is measured beside the hub: a spoke reached over no link, and the local file system.
type near struct {
	*bench
	n     *process
	local mounted
	fuse  mounted
	fixed mounted // by FUSE, of a read-only portal
	nfs   *nfsReader
	s3    *object
	reads *table

	rcloneMB, rcloneFiles float64 // per second, as for F2 and F4; 0: there is none
}

// nearby measures warm and cold reads through each front end: F1 to F5.
func (b *bench) nearby(ctx context.Context) error {
	n, err := b.spoke(ctx, b.home)
	if err != nil {
		return err
	}
	w := &near{bench: b, n: n, local: mounted{b.local, 1 << 20, ""}, fuse: mounted{b.mount(n), 1 << 20, n.data},
		s3:    newObject(b.home, n.endpoints["s3"], portal, b.key.Access, b.key.Secret),
		reads: &table{title: "Reads at a spoke beside the hub, and of the local file system", heads: []string{"what", "local", "spokefs", "ratio"}}}
	if err := w.readOnly(ctx); err != nil {
		return err
	}
	if w.nfs, err = dialNFS(ctx, b.home, n.endpoints["nfs"], n.endpoints["nfs"], "/"+portal, readers); err != nil {
		return err
	}
	defer w.nfs.close()
	defer w.s3.idle()
	b.report.tables = append(b.report.tables, w.reads)
	for _, step := range []func(context.Context) error{w.cold, w.warm, w.quiet, w.rclone, w.streams, w.pipelines, w.epochs, w.objects} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	w.s3.idle()
	return b.retire(n)
}

// readOnly mounts a portal that nobody writes by, as training data has: the kernel may keep its names.
func (w *near) readOnly(ctx context.Context) error {
	const name = portal + "-ro"
	dir := w.mount(w.n) + "-ro"
	if err := w.hub.admin.SetPortal(ctx, system.Portal{Name: name, Namespace: portal, Path: "/", ReadOnly: true}); err != nil {
		return err
	}
	w.fixed = mounted{dir, 1 << 20, w.n.data}
	for { // the spoke sees new portals in a moment
		err := w.n.admin.Mount(ctx, admin.Mount{Portal: name, Dir: dir})
		if fabric.CodeOf(err) != fabric.NotExist {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readers is how many read at once, but for F4.
const readers = 16

// cold reads each third of the small files, and one shard each, by another front end; what is cold for
// the local file system is what the page cache does not have.
func (w *near) cold(ctx context.Context) error {
	w.say("cold reads")
	small := refs(w.data.small)
	for i, c := range []struct {
		name string
		r    reader
	}{{"FUSE", w.fuse}, {"NFS", w.nfs}, {"S3", w.s3}} {
		part := small[i*len(small)/3 : (i+1)*len(small)/3]
		if err := w.against(ctx, c.name+", small files, cold", c.r, part, readers, pass.rate, "files/s"); err != nil {
			return err
		}
		if i < len(w.data.shards) {
			if err := w.against(ctx, c.name+", one shard, cold", c.r, refs(w.data.shards)[i:i+1], 1, pass.mb, "MB/s"); err != nil {
				return err
			}
		}
	}
	return nil
}

// against reads files once from the local file system, its pages dropped, and once by a front end.
func (w *near) against(ctx context.Context, what string, r reader, files []*file, workers int, rate func(pass) float64, unit string) error {
	if err := forget(w.local, files); err != nil {
		return err
	}
	l, err := readAll(ctx, w.local, files, workers)
	if err != nil {
		return err
	}
	s, err := readAll(ctx, r, files, workers)
	if err != nil {
		return err
	}
	w.row(what, rate(l), rate(s), unit)
	return nil
}

func (w *near) row(what string, local, ours float64, unit string) {
	w.reads.add(fmt.Sprintf("%s, %s", what, unit), number(local), number(ours), number(ours/local))
}

func names(dir string, files []*file) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = mounted{dir: dir}.at(f)
	}
	return out
}

// warm reads everything once, so that all is in the spoke's cache.
func (w *near) warm(ctx context.Context) error {
	_, err := readAll(ctx, w.fuse, w.data.all(), readers)
	return err
}

// forget drops the pages of files in a folder or a mount, and of what the server keeps them in.
func forget(m mounted, files []*file) error {
	if err := drop(names(m.dir, files)); err != nil || m.cache == "" {
		return err
	}
	var cache []string
	err := filepath.WalkDir(m.cache, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a segment that was evicted meanwhile
			return nil
		}
		if err == nil && d.Type().IsRegular() {
			cache = append(cache, name)
		}
		return err
	})
	return errors.Join(err, drop(cache))
}

// rounds is how often things that are compared take turns; the median counts.
const rounds = 3

// compare reads files by the local file system and by a front end in turns.
func (w *near) compare(ctx context.Context, r reader, files []*file, workers int, dropped bool, rate func(pass) float64) (local, ours float64, err error) {
	var got [2][]float64
	for round := range rounds {
		for i, x := range []reader{w.local, r} {
			if dropped {
				if err := forget(x.(mounted), files); err != nil {
					return 0, 0, err
				}
			} else if round == 0 {
				if _, err := readAll(ctx, x, files, workers); err != nil { // makes it hot
					return 0, 0, err
				}
			}
			p, err := readAll(ctx, x, shuffledIf(files, workers > 1, uint64(round)), workers)
			if err != nil {
				return 0, 0, err
			}
			got[i] = append(got[i], rate(p))
		}
	}
	return median(got[0]), median(got[1]), nil
}

func shuffledIf(files []*file, yes bool, epoch uint64) []*file {
	if !yes {
		return files
	}
	return shuffled(files, epoch)
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// quiet is F1: reads of what is held and cached cost nothing upstream. A call costs bytes, so where
// there are no bytes there was no call.
func (w *near) quiet(ctx context.Context) error {
	shard := &w.data.shards[0]
	want, err := sums(ctx, w.bench.local, shard, 128<<10)
	if err != nil {
		return err
	}
	least, n := int64(1<<62), 0
	for range 8 { // renewals of the lease come every few seconds: one window at least has none
		before, err := w.n.wan(ctx)
		if err != nil {
			return err
		}
		for began := time.Now(); n == 0 || time.Since(began) < 200*time.Millisecond; n += len(want) {
			if err := w.nfs.stream(shard, 128<<10, 16, want); err != nil {
				return err
			}
		}
		after, err := w.n.wan(ctx)
		if err != nil {
			return err
		}
		least = min(least, after-before)
	}
	w.report.figure(figure{id: "F1", what: "read, leased and cached", conditions: []condition{
		{what: fmt.Sprintf("WAN bytes of hub calls and chunks, over %d reads by NFS", n), value: float64(least), unit: "bytes", target: 0, most: true},
		{what: "a lookup, a stat and a read of 128 KiB, below the front end", value: w.allocs, unit: "allocs", target: 0, most: true},
	}})
	return nil
}

// streams is F2, and the same by S3.
func (w *near) streams(ctx context.Context) error {
	w.say("streams")
	shards := refs(w.data.shards)
	l, f, err := w.compare(ctx, w.fuse, shards, 1, true, pass.mb)
	if err != nil {
		return err
	}
	w.row("FUSE, shards in sequence, warm, pages dropped", l, f, "MB/s")
	peer := condition{what: "against rclone mount (of the FUSE peers the one that a package installs)", unit: "ratio", target: 2, peer: true, absent: noPeer}
	if w.rcloneMB > 0 {
		peer.absent, peer.value = "", f/w.rcloneMB
	}
	w.report.figure(figure{id: "F2", what: "warm FUSE sequential read, page cache dropped for both", conditions: []condition{
		{what: "against the local file system", value: f / l, unit: "ratio", target: 0.9}, peer,
	}})
	for _, x := range []struct {
		name string
		r    reader
	}{{"FUSE", w.fuse}, {"S3", w.s3}} {
		l, s, err := w.compare(ctx, x.r, shards, 1, false, pass.mb)
		if err != nil {
			return err
		}
		w.row(x.name+", shards in sequence, hot", l, s, "MB/s")
	}
	return nil
}

// epochs is F4, and small files by the other front ends.
func (w *near) epochs(ctx context.Context) error {
	w.say("small files")
	small := refs(w.data.small)
	const eight = 8
	peer := condition{what: "against rclone mount, read-write portal", unit: "ratio", target: 6, peer: true, absent: noPeer}
	f4 := figure{id: "F4", what: "warm small files over FUSE, 8 readers, page cache dropped for both"}
	for _, x := range []struct {
		name string
		r    mounted
	}{{"read-write portal", w.fuse}, {"read-only portal", w.fixed}} {
		l, f, err := w.compare(ctx, x.r, small, eight, true, pass.rate)
		if err != nil {
			return err
		}
		if x.r == w.fuse && w.rcloneFiles > 0 {
			peer.absent, peer.value = "", f/w.rcloneFiles
		}
		w.row("FUSE, "+x.name+", small files, 8 readers, warm, pages dropped", l, f, "files/s")
		f4.conditions = append(f4.conditions, condition{what: "against the local file system, " + x.name, value: f / l, unit: "ratio", target: 0.7})
	}
	f4.conditions = append(f4.conditions,
		condition{what: "against JuiceFS", unit: "ratio", target: 3, peer: true, absent: noPeer},
		peer)
	w.report.figure(f4)
	for _, x := range []struct {
		name string
		r    reader
	}{{"FUSE", w.fuse}, {"NFS", w.nfs}, {"S3", w.s3}} {
		l, s, err := w.compare(ctx, x.r, small, readers, false, pass.rate)
		if err != nil {
			return err
		}
		w.row(x.name+", small files, 16 readers, hot", l, s, "files/s")
	}
	return nil
}
