package nfs

import (
	"net/netip"
	"slices"

	"github.com/spokefs/spokefs/fabric"
)

// under gives a client's claim under a policy: root is squashed unless it says otherwise, and
// nobody is whom the policy names.
func under(c fabric.Cred, p *fabric.Policy) fabric.Cred {
	uid, gid := p.SquashUID, p.SquashGID
	if uid == 0 {
		uid = nobody
	}
	if gid == 0 {
		gid = nobody
	}
	switch {
	case c.UID == nobody || c.UID == 0 && !p.NoRootSquash:
		return fabric.Cred{UID: uid, GID: gid}
	case p.NoRootSquash:
		return c
	}
	out := fabric.Cred{UID: c.UID, GID: c.GID, Groups: slices.Clone(c.Groups)}
	if out.GID == 0 {
		out.GID = gid
	}
	for i, g := range out.Groups {
		if g == 0 {
			out.Groups[i] = gid
		}
	}
	return out
}

// admits says whether a portal may be used over NFS from an address.
func admits(p *fabric.Policy, from netip.Addr) bool {
	if len(p.Protocols) > 0 && !slices.Contains(p.Protocols, "nfs") {
		return false
	}
	if len(p.Clients) == 0 {
		return from.IsLoopback()
	}
	return slices.ContainsFunc(p.Clients, func(n netip.Prefix) bool { return n.Contains(from) })
}
