package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Config says what to show.
type Config struct {
	Dir      string    // the tree; empty: the Go toolchain's source
	Wan      string    // the link between hub and spoke
	JSON     bool      // the table as JSON
	Keep     bool      // leave the folder
	Out      io.Writer // the table
	Progress io.Writer // the progress bar
	Binary   string    // spokefs; empty: this program
}

// Pass is one reading of the whole tree.
type Pass struct {
	Protocol string  `json:"protocol"`
	Cache    string  `json:"cache"` // cold or warm
	Files    int     `json:"files"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	Wan      int64   `json:"wan_bytes"` // received over the WAN meanwhile
}

// Table is what a demo prints.
type Table struct {
	Tree        string  `json:"tree"`
	Files       int     `json:"files"`
	Bytes       int64   `json:"bytes"`
	Wan         string  `json:"wan"`
	LoadSeconds float64 `json:"load_seconds"`
	Passes      []Pass  `json:"passes"`
	Edits       int     `json:"edits"`
	Asked       int64   `json:"asked_bytes"`    // by readers at the spoke, all passes
	Received    int64   `json:"wan_received"`   // all in all
	Sent        int64   `json:"wan_sent"`       // all in all
	Cached      int64   `json:"saved_by_cache"` // read again without asking the hub
	Dedup       int64   `json:"saved_by_dedup"` // content that came once for several files
	Compression int64   `json:"saved_by_compression"`
	Unread      int64   `json:"saved_by_unread"` // of the tree, never asked for
}

// Run shows the whole path, and fails if one byte differs. It leaves nothing behind.
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg.Dir == "" {
		if cfg.Dir, err = defaultTree(); err != nil {
			return err
		}
	}
	w, err := newWorld(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.start(ctx); err != nil {
		return w.Explain(err)
	}
	t := &Table{Tree: cfg.Dir, Wan: cfg.Wan}
	if err := w.show(ctx, t); err != nil {
		return w.Explain(err)
	}
	return t.print(cfg)
}

// bars shows how far a step is.
func (w *world) bar(name string, total int64) (step func(n int64), done func()) {
	p := mpb.New(mpb.WithOutput(w.cfg.Progress), mpb.WithWidth(50), mpb.WithRefreshRate(200*time.Millisecond))
	b := p.AddBar(total, mpb.PrependDecorators(decor.Name(name, decor.WC{W: 28, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.CountersNoUnit("%d / %d"), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 8})))
	return func(n int64) { b.IncrInt64(n) }, func() {
		if !b.Completed() {
			b.Abort(false)
		}
		p.Wait()
	}
}

// show loads, reads, edits and compares.
func (w *world) show(ctx context.Context, t *Table) error {
	tree, err := scan(w.cfg.Dir, func(int64) {})
	if err != nil {
		return err
	}
	t.Files, t.Bytes = len(tree.files), tree.bytes
	started := time.Now()
	if err := w.load(ctx, tree); err != nil {
		return err
	}
	t.LoadSeconds = time.Since(started).Seconds()
	for i, c := range append(w.remote, w.remote[0]) {
		p, err := w.pass(ctx, c, tree, i == 0)
		if err != nil {
			return err
		}
		t.Passes = append(t.Passes, p)
	}
	if t.Edits, err = w.edit(ctx, tree); err != nil {
		return err
	}
	return w.account(ctx, t)
}

// load writes the tree at the hub.
func (w *world) load(ctx context.Context, tree *tree) error {
	home := w.home[0]
	step, done := w.bar("load at the hub by "+home.name(), int64(len(tree.files)))
	defer done()
	if m, ok := home.(*mounted); ok {
		for _, d := range tree.dirs {
			if err := os.MkdirAll(m.at(d), 0o755); err != nil {
				return err
			}
		}
	}
	return each(ctx, tree.files, func(ctx context.Context, f file) error {
		src, err := os.Open(filepath.Join(w.cfg.Dir, filepath.FromSlash(f.path)))
		if err != nil {
			return err
		}
		defer src.Close()
		step(1)
		return home.write(ctx, f.path, src)
	})
}

// pass reads the whole tree by one client and checks it.
func (w *world) pass(ctx context.Context, c client, tree *tree, cold bool) (Pass, error) {
	p := Pass{Protocol: c.name(), Cache: "warm", Files: len(tree.files), Bytes: tree.bytes}
	if cold {
		p.Cache = "cold"
	}
	before, err := w.spoke.Status(ctx)
	if err != nil {
		return p, err
	}
	step, done := w.bar(fmt.Sprintf("read at the spoke by %s, %s", c.name(), p.Cache), int64(len(tree.files)))
	defer done()
	started := time.Now()
	if err := checkNames(ctx, c, tree); err != nil {
		return p, err
	}
	if err := check(ctx, c, tree, step); err != nil {
		return p, err
	}
	p.Seconds = time.Since(started).Seconds()
	after, err := w.spoke.Status(ctx)
	p.Wan = after.Wan.Received - before.Wan.Received
	return p, err
}

// edit changes files at both sides, and checks that each side and each protocol sees exactly that.
func (w *world) edit(ctx context.Context, tree *tree) (n int, err error) {
	sides := [][]client{w.home, w.remote}
	for who, side := range sides {
		e, err := tree.pick(who, func(path string) ([]byte, error) {
			var b bytes.Buffer
			err := side[0].read(ctx, path, &b)
			return b.Bytes(), err
		})
		if err != nil {
			return n, err
		}
		if err := edit(ctx, side[0], e); err != nil {
			return n, err
		}
		tree.apply(e)
		n += len(e.write) + len(e.rename) + len(e.remove)
	}
	all := append(append([]client{}, w.remote...), w.home...)
	step, done := w.bar("compare after edits", int64(len(all)*len(tree.files)))
	defer done()
	for _, c := range all {
		if err := checkNames(ctx, c, tree); err != nil {
			return n, err
		}
		if err := check(ctx, c, tree, step); err != nil {
			return n, err
		}
	}
	return n, nil
}

// account fills in what crossed the WAN and what did not have to.
func (w *world) account(ctx context.Context, t *Table) error {
	s, err := w.spoke.Status(ctx)
	if err != nil {
		return err
	}
	t.Asked, t.Received, t.Sent = s.Wan.Asked, s.Wan.Received, s.Wan.Sent
	t.Cached = max(0, t.Asked-t.Bytes)
	t.Compression = s.Wan.Raw - s.Wan.Stored
	t.Dedup = max(0, t.Bytes-t.Received-t.Compression)
	t.Unread = max(0, t.Bytes-t.Asked)
	return nil
}

// print prints the table.
func (t *Table) print(cfg Config) error {
	if cfg.JSON {
		e := json.NewEncoder(cfg.Out)
		e.SetIndent("", "  ")
		return e.Encode(t)
	}
	mb := func(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
	p := func(format string, args ...any) { fmt.Fprintf(cfg.Out, format+"\n", args...) }
	p("%s: %d files, %s, over a link of %s", t.Tree, t.Files, mb(t.Bytes), t.Wan)
	p("%-10s %-5s %8s %12s %9s %10s %12s", "protocol", "cache", "files", "bytes", "seconds", "files/s", "over the WAN")
	for _, x := range t.Passes {
		p("%-10s %-5s %8d %12s %9.1f %10.0f %12s", x.Protocol, x.Cache, x.Files, mb(x.Bytes), x.Seconds, float64(x.Files)/x.Seconds, mb(x.Wan))
	}
	p("loaded at the hub in %.1f s; %d edits at both sides, seen by all", t.LoadSeconds, t.Edits)
	p("asked for at the spoke %s; over the WAN %s down, %s up", mb(t.Asked), mb(t.Received), mb(t.Sent))
	p("saved by the cache %s, by dedup and inline packing %s, by compression %s, never read %s", mb(t.Cached), mb(t.Dedup), mb(t.Compression), mb(t.Unread))
	p("every file's SHA-256 agreed, each way")
	return nil
}
