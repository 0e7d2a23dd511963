package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spokefs/spokefs/e2e/harness"
	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/protocols/fuse"
)

// world is a hub and a spoke, as processes, and clients of both.
type world struct {
	*harness.World
	cfg    Config
	spoke  *admin.Client
	home   []client // at the hub: its spoke, unshaped
	remote []client
}

func newWorld(cfg Config) (*world, error) {
	if cfg.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cfg.Binary = self
	}
	w, err := harness.NewWorld(cfg.Binary, portal)
	return &world{World: w, cfg: cfg}, err
}

// portal is the name of the demo's namespace, portal and bucket.
const portal = "demo"

// start starts hub and spoke, joins them, and connects clients.
func (w *world) start(ctx context.Context) error {
	if err := w.StartHub(ctx, harness.Spec{NFS: true, S3: true}); err != nil {
		return err
	}
	spoke, err := w.Join(ctx, "spoke", harness.Spec{NFS: true, S3: true, Wan: w.cfg.Wan})
	if err != nil {
		return err
	}
	w.spoke = spoke.Admin
	if w.home, err = w.clients(ctx, w.Hub, "home-mnt"); err != nil {
		return err
	}
	w.remote, err = w.clients(ctx, spoke, "spoke-mnt")
	return err
}

// clients connects to a node by every protocol that this machine can.
func (w *world) clients(ctx context.Context, n *harness.Node, mnt string) ([]client, error) {
	var out []client
	if err := fuse.Available(); err == nil {
		dir := filepath.Join(w.Dir, mnt)
		if err := n.Mount(ctx, dir); err != nil {
			return nil, err
		}
		out = append(out, &mounted{"FUSE", dir})
	} else {
		fmt.Fprintln(w.cfg.Progress, "without FUSE:", err)
	}
	nfs, err := newNFS(n.Endpoint("nfs"), portal)
	if err != nil {
		return nil, err
	}
	return append(out, nfs, &object{harness.S3(n.Endpoint("s3"), w.Key.Access, w.Key.Secret), portal}), nil
}

// close stops the processes, the spoke first, and removes the folder.
func (w *world) close() error {
	err := w.Close()
	if w.cfg.Keep {
		fmt.Fprintln(w.cfg.Progress, "left in", w.Dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(w.Dir))
}
