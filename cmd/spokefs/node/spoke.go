package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spokefs/spokefs/cache"
	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/spoke"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
)

// Spoke is a spoke node: a spoke.Spoke per namespace it is granted, and the portals it shows.
type Spoke struct {
	cfg    SpokeConfig
	dir    disk.Dir
	unlock func() error
	slog   *slog.Logger
	// connector joins this node to a namespace.
	connector func(namespace string) spoke.Connector

	Site *spoke.Site

	mu     sync.Mutex // guards spokes
	spokes map[string]*attached
}

// attached is one namespace at this node.
type attached struct {
	spoke   *spoke.Spoke
	journal *journal.Journal
}

// OpenSpoke opens a spoke's data folder; Attach begins to serve namespaces.
func OpenSpoke(cfg SpokeConfig, connector func(namespace string) spoke.Connector, log *slog.Logger) (*Spoke, error) {
	dir, unlock, err := claim(cfg.Data, log)
	if err != nil {
		return nil, fmt.Errorf("spoke: %w", err)
	}
	return &Spoke{
		cfg: cfg, dir: dir, unlock: unlock, slog: log, connector: connector,
		Site: spoke.NewSite(), spokes: map[string]*attached{},
	}, nil
}

// tickets keeps a namespace's ticket in its folder.
type tickets struct{ dir disk.Dir }

// Load implements spoke.Tickets.
func (t tickets) Load() (namespace.Ticket, error) {
	p, err := readFile(t.dir, "ticket")
	if err != nil || len(p) == 0 {
		return namespace.Ticket{}, err
	}
	return namespace.DecodeTicket(p)
}

// Save implements spoke.Tickets.
func (t tickets) Save(ticket namespace.Ticket) error {
	return writeFile(t.dir, "ticket", namespace.AppendTicket(nil, &ticket))
}

// Attach connects to a namespace and replays what an earlier process left. It waits for the hub
// until ctx ends.
func (s *Spoke) Attach(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spokes[name] != nil {
		return nil
	}
	all, err := s.dir.Dir("namespaces")
	if err != nil {
		return err
	}
	dir, err := all.Dir(name)
	if err != nil {
		return err
	}
	cacheDir, err := dir.Dir("cache")
	if err != nil {
		return err
	}
	journalDir, err := dir.Dir("journal")
	if err != nil {
		return err
	}
	a := &attached{}
	if a.journal, err = journal.Open(journal.Config{Quota: s.cfg.Journal.Bytes}, journalDir, name); err != nil {
		return err
	}
	conf := spoke.Config{}
	if s.cfg.Prefetch != nil && !*s.cfg.Prefetch {
		conf.Ahead = -1
	}
	a.spoke, err = spoke.New(ctx, conf, spoke.Deps{
		Connector: s.connector(name), Tickets: tickets{dir}, Journal: a.journal,
		OpenCache: func(h *chunk.Hasher, blobs storage.Blobs) (*cache.Store, error) {
			return cache.Open(cache.Config{Capacity: s.cfg.Cache.Bytes}, cache.Deps{Disk: cacheDir, Blobs: blobs, Verify: h.Verify, Slog: s.slog})
		},
		Boot: boot, Wall: time.Now, Slog: s.slog.With("namespace", name),
	})
	if err != nil {
		return errors.Join(fmt.Errorf("namespace %s: %w", name, err), a.journal.Close())
	}
	s.spokes[name] = a
	return nil
}

// Show makes the portals those that are given, of the namespaces that are attached.
func (s *Spoke) Show(portals []system.Portal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := map[string]bool{}
	for _, p := range portals {
		if a := s.spokes[p.Namespace]; a != nil {
			s.Site.Set(p.Name, a.spoke, p.Path, p.Policy())
			keep[p.Name] = true
		}
	}
	for _, name := range s.Site.Names() {
		if !keep[name] {
			s.Site.Remove(name)
		}
	}
}

// Close publishes what is dirty, as long as ctx lasts, and gives the data folder back.
func (s *Spoke) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for name, a := range s.spokes {
		if err := a.spoke.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("namespace %s: %w", name, err))
		}
		errs = append(errs, a.journal.Close())
		delete(s.spokes, name)
	}
	return errors.Join(append(errs, s.unlock())...)
}
