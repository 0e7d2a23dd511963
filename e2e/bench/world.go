package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
)

// Config says what to measure.
type Config struct {
	Binary string        // spokefs
	Dir    string        // where everything is kept while it runs, on the file system compared with; empty: a temporary folder
	Scale  float64       // of the data set: 1 is 20,000 files and 2 GiB of shards
	Mbit   int64         // of the link, per second
	Least  time.Duration // how long a rate is measured
	Spokes int           // cold ones whose first bytes are timed, at most 5
	Keep   bool          // leave the folder
	Log    io.Writer     // what is under way
	Steps  []string      // of "in", "near", "far", "creates"; empty: all
	Peers  bool          // compare with other servers where they are installed
	// GoNFS is a program "gonfs ADDR DIR", a go-nfs server to compare with; empty: none.
	GoNFS string
}

// portal is the name of the namespace, portal and bucket.
const portal = "bench"

// bench is one run.
type bench struct {
	cfg       Config
	dir       string // short: sockets are in it
	local     string // the data set on the local file system
	data      *data
	report    *Report
	home, far *site
	link      *link
	unlinked  error // why there is no link
	hub       *process
	key       system.Key
	all       []*process // to stop, the last first
	spokes    int
	allocs    float64 // of F1, below the front ends
	made      float64 // creates a second, below the front ends
}

// Run measures everything and leaves nothing behind.
func Run(ctx context.Context, cfg Config) (r *Report, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "sfb")
	if err != nil {
		return nil, err
	}
	b := &bench{cfg: cfg, dir: dir, local: filepath.Join(dir, "disk", "local"), report: &Report{}}
	defer func() { err = errors.Join(err, b.close()) }()
	b.data = newData(cfg.Scale, 1)
	all := b.data.all()
	b.report.machine = machine(dir)
	b.report.data = fmt.Sprintf("Data: %d files of %.1f MB in folders, %d shards of %.0f MiB; scale %s.", len(b.data.small), float64(bytesOf(refs(b.data.small)))/1e6,
		len(b.data.shards), float64(b.data.shards[0].size)/(1<<20), number(cfg.Scale))
	b.say("writing %d files, %.2f GB", len(all), float64(bytesOf(all))/1e9)
	if err := write(b.local, all); err != nil {
		return nil, err
	}
	if err := b.sites(); err != nil {
		return nil, err
	}
	if err := b.startHub(ctx); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name string
		run  func(context.Context) error
	}{{"in", b.inProcess}, {"near", b.nearby}, {"far", b.distant}, {"creates", b.creates}} {
		if len(cfg.Steps) > 0 && !slices.Contains(cfg.Steps, s.name) {
			continue
		}
		if err := s.run(ctx); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.cfg.Log, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// sites makes the namespaces and the link between them, if this machine can.
func (b *bench) sites() (err error) {
	if b.unlinked = linkable(); b.unlinked != nil {
		b.say("%v: everything runs in the machine's own network", b.unlinked)
		return nil
	}
	if b.home, err = newSite(1); err != nil {
		return err
	}
	if b.far, err = newSite(2); err != nil {
		return err
	}
	b.link, err = connect(b.home, b.far)
	return err
}

// startHub starts the hub with the spoke beside it, and loads the data set there.
func (b *bench) startHub(ctx context.Context) error {
	listen := "127.0.0.1:0"
	if b.home != nil {
		listen = b.home.addr + ":7070"
	}
	hub, err := run(ctx, b.cfg.Binary, b.dir, "hub", b.home, fmt.Sprintf("[hub]\ndata = %q\nlisten = %q\n[spoke]\ndata = %q\n",
		filepath.Join(b.dir, "hub"), listen, filepath.Join(b.dir, "home")), "hub")
	if err != nil {
		return err
	}
	b.hub = hub
	b.all = append(b.all, hub)
	b.key = system.Key{Access: "BENCHBENCH", Secret: "benchbenchbenchbench"}
	if err := hub.admin.CreateNamespace(ctx, portal); err != nil {
		return err
	}
	if err := hub.admin.SetPortal(ctx, system.Portal{Name: portal, Namespace: portal, Path: "/", NoRootSquash: true}); err != nil {
		return err
	}
	if err := hub.admin.SetKey(ctx, b.key); err != nil {
		return err
	}
	if err := hub.admin.Mount(ctx, admin.Mount{Portal: portal, Dir: b.mount(hub)}); err != nil {
		return err
	}
	all := b.data.all()
	b.say("loading at the hub")
	took, err := b.load(ctx, all)
	if err != nil {
		return err
	}
	t := &table{title: "Loading", heads: []string{"what", "seconds", "files/s", "MB/s"}}
	t.add(fmt.Sprintf("FUSE at the hub, %d writers, until all is durable", writers), number(took), number(float64(len(all))/took), number(float64(bytesOf(all))/1e6/took))
	b.report.tables = append(b.report.tables, t)
	return nil
}

// mount is where a node's portal is mounted.
func (b *bench) mount(n *process) string { return filepath.Join(b.dir, n.name+"-mnt") }

// writers is how many write at once.
const writers = 16

// load copies files to the mount at the hub and waits until all is published.
func (b *bench) load(ctx context.Context, files []*file) (seconds float64, err error) {
	began := time.Now()
	to := b.mount(b.hub)
	err = each(ctx, writers, len(files), func(_ context.Context, _, i int) error {
		name := filepath.FromSlash(files[i].path)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		return copyFile(filepath.Join(to, name), filepath.Join(b.local, name))
	})
	if err == nil {
		err = b.hub.settled(ctx)
	}
	return time.Since(began).Seconds(), err
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, in, make([]byte, 1<<20))
	return errors.Join(err, out.Close())
}

