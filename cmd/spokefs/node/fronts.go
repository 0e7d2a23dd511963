package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/protocols/fuse"
	"github.com/spokefs/spokefs/protocols/s3"
)

// keyring is the S3 keys in memory; it implements s3.Keys.
type keyring struct {
	mu   sync.RWMutex // guards keys
	keys map[string]s3.Key
}

func (k *keyring) set(keys []system.Key) {
	m := make(map[string]s3.Key, len(keys))
	for _, x := range keys {
		m[x.Access] = s3.Key{Access: x.Access, Secret: x.Secret, UID: x.UID, GID: x.GID, Buckets: x.Buckets}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = m
}

// Key implements s3.Keys.
func (k *keyring) Key(access string) (s3.Key, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	x, ok := k.keys[access]
	return x, ok
}

// fronts are a node's front ends at work.
type fronts struct {
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	failed chan error // of a server that ended by itself; room for one

	mu        sync.Mutex // guards what follows
	mounts    []*fuse.Mount
	endpoints []admin.Endpoint
}

// serves notes where a protocol is served.
func (f *fronts) serves(e admin.Endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoints = append(f.endpoints, e)
}

// list gives what is served where.
func (f *fronts) list() []admin.Endpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.endpoints)
}

// startFronts starts the front ends that a spoke's configuration names.
func startFronts(cfg SpokeConfig, portals fabric.Portals, keys s3.Keys, buckets s3.Buckets, log *slog.Logger) (*fronts, error) {
	f := &fronts{log: log, failed: make(chan error, 1)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	if err := f.start(cfg, portals, keys, buckets); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *fronts) start(cfg SpokeConfig, portals fabric.Portals, keys s3.Keys, buckets s3.Buckets) error {
	if err := f.startNFS(cfg.NFS, portals); err != nil {
		return err
	}
	if addr := cfg.S3.Listen; addr != "" {
		addr, err := fixed(addr)
		if err != nil {
			return err
		}
		f.run("S3", s3.New(s3.Config{Listen: addr, Region: cfg.S3.Region}, portals, keys, buckets).Run)
		f.serves(admin.Endpoint{Protocol: "s3", Address: "http://" + addr})
	}
	for _, m := range cfg.FUSE {
		if err := f.mount(portals, m.Portal, m.Dir); err != nil {
			return err
		}
	}
	return nil
}

// run runs a server until the front ends are closed.
func (f *fronts) run(name string, serve func(ctx context.Context) error) {
	f.done.Go(func() {
		if err := serve(f.ctx); err != nil && f.ctx.Err() == nil {
			select {
			case f.failed <- fmt.Errorf("%s: %w", name, err):
			default:
			}
		}
	})
}

// mount mounts a portal.
func (f *fronts) mount(portals fabric.Portals, portal, dir string) error {
	p, err := portals.Portal(portal)
	if err != nil {
		return fmt.Errorf("portal %s: %w", portal, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		f.log.Debug("mount point", "dir", dir, "err", err) // a dead mount of an earlier process: New clears it
	}
	m, err := fuse.New(fuse.Config{}, p, dir)
	if err != nil {
		return err
	}
	f.serves(admin.Endpoint{Protocol: "fuse", Address: m.Dir(), Note: "portal " + portal})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mounts = append(f.mounts, m)
	return nil
}

// unmount ends a mount of this node.
func (f *fronts) unmount(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range f.mounts {
		if m.Dir() == dir {
			f.mounts = slices.Delete(f.mounts, i, i+1)
			f.endpoints = slices.DeleteFunc(f.endpoints, func(e admin.Endpoint) bool { return e.Protocol == "fuse" && e.Address == dir })
			return m.Unmount()
		}
	}
	return &fabric.Error{Op: "unmount " + dir, Code: fabric.NotExist}
}

// close ends the front ends: mounts first, so that kernels write back.
func (f *fronts) close() error {
	var errs []error
	for _, m := range f.mounts {
		errs = append(errs, m.Unmount())
	}
	f.cancel()
	f.done.Wait()
	return errors.Join(errs...)
}

// fixed turns port 0 into a free one, for a server that cannot tell which it took.
func fixed(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != "0" {
		return addr, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
