package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/spoke"
	"github.com/spokefs/spokefs/fabric/system"
)

// LocalSite is a hub with one spoke beside it, in this process: the smallest whole system. It is
// for tests and trials of front ends; a real node is made by its configuration.
type LocalSite struct {
	// Portals has one portal, "main", of the namespace "main" from its root on.
	Portals fabric.Portals

	Hub   *Hub
	Spoke *Spoke // the first
	dir   string
	log   *slog.Logger
	more  []*Spoke
}

// Local opens the hub in dir/hub and the spoke in dir/spoke, and makes the namespace "main" if it
// is not there. What an earlier process left in dir is served again. Close ends it.
func Local(ctx context.Context, dir string, log *slog.Logger) (*LocalSite, error) {
	text := fmt.Appendf(nil, "[hub]\ndata = %q\n[spoke]\ndata = %q\n", filepath.Join(dir, "hub"), filepath.Join(dir, "spoke"))
	c, err := Parse("local", text)
	if err != nil {
		return nil, err
	}
	hub, err := OpenHub(ctx, *c.Hub, log)
	if err != nil {
		return nil, err
	}
	if err := hub.CreateNamespace(ctx, "main"); err != nil && fabric.CodeOf(err) != fabric.Exist {
		return nil, errors.Join(err, hub.Close())
	}
	engine, err := hub.namespace("main")
	if err != nil {
		return nil, errors.Join(err, hub.Close())
	}
	beside := func(string) spoke.Connector { return &beside{engine: engine.engine, node: "spoke"} }
	sp, err := OpenSpoke(*c.Spoke, beside, log)
	if err != nil {
		return nil, errors.Join(err, hub.Close())
	}
	if err := sp.Attach(ctx, "main"); err != nil {
		return nil, errors.Join(err, sp.Close(ctx), hub.Close())
	}
	sp.Show([]system.Portal{{Name: "main", Namespace: "main", Path: "/"}})
	return &LocalSite{Portals: sp.Site, Hub: hub, Spoke: sp, dir: dir, log: log}, nil
}

// Close publishes what is dirty, as long as ctx lasts, and closes both.
func (l *LocalSite) Close(ctx context.Context) error {
	var errs []error
	for _, sp := range l.more {
		errs = append(errs, sp.Close(ctx))
	}
	return errors.Join(append(errs, l.Spoke.Close(ctx), l.Hub.Close())...)
}

// Join starts another spoke beside the hub, in dir/name; Close closes it too.
func (l *LocalSite) Join(ctx context.Context, name string) (*Spoke, error) {
	c, err := Parse("local", fmt.Appendf(nil, "[spoke]\ndata = %q\n", filepath.Join(l.dir, name)))
	if err != nil {
		return nil, err
	}
	served, err := l.Hub.namespace("main")
	if err != nil {
		return nil, err
	}
	sp, err := OpenSpoke(*c.Spoke, func(string) spoke.Connector { return &beside{engine: served.engine, node: name} }, l.log)
	if err != nil {
		return nil, err
	}
	if err := sp.Attach(ctx, "main"); err != nil {
		return nil, errors.Join(err, sp.Close(ctx))
	}
	sp.Show([]system.Portal{{Name: "main", Namespace: "main", Path: "/"}})
	l.more = append(l.more, sp)
	return sp, nil
}