// spoke joins a new, cold spoke at a site, mounts its portal, and gives it.
func (b *bench) spoke(ctx context.Context, at *site) (*process, error) {
	b.spokes++
	name := fmt.Sprintf("sp%d", b.spokes)
	data := filepath.Join(b.dir, name)
	token, err := b.hub.admin.Token(ctx, admin.Join{Spoke: name, Grants: []system.Grant{{Namespace: portal}}, TTL: time.Minute, Uses: 1})
	if err != nil {
		return nil, err
	}
	join, out, err := launch(b.dir, name+"-join", at, nil, b.cfg.Binary, "spoke", "join", token, "--data", data)
	if err != nil {
		return nil, err
	}
	for out.Scan() {
	}
	if err := join.cmd.Wait(); err != nil {
		return nil, errors.Join(fmt.Errorf("join: %w", err), join.tail())
	}
	n, err := run(ctx, b.cfg.Binary, b.dir, name, at, fmt.Sprintf("[spoke]\ndata = %q\n[spoke.nfs]\nlisten = \"127.0.0.1:0\"\n[spoke.s3]\nlisten = \"127.0.0.1:0\"\n", data), "spoke", "run")
	if err != nil {
		return nil, err
	}
	b.all = append(b.all, n)
	return n, n.admin.Mount(ctx, admin.Mount{Portal: portal, Dir: b.mount(n)})
}

// retire stops a node and removes its data.
func (b *bench) retire(n *process) error {
	for i, x := range b.all {
		if x == n {
			b.all = append(b.all[:i], b.all[i+1:]...)
		}
	}
	return errors.Join(n.stop(), os.RemoveAll(n.data))
}

// close stops what runs and removes the folder.
func (b *bench) close() error {
	var errs []error
	for i := len(b.all) - 1; i >= 0; i-- {
		errs = append(errs, b.all[i].stop())
	}
	if b.link != nil {
		errs = append(errs, b.link.close())
	}
	errs = append(errs, b.home.close(), b.far.close())
	if b.cfg.Keep {
		b.say("left in %s", b.dir)
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}
