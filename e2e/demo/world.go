package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/protocols/fuse"
)

// world is a hub and a spoke, as processes, and clients of both.
type world struct {
	cfg    Config
	dir    string
	procs  []*process
	hub    *admin.Client
	spoke  *admin.Client
	home   []client // at the hub: its spoke, unshaped
	remote []client
}

// process is a running spokefs.
type process struct {
	name      string
	cmd       *exec.Cmd
	log       string            // file
	endpoints map[string]string // protocol to address
}

func newWorld(cfg Config) (*world, error) {
	if cfg.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cfg.Binary = self
	}
	dir, err := os.MkdirTemp("", "spokefs-demo-") // short: sockets are in it
	return &world{cfg: cfg, dir: dir}, err
}

// portal is the name of the demo's namespace, portal and bucket.
const portal = "demo"

// start starts hub and spoke, joins them, and connects clients.
func (w *world) start(ctx context.Context) error {
	hubData, spokeData := filepath.Join(w.dir, "hub"), filepath.Join(w.dir, "spoke")
	hub, err := w.run(ctx, "hub", fmt.Sprintf(`[hub]
data = %q
listen = "127.0.0.1:0"
[spoke]
data = %q
[spoke.nfs]
listen = "127.0.0.1:0"
[spoke.s3]
listen = "127.0.0.1:0"
`, hubData, filepath.Join(w.dir, "home")), "hub")
	if err != nil {
		return err
	}
	w.hub = admin.Dial(filepath.Join(hubData, "admin.sock"))
	key, token, err := w.prepare(ctx)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, w.cfg.Binary, "spoke", "join", token, "--data", spokeData).CombinedOutput(); err != nil {
		return fmt.Errorf("join: %w: %s", err, out)
	}
	spoke, err := w.run(ctx, "spoke", fmt.Sprintf(`[spoke]
data = %q
wan = %q
[spoke.nfs]
listen = "127.0.0.1:0"
[spoke.s3]
listen = "127.0.0.1:0"
`, spokeData, w.cfg.Wan), "spoke", "run")
	if err != nil {
		return err
	}
	w.spoke = admin.Dial(filepath.Join(spokeData, "admin.sock"))
	if w.home, err = w.clients(ctx, w.hub, hub, "home-mnt", key); err != nil {
		return err
	}
	w.remote, err = w.clients(ctx, w.spoke, spoke, "spoke-mnt", key)
	return err
}

// prepare makes namespace, portal, key and token at the hub.
func (w *world) prepare(ctx context.Context) (system.Key, string, error) {
	var secret [24]byte
	rand.Read(secret[:])
	key := system.Key{Access: "DEMO" + hex.EncodeToString(secret[:4]), Secret: hex.EncodeToString(secret[4:])}
	if err := w.hub.CreateNamespace(ctx, portal); err != nil {
		return key, "", err
	}
	if err := w.hub.SetPortal(ctx, system.Portal{Name: portal, Namespace: portal, Path: "/", NoRootSquash: true}); err != nil {
		return key, "", err
	}
	if err := w.hub.SetKey(ctx, key); err != nil {
		return key, "", err
	}
	token, err := w.hub.Token(ctx, admin.Join{Spoke: "demo-spoke", Grants: []system.Grant{{Namespace: portal}}, TTL: time.Minute, Uses: 1})
	return key, token, err
}

// clients connects to a node by every protocol that this machine can.
func (w *world) clients(ctx context.Context, n *admin.Client, p *process, mnt string, key system.Key) ([]client, error) {
	var out []client
	if err := fuse.Available(); err == nil {
		dir := filepath.Join(w.dir, mnt)
		if err := n.Mount(ctx, admin.Mount{Portal: portal, Dir: dir}); err != nil {
			return nil, err
		}
		out = append(out, &mounted{"FUSE", dir})
	} else {
		fmt.Fprintln(w.cfg.Progress, "without FUSE:", err)
	}
	nfs, err := newNFS(p.endpoints["nfs"], portal)
	if err != nil {
		return nil, err
	}
	if nfs != nil {
		out = append(out, nfs)
	}
	return append(out, newObject(p.endpoints["s3"], portal, key.Access, key.Secret)), nil
}

// run starts spokefs with a config file and waits until it says that it is ready.
func (w *world) run(ctx context.Context, name, config string, args ...string) (*process, error) {
	file := filepath.Join(w.dir, name+".toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	p := &process{name: name, log: filepath.Join(w.dir, name+".log"), endpoints: map[string]string{}}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(w.cfg.Binary, append(args, file)...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is ours to pass on, in order
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	w.procs = append(w.procs, p)
	for s := bufio.NewScanner(out); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) == 1 && f[0] == "ready" {
			return p, nil
		}
		if len(f) >= 2 {
			p.endpoints[f[0]] = f[1]
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("the %s ended before it was ready", name)
}

// explain adds the end of the processes' logs to an error.
func (w *world) explain(err error) error {
	for _, p := range w.procs {
		if log, e := os.ReadFile(p.log); e == nil && len(log) > 0 {
			lines := strings.Split(strings.TrimSpace(string(log)), "\n")
			err = fmt.Errorf("%w\n%s: %s", err, p.name, strings.Join(lines[max(0, len(lines)-15):], "\n"+p.name+": "))
		}
	}
	return err
}

// close stops the processes, the spoke first, and removes the folder.
func (w *world) close() error {
	var errs []error
	for i := len(w.procs) - 1; i >= 0; i-- {
		p := w.procs[i]
		p.cmd.Process.Signal(syscall.SIGTERM)
		done := make(chan error, 1)
		go func() { done <- p.cmd.Wait() }()
		select {
		case err := <-done:
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
			}
		case <-time.After(30 * time.Second):
			p.cmd.Process.Kill()
			errs = append(errs, fmt.Errorf("%s did not stop in 30 s and was killed", p.name))
		}
	}
	if w.cfg.Keep {
		fmt.Fprintln(w.cfg.Progress, "left in", w.dir)
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
