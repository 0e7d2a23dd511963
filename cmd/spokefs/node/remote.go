package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/spoke"
	"github.com/spokefs/spokefs/fabric/wire"
	"github.com/spokefs/spokefs/storage/disk"
)

// remote joins a spoke to a namespace over the wire. It implements spoke.Connector.
type remote struct {
	client    *wire.Client
	namespace string
}

// Connect implements spoke.Connector.
func (r *remote) Connect(ctx context.Context, old namespace.Ticket) (spoke.Link, error) {
	conn, info, ticket, lease, err := r.client.Connect(ctx, r.namespace, old)
	if err != nil {
		return spoke.Link{}, err
	}
	return spoke.Link{Hub: conn, Blobs: conn.Blobs(), Info: info, Ticket: ticket, Lease: lease}, nil
}

// wireConfig is how a spoke reaches its hub: over a shaped link, if it is told to.
func wireConfig(wan string) (wire.Config, error) {
	var c wire.Config
	if wan == "" {
		return c, nil
	}
	shape, err := wire.ParseShape(wan)
	if err != nil {
		return c, err
	}
	var d net.Dialer
	c.Dialer = shape.Dialer(func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) })
	return c, nil
}

// JoinSpoke makes a data folder a node of the spoke that a token is for: it gets a certificate from
// the hub, which redeems the token. A folder that has one keeps it, and the token stays good.
func JoinSpoke(ctx context.Context, data, token string) error {
	t, err := identity.ParseToken(token)
	if err != nil {
		return err
	}
	dir, unlock, err := claim(data, slog.Default())
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := identity.Load(dir); err == nil {
		return fmt.Errorf("%s has joined a hub already", data)
	} else if fabric.CodeOf(err) != fabric.NotExist {
		return err
	}
	var node [4]byte
	rand.Read(node[:])
	id, err := wire.Join(ctx, wire.Config{}, t, "n"+hex.EncodeToString(node[:]))
	if err != nil {
		return err
	}
	if err := writeFile(dir, "hub", []byte(t.Hub)); err != nil {
		return err
	}
	return id.Save(dir)
}

// Remote is a spoke node that reaches its hub over the wire.
type Remote struct {
	*Spoke
	name   string // of this node in its certificate
	client *wire.Client
	keys   keyring
}

// OpenRemote opens a spoke's data folder and dials its hub. It waits for nothing.
func OpenRemote(cfg SpokeConfig, open func(dial func(ns string) spoke.Connector) (*Spoke, error)) (*Remote, error) {
	dir, err := disk.OS(cfg.Data)
	if err != nil {
		return nil, err
	}
	id, err := identity.Load(dir)
	if fabric.CodeOf(err) == fabric.NotExist {
		return nil, fmt.Errorf("%s has not joined a hub: run 'spokefs spoke join TOKEN --data %s'", cfg.Data, cfg.Data)
	}
	if err != nil {
		return nil, err
	}
	hub := cfg.Hub
	if hub == "" {
		p, err := readFile(dir, "hub")
		if err != nil {
			return nil, err
		}
		hub = string(p)
	}
	wc, err := wireConfig(cfg.Wan)
	if err != nil {
		return nil, err
	}
	r := &Remote{name: nodeName(id.Peer())}
	if r.client, err = wire.Dial(wc, identity.ClientTLS(id), hub); err != nil {
		return nil, err
	}
	if r.Spoke, err = open(func(ns string) spoke.Connector { return &remote{r.client, ns} }); err != nil {
		r.client.Close()
		return nil, err
	}
	return r, nil
}

// Refresh asks the hub what this spoke may show, and shows it. It waits for a hub that cannot be
// reached, as long as ctx lasts.
func (r *Remote) Refresh(ctx context.Context) error {
	for {
		err := r.refresh(ctx)
		if fabric.CodeOf(err) != fabric.Unavailable {
			return err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (r *Remote) refresh(ctx context.Context) error {
	p, err := r.client.Site(ctx)
	if err != nil {
		return err
	}
	var doc siteDoc
	if err := json.Unmarshal(p, &doc); err != nil || doc.Version != 1 {
		return fmt.Errorf("the hub's list of portals is not one of version 1: %w", errors.Join(err, fabric.Unsupported))
	}
	for _, g := range doc.Grants {
		if err := r.Attach(ctx, g.Namespace); err != nil {
			return err
		}
	}
	r.keys.set(doc.Keys)
	r.Show(doc.Portals)
	return nil
}

// Close publishes what is dirty, as long as ctx lasts, and leaves the hub.
func (r *Remote) Close(ctx context.Context) error {
	return errors.Join(r.Spoke.Close(ctx), r.client.Close())
}
