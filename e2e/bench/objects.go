package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/zeebo/xxh3"
)

// objects is F5: ranges of a shard by S3, and listings, against other servers of the same bytes.
func (w *near) objects(ctx context.Context) error {
	w.say("S3")
	peers, closePeers, err := w.s3Peers(ctx)
	if err != nil {
		return err
	}
	defer closePeers()
	servers := append([]s3Server{{"spokefs", w.s3}}, peers...)
	t := &table{title: "S3, hot", heads: []string{"server", "64 MiB ranges, MB/s", "1 MiB ranges, 8 at once, MB/s", "LIST, keys/s"}}
	w.report.tables = append(w.report.tables, t)
	shard := &w.data.shards[0]
	big := int(min(64<<20, shard.size))
	best := map[string][3]float64{}
	var got [3][][]float64
	for i, f := range []func(o *object) (float64, error){
		func(o *object) (float64, error) { return w.ranges(ctx, o, shard, big, 1) },
		func(o *object) (float64, error) { return w.ranges(ctx, o, shard, 1<<20, 8) },
		func(o *object) (float64, error) { return w.list(ctx, o) },
	} {
		got[i] = make([][]float64, len(servers))
		for round := range rounds + 1 { // the first makes it hot
			for j, s := range servers {
				v, err := f(s.o)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				if round > 0 {
					got[i][j] = append(got[i][j], v)
				}
			}
		}
		for j, s := range servers {
			v := best[s.name]
			v[i] = median(got[i][j])
			best[s.name] = v
		}
	}
	var peer [3]float64
	for _, s := range servers {
		v := best[s.name]
		t.add(s.name, number(v[0]), number(v[1]), number(v[2]))
		for i := range v {
			if s.name != "spokefs" {
				peer[i] = max(peer[i], v[i])
			}
		}
	}
	f := figure{id: "F5", what: "S3 of cached data, against the best of MinIO and versitygw"}
	for i, what := range []string{"GET of 64 MiB ranges", "GET of 1 MiB ranges, 8 at once", "LIST"} {
		c := condition{what: what, unit: "ratio", target: []float64{1, 1, 2}[i], peer: true, absent: noPeer}
		if len(peers) > 0 {
			c.absent, c.value = "", best["spokefs"][i]/peer[i]
		}
		f.conditions = append(f.conditions, c)
	}
	w.report.figure(f)
	return nil
}

// s3Server is one of those compared.
type s3Server struct {
	name string
	o    *object
}

// ranges reads a file in ranges of size bytes and gives MB/s.
func (w *near) ranges(ctx context.Context, o *object, f *file, size, workers int) (float64, error) {
	want, err := sums(ctx, w.bench.local, f, size)
	if err != nil {
		return 0, err
	}
	bufs := make([][]byte, workers)
	for i := range bufs {
		bufs[i] = make([]byte, size)
		clear(bufs[i])
	}
	began := time.Now()
	err = each(ctx, workers, len(want), func(ctx context.Context, worker, i int) error {
		off := int64(i) * int64(size)
		buf := bufs[worker][:min(int64(size), f.size-off)]
		n, err := o.ranged(ctx, f, off, buf)
		if err == nil && xxh3.Hash(buf[:n]) != want[i] {
			err = fmt.Errorf("%s: the %d bytes at %d are not what was written", f.path, n, off)
		}
		return err
	})
	return float64(f.size) / 1e6 / time.Since(began).Seconds(), err
}

// list lists the folder of small files and gives keys per second.
func (w *near) list(ctx context.Context, o *object) (float64, error) {
	began := time.Now()
	n, err := o.list(ctx, "train/")
	if err == nil && n < len(w.data.small) {
		err = fmt.Errorf("the listing has %d keys of %d", n, len(w.data.small))
	}
	return float64(n) / time.Since(began).Seconds(), err
}
