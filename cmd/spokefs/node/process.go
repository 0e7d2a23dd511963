package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/spoke"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/protocols/s3"
)

// Process is all that one spokefs process runs: a hub with a spoke beside it, or a spoke. It
// implements admin.Node.
type Process struct {
	version string
	log     *slog.Logger
	started time.Time
	hub     *Hub    // nil at a spoke
	spoke   *Spoke  // beside the hub, or Remote's
	remote  *Remote // nil at a hub
	keys    *keyring
	fronts  *fronts

	mu sync.Mutex // serialises refresh
}

// homeSpoke is the spoke beside a hub, and the name of its one node.
const homeSpoke = "home"

// Start opens what a configuration names and serves it. Close ends it; Wait returns when it cannot
// go on.
func Start(ctx context.Context, cfg Config, version string, log *slog.Logger) (p *Process, err error) {
	p = &Process{version: version, log: log, started: time.Now(), keys: &keyring{}}
	defer func() {
		if err != nil {
			c, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			err = errors.Join(err, p.Close(c))
		}
	}()
	if err := checkClock(time.Now()); err != nil {
		return p, err
	}
	warnSwap("/proc/swaps", log)
	data := ""
	var front SpokeConfig
	switch {
	case cfg.Hub != nil:
		data = cfg.Hub.Data
		front, err = p.openHub(ctx, cfg)
	case cfg.Spoke != nil:
		data, front = cfg.Spoke.Data, *cfg.Spoke
		err = p.openSpoke(ctx, *cfg.Spoke)
	default:
		err = errors.New("the configuration has neither [hub] nor [spoke]")
	}
	if err != nil {
		return p, err
	}
	var buckets s3.Buckets
	if ns := front.S3.BucketsIn; ns != "" {
		if p.hub == nil {
			return p, errors.New("spoke.s3.buckets_in: buckets are made at the hub")
		}
		buckets = bucketsIn{p, ns}
	}
	if p.fronts, err = startFronts(front, p.spoke.Site, p.keys, buckets, log); err != nil {
		return p, err
	}
	if p.hub != nil {
		if err := p.listen(); err != nil {
			return p, err
		}
	} else {
		p.fronts.run("refresh", p.refreshes)
	}
	return p, p.openAdmin(data)
}

// openHub opens the hub and the spoke beside it.
func (p *Process) openHub(ctx context.Context, cfg Config) (SpokeConfig, error) {
	var err error
	if p.hub, err = OpenHub(ctx, *cfg.Hub, p.log); err != nil {
		return SpokeConfig{}, err
	}
	front := SpokeConfig{Data: filepath.Join(cfg.Hub.Data, homeSpoke)}
	if cfg.Spoke != nil {
		front = *cfg.Spoke
	}
	front.defaults()
	p.spoke, err = OpenSpoke(front, func(ns string) spoke.Connector { return &lateBeside{hub: p.hub, namespace: ns} }, p.log)
	if err != nil {
		return front, err
	}
	return front, p.refresh(ctx)
}

// openSpoke opens a spoke that reaches its hub over the wire.
func (p *Process) openSpoke(ctx context.Context, cfg SpokeConfig) error {
	var err error
	p.remote, err = OpenRemote(cfg, func(dial func(ns string) spoke.Connector) (*Spoke, error) {
		return OpenSpoke(cfg, dial, p.log)
	})
	if err != nil {
		return err
	}
	p.spoke, p.keys = p.remote.Spoke, &p.remote.keys
	return p.remote.Refresh(ctx)
}

// refresh shows what the hub's system state says now.
func (p *Process) refresh(ctx context.Context) error {
	if p.remote != nil {
		return p.remote.Refresh(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v, done, err := p.hub.view(ctx)
	if err != nil {
		return err
	}
	var names []string
	for n := range system.Namespaces(v) {
		names = append(names, n.Info.Name)
	}
	var portals []system.Portal
	for x := range system.Portals(v) {
		portals = append(portals, x)
	}
	var keys []system.Key
	for k := range system.Keys(v) {
		keys = append(keys, k)
	}
	done()
	for _, n := range names {
		if err := p.spoke.Attach(ctx, n); err != nil {
			return err
		}
	}
	p.keys.set(keys)
	p.spoke.Show(portals)
	return nil
}

// refreshEvery is how soon a spoke sees a portal or key that was made at the hub.
const refreshEvery = 2 * time.Second

func (p *Process) refreshes(ctx context.Context) error {
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := p.refresh(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("cannot ask the hub what to show", "err", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// listen serves spokes.
func (p *Process) listen() error {
	l, err := net.Listen("tcp", p.hub.cfg.Listen)
	if err != nil {
		return err
	}
	p.hub.cfg.Listen = l.Addr().String()
	p.fronts.serves(admin.Endpoint{Protocol: "hub", Address: l.Addr().String(), Note: "spokes join here"})
	p.fronts.run("hub", func(ctx context.Context) error { return p.hub.Serve(ctx, l) })
	return nil
}

// openAdmin serves the operator on a socket that only this user can open.
func (p *Process) openAdmin(data string) error {
	socket := filepath.Join(data, "admin.sock")
	if len(socket) > 107 {
		return fmt.Errorf("%s: the path of the admin socket has %d bytes, 107 are the most: choose a shorter data folder", socket, len(socket))
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		l.Close()
		return err
	}
	p.fronts.run("admin", func(ctx context.Context) error { return admin.Serve(ctx, l, p) })
	return nil
}

// Wait returns when ctx ends, or with the error of a part that cannot go on.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case err := <-p.fronts.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Close ends the front ends, publishes what is dirty as long as ctx lasts, and closes all.
func (p *Process) Close(ctx context.Context) error {
	var errs []error
	if p.fronts != nil {
		errs = append(errs, p.fronts.close())
	}
	switch {
	case p.remote != nil:
		errs = append(errs, p.remote.Close(ctx))
	case p.spoke != nil:
		errs = append(errs, p.spoke.Close(ctx))
	}
	if p.hub != nil {
		errs = append(errs, p.hub.Close())
	}
	return errors.Join(errs...)
}
