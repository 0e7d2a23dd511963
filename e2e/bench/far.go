package bench

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The links that the figures name.
const (
	shortRTT = 40 * time.Millisecond
	longRTT  = 150 * time.Millisecond
)

// distant measures what crosses a link: F6 to F8.
func (b *bench) distant(ctx context.Context) error {
	f6 := figure{id: "F6", what: "first copy over the WAN, FUSE, 16 readers in the order of the listing"}
	f7 := figure{id: "F7", what: "second, edited version over the WAN, as a tree of its own"}
	f8 := figure{id: "F8", what: "cold first byte at 40 ms RTT, one path component"}
	if b.unlinked != nil {
		f6.conditions = []condition{{what: "bytes against unique compressed chunks", unit: "ratio", target: 1.03, most: true}}
		f7.conditions = []condition{{what: "bytes against new unique compressed chunks", unit: "ratio", target: 1.1, most: true}}
		f8.conditions = []condition{{what: "names leased", unit: "ms", target: 55, most: true}}
		for _, f := range []figure{f6, f7, f8} {
			f.conditions[0].absent = b.unlinked.Error()
			b.report.figure(f)
		}
		return nil
	}
	part := b.data.part()
	bound := newBound()
	least, err := bound.add(b.local, part)
	if err != nil {
		return err
	}
	t := &table{title: fmt.Sprintf("Over a link of IP packets, %d Mbit/s (%d files, %.0f MB; congestion control %s)", b.cfg.Mbit, len(part), float64(bytesOf(part))/1e6, congestion()),
		heads: []string{"what", "seconds", "MB over the WAN", "bound, MB", "link busy", "packets dropped"}}
	b.report.tables = append(b.report.tables, t)
	var far *process
	for _, rtt := range []time.Duration{longRTT, shortRTT} {
		b.say("first copy at %v", rtt)
		if _, err := b.link.set(shaped(rtt, b.cfg.Mbit)); err != nil {
			return err
		}
		if far != nil {
			if err := b.retire(far); err != nil {
				return err
			}
		}
		if far, err = b.spoke(ctx, b.far); err != nil {
			return err
		}
		c, err := b.copy(ctx, far, part)
		if err != nil {
			return err
		}
		t.add(fmt.Sprintf("first copy, %v RTT", rtt), c.cells(least)...)
		f6.conditions = append(f6.conditions,
			condition{what: fmt.Sprintf("bytes against unique compressed chunks, %v RTT", rtt), value: c.mb / (float64(least) / 1e6), unit: "ratio", target: 1.03, most: true},
			condition{what: fmt.Sprintf("link busy, %v RTT", rtt), value: c.busy, unit: "busy", target: 0.95})
	}
	b.report.figure(f6)
	if err := b.second(ctx, far, bound, part, t, &f7); err != nil {
		return err
	}
	if err := b.retire(far); err != nil {
		return err
	}
	return b.firstBytes(ctx, &f8)
}

// copied is what a copy over the link took.
type copied struct {
	seconds float64
	mb      float64 // 1e6 bytes, both ways, TLS included
	busy    float64 // share of the time that the way to the spoke was sending
	dropped int64
}

func (c copied) cells(least int64) []string {
	return []string{number(c.seconds), number(c.mb), number(float64(least) / 1e6), fmt.Sprintf("%.0f %%", 100*c.busy), fmt.Sprint(c.dropped)}
}

// copy lists the folders of files at a spoke and reads the files in that order, as cp -r does.
func (b *bench) copy(ctx context.Context, at *process, files []*file) (c copied, err error) {
	bytes, err := at.wan(ctx)
	if err != nil {
		return c, err
	}
	before, err := b.link.carried()
	if err != nil {
		return c, err
	}
	began := time.Now()
	mnt := b.mount(at)
	for _, dir := range folders(files) {
		if _, err := os.ReadDir(filepath.Join(mnt, dir)); err != nil {
			return c, err
		}
	}
	if _, err := readAll(ctx, mounted{dir: mnt, size: 1 << 20}, files, readers); err != nil {
		return c, err
	}
	c.seconds = time.Since(began).Seconds()
	after, err := b.link.carried()
	if err != nil {
		return c, err
	}
	total, err := at.wan(ctx)
	c.mb = float64(total-bytes) / 1e6
	c.busy = float64(after.down-before.down) / (float64(b.cfg.Mbit) * 1e6 / 8 * c.seconds)
	c.dropped = after.dropped - before.dropped
	return c, err
}

