package demo

import (
	"context"
	"fmt"
	"io"
	"path"

	"github.com/spokefs/spokefs/e2e/nfsclient"
)

// independent is a client by NFS that has nothing in common with the server: one connection per
// worker, since the library's makes one call at a time.
type independent struct {
	addr, export string
	idle         chan *nfsclient.Client
}

// newNFS connects by an independent userspace client.
func newNFS(addr, export string) (client, error) {
	n := &independent{addr: addr, export: "/" + export, idle: make(chan *nfsclient.Client, workers)}
	for range workers {
		c, err := nfsclient.Dial(n.addr, n.export)
		if err != nil {
			return nil, err
		}
		n.idle <- c
	}
	return n, nil
}

func (n *independent) name() string { return "NFS" }

// with lends a connection.
func (n *independent) with(f func(c *nfsclient.Client) error) error {
	c := <-n.idle
	defer func() { n.idle <- c }()
	return f(c)
}

func (n *independent) list(context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	var walk func(c *nfsclient.Client, dir string) error
	walk = func(c *nfsclient.Client, dir string) error {
		entries, err := c.List("/" + dir)
		if err != nil {
			return fmt.Errorf("%q: %w", dir, err)
		}
		for _, e := range entries {
			if e.Name == "." || e.Name == ".." {
				continue
			}
			p := path.Join(dir, e.Name)
			if !e.Dir {
				out[p] = true
			} else if err := walk(c, p); err != nil {
				return err
			}
		}
		return nil
	}
	return out, n.with(func(c *nfsclient.Client) error { return walk(c, "") })
}

func (n *independent) read(_ context.Context, p string, w io.Writer) error {
	return n.with(func(c *nfsclient.Client) error { return c.Read("/"+p, w) })
}

func (n *independent) write(_ context.Context, p string, data io.ReadSeeker) error {
	return n.with(func(c *nfsclient.Client) error { return c.Write("/"+p, data) })
}

func (n *independent) rename(_ context.Context, old, p string) error {
	return n.with(func(c *nfsclient.Client) error { return c.Rename("/"+old, "/"+p) })
}

func (n *independent) remove(_ context.Context, p string) error {
	return n.with(func(c *nfsclient.Client) error { return c.Remove("/" + p) })
}
