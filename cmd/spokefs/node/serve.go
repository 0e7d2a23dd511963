package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/fabric/wire"
)

// siteDoc is what a hub tells a spoke that it may show (docs/protocols/wire.md).
type siteDoc struct {
	Version int             `json:"version"`
	Grants  []system.Grant  `json:"grants"`
	Portals []system.Portal `json:"portals"`
	Keys    []system.Key    `json:"keys"`
}

// gate answers the calls of spokes that come over the wire: it checks grants, and hands sessions to
// the namespaces' engines. It implements wire.Deps.
type gate struct{ h *Hub }

// Join implements wire.Deps.
func (g gate) Join(ctx context.Context, secretHash [32]byte, spokeName, node string, csr []byte) (cert, ca []byte, err error) {
	c := system.Command{RedeemToken: &system.Redeem{Hash: secretHash, Spoke: spokeName}}
	if _, err := g.h.change(ctx, "join", c); err != nil {
		return nil, nil, err
	}
	cert, err = g.h.ca.Sign(csr, spokeName, node)
	return cert, g.h.ca.Cert(), err
}

// Site implements wire.Deps.
func (g gate) Site(ctx context.Context, p identity.Peer) ([]byte, error) {
	v, done, err := g.h.view(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	s, ok := system.GetSpoke(v, p.Spoke)
	if !ok || s.Revoked {
		return nil, &fabric.Error{Op: "site of " + p.Spoke, Code: fabric.Denied}
	}
	doc := siteDoc{Version: 1, Grants: s.Grants}
	for portal := range system.Portals(v) {
		if grant, ok := s.Granted(portal.Namespace); ok {
			portal.ReadOnly = portal.ReadOnly || grant.ReadOnly
			doc.Portals = append(doc.Portals, portal)
		}
	}
	for k := range system.Keys(v) {
		doc.Keys = append(doc.Keys, k)
	}
	return json.Marshal(doc)
}

// granted gives a namespace and whether the peer may only read it.
func (g gate) granted(p identity.Peer, ns string) (*served, bool, error) {
	v, done := g.h.system.state.View()
	defer done()
	s, ok := system.GetSpoke(v, p.Spoke)
	grant, may := s.Granted(ns)
	if !ok || !may {
		return nil, false, &fabric.Error{Op: fmt.Sprintf("namespace %s for %s", ns, p.Spoke), Code: fabric.Denied}
	}
	n, err := g.h.namespace(ns)
	return n, grant.ReadOnly, err
}

// nodeName is a peer's identity in a session.
func nodeName(p identity.Peer) string { return p.Spoke + "/" + p.Node }

// Open implements wire.Deps.
func (g gate) Open(ctx context.Context, p identity.Peer, ns string, old namespace.Ticket) (wire.Session, namespace.Ticket, namespace.Info, rights.Lease, error) {
	n, readOnly, err := g.granted(p, ns)
	if err != nil {
		return nil, namespace.Ticket{}, namespace.Info{}, rights.Lease{}, err
	}
	s, t, info, lease, err := n.engine.Open(ctx, nodeName(p), readOnly, old)
	if err != nil {
		return nil, t, info, lease, err
	}
	return s, t, info, lease, nil
}

// Resume implements wire.Deps.
func (g gate) Resume(ctx context.Context, p identity.Peer, ns string, t namespace.Ticket) (wire.Session, error) {
	n, _, err := g.granted(p, ns)
	if err != nil {
		return nil, err
	}
	s, err := n.engine.Resume(ctx, nodeName(p), t)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Serve answers spokes on l until ctx ends.
func (h *Hub) Serve(ctx context.Context, l net.Listener) error {
	host, _, err := net.SplitHostPort(h.advertised())
	if err != nil {
		return err
	}
	tls, err := identity.ServerTLS(h.ca, true, host)
	if err != nil {
		return err
	}
	s, err := wire.NewServer(wire.Config{}, tls, gate{h})
	if err != nil {
		return err
	}
	return s.Serve(ctx, l)
}

// advertised is where spokes are told to find this hub.
func (h *Hub) advertised() string {
	if h.cfg.Advertise != "" {
		return h.cfg.Advertise
	}
	return h.cfg.Listen
}
