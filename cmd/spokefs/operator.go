package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
)

// target is which node a verb talks to.
type target struct {
	Socket string `help:"Socket of the node: admin.sock in its data folder." env:"SPOKEFS_SOCKET" default:"${data}/admin.sock" placeholder:"PATH"`
}

func (t target) node() *admin.Client { return admin.Dial(t.Socket) }

// table prints rows in columns.
func table(rows [][]string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	w.Flush()
}

type namespaceCmd struct {
	Create struct {
		target
		Name string `arg:"" help:"3 to 63 of a-z, 0-9 and -."`
	} `cmd:"" help:"Make an empty namespace, and a portal of the same name that shows all of it."`
	List struct {
		target
	} `cmd:"" help:"List the namespaces."`
}

// Run implements the command.
func (c *namespaceCmd) Run(ctx context.Context) error {
	if name := c.Create.Name; name != "" {
		n := c.Create.node()
		if err := n.CreateNamespace(ctx, name); err != nil {
			return err
		}
		return n.SetPortal(ctx, system.Portal{Name: name, Namespace: name, Path: "/"})
	}
	s, err := c.List.node().Status(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"NAMESPACE", "ID", "BYTES", "FILES"}}
	for _, n := range s.Namespaces {
		rows = append(rows, []string{n.Name, fmt.Sprintf("%#x", n.ID), size(n.Usage.Bytes - n.Usage.FreeBytes), fmt.Sprint(n.Usage.Inodes - n.Usage.FreeInodes)})
	}
	table(rows)
	return nil
}

type portalCmd struct {
	Create portalCreate `cmd:"" help:"Create a portal, or change it."`
	List   portalList   `cmd:"" help:"List the portals."`
	Remove portalRemove `cmd:"" help:"Remove a portal; its files stay in the namespace."`
}

type portalCreate struct {
	target
	Name         string   `arg:"" help:"Also the S3 bucket's name: 3 to 63 of a-z, 0-9 and -."`
	Namespace    string   `help:"Namespace it shows." required:""`
	Path         string   `help:"Subtree it shows." default:"/"`
	ReadOnly     bool     `help:"Refuse every change."`
	Protocols    []string `help:"Protocols that may show it: nfs, fuse, s3. Default: all."`
	Clients      []string `help:"Networks that may mount it over NFS, such as 10.0.0.0/8. Default: loopback only."`
	NoRootSquash bool     `help:"Let uid 0 of NFS clients be root."`
}

// Run implements the command.
func (c *portalCreate) Run(ctx context.Context) error {
	p := system.Portal{
		Name: c.Name, Namespace: c.Namespace, Path: c.Path,
		ReadOnly: c.ReadOnly, Protocols: c.Protocols, NoRootSquash: c.NoRootSquash,
	}
	for _, s := range c.Clients {
		n, err := netip.ParsePrefix(s)
		if err != nil {
			return fmt.Errorf("--clients: %w", err)
		}
		p.Clients = append(p.Clients, n)
	}
	return c.node().SetPortal(ctx, p)
}

type portalList struct{ target }

// Run implements the command.
func (c *portalList) Run(ctx context.Context) error {
	ps, err := c.node().Portals(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"PORTAL", "NAMESPACE", "PATH", "MODE", "PROTOCOLS"}}
	for _, p := range ps {
		mode, protocols := "rw", "all"
		if p.ReadOnly {
			mode = "ro"
		}
		if len(p.Protocols) > 0 {
			protocols = strings.Join(p.Protocols, ",")
		}
		rows = append(rows, []string{p.Name, p.Namespace, p.Path, mode, protocols})
	}
	table(rows)
	return nil
}

type portalRemove struct {
	target
	Name string `arg:""`
}

// Run implements the command.
func (c *portalRemove) Run(ctx context.Context) error { return c.node().RemovePortal(ctx, c.Name) }

type keyCmd struct {
	Create keyCreate `cmd:"" help:"Create an S3 key and print its secret, once."`
	List   keyList   `cmd:"" help:"List the S3 keys, without secrets."`
	Remove keyRemove `cmd:"" help:"Remove an S3 key."`
}

type keyCreate struct {
	target
	UID     uint32   `help:"User that the key's holder is in the files." default:"65534"`
	GID     uint32   `help:"Group." default:"65534"`
	Buckets []string `help:"Portals it may use. Default: all."`
}

// Run implements the command.
func (c *keyCreate) Run(ctx context.Context) error {
	k := newKey()
	k.UID, k.GID, k.Buckets = c.UID, c.GID, c.Buckets
	if err := c.node().SetKey(ctx, k); err != nil {
		return err
	}
	fmt.Printf("AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n", k.Access, k.Secret)
	return nil
}

// newKey makes a random S3 key.
func newKey() system.Key {
	var p [40]byte
	rand.Read(p[:])
	return system.Key{
		Access: "SPOKE" + strings.ToUpper(hex.EncodeToString(p[:8])),
		Secret: base64.RawURLEncoding.EncodeToString(p[8:]),
	}
}

type keyList struct{ target }

// Run implements the command.
func (c *keyList) Run(ctx context.Context) error {
	ks, err := c.node().Keys(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"KEY", "UID", "GID", "BUCKETS"}}
	for _, k := range ks {
		buckets := "all"
		if len(k.Buckets) > 0 {
			buckets = strings.Join(k.Buckets, ",")
		}
		rows = append(rows, []string{k.Access, fmt.Sprint(k.UID), fmt.Sprint(k.GID), buckets})
	}
	table(rows)
	return nil
}

type keyRemove struct {
	target
	Key string `arg:""`
}

// Run implements the command.
func (c *keyRemove) Run(ctx context.Context) error { return c.node().RemoveKey(ctx, c.Key) }

type fsckCmd struct{ target }

// Run implements the command.
func (c *fsckCmd) Run(ctx context.Context) error {
	found, err := c.node().Fsck(ctx)
	if err != nil {
		return err
	}
	for _, p := range found {
		fmt.Printf("%s: inode %#x: %s\n", p.Namespace, uint64(p.Ino), p.What)
	}
	if len(found) > 0 {
		return fmt.Errorf("fsck: %d problems", len(found))
	}
	fmt.Println("clean")
	return nil
}

// tokenFor asks a hub for a join token that lets a spoke work in namespaces, read and write but
// for those after a "ro:".
func tokenFor(ctx context.Context, n *admin.Client, spoke string, namespaces []string, ttl time.Duration, uses int) (string, error) {
	j := admin.Join{Spoke: spoke, TTL: ttl, Uses: uses}
	for _, name := range namespaces {
		name, ro := strings.CutPrefix(name, "ro:")
		j.Grants = append(j.Grants, system.Grant{Namespace: name, ReadOnly: ro})
	}
	return n.Token(ctx, j)
}

// size prints bytes for people.
func size(n int64) string {
	const units = "KMGTP"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// socketOf is the socket of the node with that data folder.
func socketOf(data string) string { return filepath.Join(data, "admin.sock") }
