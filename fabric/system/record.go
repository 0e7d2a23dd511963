package system

import (
	"net/netip"
	"path"
	"strings"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
)

// Limits of the system state.
const (
	MaxName       = 63 // bytes of the name of a namespace, portal or spoke
	MaxNamespaces = 256
	MaxPortals    = 4096
	MaxSpokes     = 4096
	MaxTokens     = 4096
	MaxKeys       = 4096
	MaxUses       = 100_000 // of one token
)

// Namespace is one namespace of the hub. Its Info.ReadOnly is never set here.
type Namespace struct {
	Info namespace.Info
}

// Portal is a subtree that spokes show under one policy.
type Portal struct {
	Name      string
	Namespace string
	Path      string // of the subtree, absolute; "/" is the whole namespace
	ReadOnly  bool   `json:",omitempty"`
	Protocols []string
	// Clients are the networks that may mount it over NFS; empty: loopback only.
	Clients      []netip.Prefix `json:",omitempty"`
	NoRootSquash bool           `json:",omitempty"`
	SquashUID    uint32         `json:",omitempty"`
	SquashGID    uint32         `json:",omitempty"`
}

// Grant lets a spoke work in a namespace (A51).
type Grant struct {
	Namespace string
	ReadOnly  bool `json:",omitempty"`
}

// Spoke is a site that may join.
type Spoke struct {
	Name    string
	Grants  []Grant
	Revoked bool `json:",omitempty"`
}

// Token lets a node join as a spoke, Uses times before Expires (A56). Hash is SHA-256 of the
// token's secret; the secret itself is nowhere.
type Token struct {
	Hash    [32]byte
	Spoke   string
	Expires fabric.Time
	Uses    int // left
}

// Key is an S3 access key and who its holder is in the files.
type Key struct {
	Access  string
	Secret  string
	UID     uint32
	GID     uint32
	Buckets []string `json:",omitempty"` // portals it may use; empty: all
}

// checkName says whether s can name a namespace, portal or spoke: as an S3 bucket's name, since
// portals are buckets.
func checkName(s string) fabric.Code {
	if len(s) > MaxName {
		return fabric.NameTooLong
	}
	if len(s) < 3 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || s[0] == '-' || s[len(s)-1] == '-' {
		return fabric.Invalid
	}
	return fabric.OK
}

// check says whether p makes sense by itself.
func (p *Portal) check() fabric.Code {
	if c := checkName(p.Name); c != fabric.OK {
		return c
	}
	if !path.IsAbs(p.Path) || path.Clean(p.Path) != p.Path {
		return fabric.Invalid
	}
	for _, proto := range p.Protocols {
		if proto != "nfs" && proto != "fuse" && proto != "s3" {
			return fabric.Invalid
		}
	}
	return fabric.OK
}

// Policy is the portal's policy as front ends have it.
func (p *Portal) Policy() fabric.Policy {
	return fabric.Policy{
		ReadOnly: p.ReadOnly, Protocols: p.Protocols, Clients: p.Clients,
		NoRootSquash: p.NoRootSquash, SquashUID: p.SquashUID, SquashGID: p.SquashGID,
	}
}

// Granted gives the grant of a spoke for a namespace.
func (s *Spoke) Granted(ns string) (Grant, bool) {
	for _, g := range s.Grants {
		if g.Namespace == ns && !s.Revoked {
			return g, true
		}
	}
	return Grant{}, false
}
