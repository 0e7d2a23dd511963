package local

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/spokefs/spokefs/cache"
	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/spoke"
	"github.com/spokefs/spokefs/fabric/wire"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
)

// Spoke is a spoke joined to a Hub. It ends with the test.
type Spoke struct {
	*spoke.Spoke
	Site *spoke.Site // its portals are "main", and "read-only"

	hub       *Hub
	cfg       spoke.Config
	dir       disk.Dir
	connector spoke.Connector
	journal   *journal.Journal
	tickets   tickets
}

// tickets keeps a ticket in memory; it implements spoke.Tickets.
type tickets struct {
	mu     sync.Mutex // guards ticket
	ticket namespace.Ticket
}

// Load implements spoke.Tickets.
func (t *tickets) Load() (namespace.Ticket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ticket, nil
}

// Save implements spoke.Tickets.
func (t *tickets) Save(ticket namespace.Ticket) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ticket = ticket
	return nil
}

// beside joins by pointer; it implements spoke.Connector.
type beside struct {
	hub  *Hub
	name string
}

// Connect implements spoke.Connector.
func (b beside) Connect(ctx context.Context, old namespace.Ticket) (spoke.Link, error) {
	s, ticket, info, lease, err := b.hub.engine.Open(ctx, b.name, false, old)
	if err != nil {
		return spoke.Link{}, err
	}
	return spoke.Link{Hub: s, Blobs: s.Blobs(), Info: info, Ticket: ticket, Lease: lease}, nil
}

// remote joins over the wire; it implements spoke.Connector.
type remote struct{ client *wire.Client }

// Connect implements spoke.Connector.
func (r remote) Connect(ctx context.Context, old namespace.Ticket) (spoke.Link, error) {
	conn, info, ticket, lease, err := r.client.Connect(ctx, "main", old)
	if err != nil {
		return spoke.Link{}, err
	}
	return spoke.Link{Hub: conn, Blobs: conn.Blobs(), Info: info, Ticket: ticket, Lease: lease}, nil
}

// Beside starts a spoke that calls the hub directly.
func (h *Hub) Beside(name string, cfg spoke.Config) *Spoke {
	h.t.Helper()
	return h.join(cfg, beside{h, name})
}

// Remote starts a spoke that reaches the hub by gRPC and TLS over the loopback.
func (h *Hub) Remote(name string, cfg spoke.Config) *Spoke {
	h.t.Helper()
	h.serve()
	token, err := identity.NewToken(h.addr, name, h.ca.Pin())
	h.must(err)
	id, err := wire.Join(h.ctx, wire.Config{}, token, "n1")
	h.must(err)
	client, err := wire.Dial(wire.Config{}, identity.ClientTLS(id), h.addr)
	h.must(err)
	h.t.Cleanup(func() { client.Close() })
	return h.join(cfg, remote{client})
}

func (h *Hub) join(cfg spoke.Config, c spoke.Connector) *Spoke {
	h.t.Helper()
	dir, err := disk.OS(h.t.TempDir())
	h.must(err)
	s := &Spoke{hub: h, cfg: cfg, dir: dir, connector: c}
	h.must(s.start())
	h.t.Cleanup(func() {
		if err := s.stop(); err != nil {
			h.t.Error(err)
		}
	})
	return s
}

// Restart ends the spoke, as on an orderly stop, and starts it anew on the same disk. Files open
// there are dead after.
func (s *Spoke) Restart() {
	s.hub.t.Helper()
	s.hub.must(errors.Join(s.stop(), s.start()))
}

// Portal is the whole namespace.
func (s *Spoke) Portal(name string) fabric.Portal {
	s.hub.t.Helper()
	p, err := s.Site.Portal(name)
	s.hub.must(err)
	return p
}

func (s *Spoke) start() error {
	sub := func(name string) disk.Dir {
		d, err := s.dir.Dir(name)
		s.hub.must(err)
		return d
	}
	var err error
	if s.journal, err = journal.Open(journal.Config{}, sub("journal"), "main"); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	s.Spoke, err = spoke.New(s.hub.ctx, s.cfg, spoke.Deps{
		Connector: s.connector, Tickets: &s.tickets, Journal: s.journal,
		OpenCache: func(hs *chunk.Hasher, blobs storage.Blobs) (*cache.Store, error) {
			return cache.Open(cache.Config{Capacity: 64 << 20}, cache.Deps{Disk: sub("cache"), Blobs: blobs, Verify: hs.Verify, Slog: log})
		},
		Boot: boot, Wall: time.Now, Slog: log,
	})
	if err != nil {
		return errors.Join(err, s.journal.Close())
	}
	s.Site = spoke.NewSite()
	s.Site.Set("main", s.Spoke, "/", fabric.Policy{})
	s.Site.Set("read-only", s.Spoke, "/", fabric.Policy{ReadOnly: true})
	return nil
}

func (s *Spoke) stop() error {
	return errors.Join(s.Close(context.Background()), s.journal.Close())
}
