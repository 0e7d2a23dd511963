package bench

import (
	"context"
	"fmt"
	"time"
)

// pipelines is F3: one connection with 16 READs under way, of pages that are in the server's page
// cache, against other servers of the same bytes.
func (w *near) pipelines(ctx context.Context) error {
	w.say("pipelined NFS reads")
	peers, closePeers, err := w.nfsPeers(ctx)
	if err != nil {
		return err
	}
	defer closePeers()
	servers := append([]nfsServer{{name: "spokefs", node: w.n, r: w.nfs}}, peers...)
	t := &table{title: "NFS, one connection, 16 READs under way, hot", heads: []string{"server", "1 MiB, MB/s", "128 KiB, MB/s", "CPU s/GB"}}
	w.report.tables = append(w.report.tables, t)
	rates := map[string]float64{}
	shard := &w.data.shards[0]
	sizes := []int{1 << 20, 128 << 10}
	all := map[string][]float64{}
	for _, size := range sizes {
		want, err := sums(ctx, w.bench.local, shard, size)
		if err != nil {
			return err
		}
		for round := range rounds + 1 { // the first makes it hot
			for i := range servers {
				mb, err := servers[i].stream(shard, size, want, max(w.cfg.Least/4, 50*time.Millisecond), round > 0)
				if err != nil {
					return fmt.Errorf("%s: %w", servers[i].name, err)
				}
				if round > 0 {
					key := fmt.Sprint(servers[i].name, size)
					all[key] = append(all[key], mb)
					rates[key] = median(all[key])
				}
			}
		}
	}
	f := figure{id: "F3", what: "warm NFS read over one connection, pipelined"}
	for _, s := range servers {
		t.add(s.name, number(rates[fmt.Sprint(s.name, 1<<20)]), number(rates[fmt.Sprint(s.name, 128<<10)]), number(s.cpu/s.gb))
	}
	for _, p := range []struct {
		name   string
		target float64
	}{{"nfs-ganesha", 1}, {"go-nfs", 3}} {
		s := find(servers, p.name)
		for i, size := range sizes {
			c := condition{what: []string{"1 MiB", "128 KiB"}[i] + " against " + p.name, unit: "ratio", target: p.target, peer: true, absent: noPeer}
			if s != nil {
				c.absent, c.value = "", rates[fmt.Sprint("spokefs", size)]/rates[fmt.Sprint(p.name, size)]
			}
			f.conditions = append(f.conditions, c)
		}
		if p.name == "go-nfs" {
			c := condition{what: "server CPU per GB against go-nfs", unit: "ratio", target: 0.25, most: true, peer: true, absent: noPeer}
			if s != nil {
				c.absent, c.value = "", servers[0].cpu/servers[0].gb/(s.cpu/s.gb)
			}
			f.conditions = append(f.conditions, c)
		}
	}
	f.conditions = append(f.conditions, condition{what: "128 KiB with a backend that takes 2 ms, against go-nfs", unit: "ratio", target: 15, absent: "no backend with a delay yet"})
	w.report.figure(f)
	return nil
}

// nfsServer is one of those compared, and what it has cost.
type nfsServer struct {
	name    string
	node    *process
	r       *nfsReader
	cpu, gb float64 // seconds; 1e9 bytes
}

func find(s []nfsServer, name string) *nfsServer {
	for i := range s {
		if s[i].name == name {
			return &s[i]
		}
	}
	return nil
}

// stream reads a file again and again for a time, and gives MB/s; its cost is added up if it counts.
func (s *nfsServer) stream(f *file, size int, want []uint64, least time.Duration, counts bool) (float64, error) {
	before, err := s.node.cpu()
	if err != nil {
		return 0, err
	}
	var bytes int64
	began := time.Now()
	for bytes == 0 || time.Since(began) < least {
		if err := s.r.stream(f, size, 16, want); err != nil {
			return 0, err
		}
		bytes += f.size
	}
	took := time.Since(began).Seconds()
	after, err := s.node.cpu()
	if counts {
		s.cpu += after - before
		s.gb += float64(bytes) / 1e9
	}
	return float64(bytes) / 1e6 / took, err
}