// folders lists those that files are in, in order.
func folders(files []*file) (out []string) {
	for _, f := range files {
		if dir := path.Dir(f.path); !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// second writes the edited version at the hub and reads it at the spoke that has the first.
func (b *bench) second(ctx context.Context, far *process, bound *bound, part []*file, t *table, f7 *figure) error {
	b.say("second version")
	v2, err := edit(b.local, part, 2)
	if err != nil {
		return err
	}
	least, err := bound.add(b.local, v2)
	if err != nil {
		return err
	}
	if _, err := b.load(ctx, v2); err != nil {
		return err
	}
	c, err := b.copy(ctx, far, v2)
	if err != nil {
		return err
	}
	t.add(fmt.Sprintf("second version, %v RTT", shortRTT), c.cells(least)...)
	f7.conditions = []condition{{what: "bytes against new unique compressed chunks", value: c.mb / (float64(least) / 1e6), unit: "ratio", target: 1.1, most: true}}
	b.report.figure(*f7)
	return nil
}

// firstBytes is F8: at new spokes, one after the other, files of the root and a key of S3. The very first
// file pays for new connections (TCP begins slowly) and is told apart: cold is a file whose name and
// bytes are unknown at a spoke that is at work.
func (b *bench) firstBytes(ctx context.Context, f8 *figure) error {
	b.say("first bytes")
	spokes := min(b.cfg.Spokes, 5)
	var fresh, cold, leased, keys []float64
	for i := range spokes {
		n, err := b.spoke(ctx, b.far)
		if err != nil {
			return err
		}
		mnt := b.mount(n)
		ms, err := firstByte(mnt, &b.data.first[i])
		if err != nil {
			return err
		}
		fresh = append(fresh, ms)
		others := refs(b.data.small[:16])
		if _, err := readAll(ctx, mounted{dir: mnt, size: 1 << 20}, others, 4); err != nil {
			return err
		}
		if ms, err = firstByte(mnt, &b.data.first[15+i]); err != nil {
			return err
		}
		cold = append(cold, ms)
		o := newObject(b.far, n.endpoints["s3"], portal, b.key.Access, b.key.Secret)
		if _, err := o.read(ctx, &b.data.first[i], make([]byte, smallMean+1)); err != nil { // connects
			return err
		}
		f := &b.data.small[len(b.data.small)-1-i]
		buf := make([]byte, f.size+1)
		asked := time.Now()
		k, err := o.ranged(ctx, f, 0, buf[:min(4096, f.size)])
		keys = append(keys, milliseconds(asked))
		if err != nil || k == 0 {
			return fmt.Errorf("%s: %d bytes: %w", f.path, k, err)
		}
		entries, err := os.ReadDir(mnt)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if _, err := e.Info(); err != nil {
				return err
			}
		}
		for j := range 2 { // more in a row would be fetched ahead
			ms, err := firstByte(mnt, &b.data.first[5+5*j+i])
			if err != nil {
				return err
			}
			leased = append(leased, ms)
		}
		o.idle()
		if err := b.retire(n); err != nil {
			return err
		}
	}
	t := &table{title: fmt.Sprintf("First bytes at %v RTT, medians of %d spokes", shortRTT, spokes), heads: []string{"what", "ms"}}
	b.report.tables = append(b.report.tables, t)
	t.add("a new spoke's first file", number(median(fresh)))
	rtt := float64(shortRTT.Milliseconds())
	f8.conditions = []condition{
		{what: "names leased, median", value: median(leased), unit: "ms", target: rtt + 15, most: true},
		{what: "wholly cold, median", value: median(cold), unit: "ms", target: 2*rtt + 15, most: true},
		{what: "S3 key of three components, cold, median", value: median(keys), unit: "ms", target: 2*rtt + 15, most: true},
	}
	b.report.figure(*f8)
	return nil
}

func milliseconds(since time.Time) float64 {
	return float64(time.Since(since)) / float64(time.Millisecond)
}

// firstByte opens a file and reads its first page.
func firstByte(dir string, f *file) (ms float64, err error) {
	var page [4096]byte
	asked := time.Now()
	fd, err := open(mounted{dir: dir}.at(f))
	if err != nil {
		return 0, err
	}
	n, err := again(func() (int, error) { return unix.Read(fd, page[:]) })
	ms = milliseconds(asked)
	unix.Close(fd)
	if err != nil {
		return ms, err
	}
	if want := f.content()[:n]; n != len(page) || !slices.Equal(page[:], want) {
		return ms, fmt.Errorf("%s: its first %d bytes are not those written", f.path, n)
	}
	return ms, nil
}

// congestion is the TCP congestion control of new connections.
func congestion() string {
	p, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "unknown"
	}
	return string(p[:len(p)-1])
}
