package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/admin"
)

// place is a path in a portal, written "portal:/path".
type place struct{ portal, path string }

// parsePlace splits "portal:/path"; ok is false for a local path.
func parsePlace(s string) (p place, ok bool) {
	portal, rest, found := strings.Cut(s, ":")
	if !found || strings.Contains(portal, "/") {
		return place{}, false
	}
	return place{portal, path.Join("/", rest)}, true
}

func mustPlace(s string) (place, error) {
	p, ok := parsePlace(s)
	if !ok {
		return p, fmt.Errorf("%q is not portal:/path", s)
	}
	return p, nil
}

type lsCmd struct {
	target
	Long bool   `short:"l" help:"With mode, owner, size and time."`
	Path string `arg:"" help:"portal:/path"`
}

// Run implements the command.
func (c *lsCmd) Run(ctx context.Context) error {
	p, err := mustPlace(c.Path)
	if err != nil {
		return err
	}
	fs, err := c.node().List(ctx, p.portal, p.path)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, f := range fs {
		if !c.Long {
			fmt.Println(f.Name)
			continue
		}
		a := f.Attr
		rows = append(rows, []string{
			mode(a).String(), fmt.Sprint(a.Nlink), fmt.Sprint(a.UID), fmt.Sprint(a.GID), fmt.Sprint(a.Size),
			time.Unix(0, int64(a.Mtime)).Format("2006-01-02 15:04"), f.Name,
		})
	}
	table(rows)
	return nil
}

// mode is an inode's type and mode bits as Go has them.
func mode(a fabric.Attr) fs.FileMode {
	m := fs.FileMode(a.Mode & fabric.ModePerm)
	switch a.Type {
	case fabric.TypeDir:
		m |= fs.ModeDir
	case fabric.TypeSymlink:
		m |= fs.ModeSymlink
	case fabric.TypeFifo:
		m |= fs.ModeNamedPipe
	case fabric.TypeSocket:
		m |= fs.ModeSocket
	case fabric.TypeChar:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case fabric.TypeBlock:
		m |= fs.ModeDevice
	}
	return m
}

type catCmd struct {
	target
	Path string `arg:"" help:"portal:/path"`
}

// Run implements the command.
func (c *catCmd) Run(ctx context.Context) error {
	p, err := mustPlace(c.Path)
	if err != nil {
		return err
	}
	return c.node().Read(ctx, p.portal, p.path, os.Stdout)
}

type cpCmd struct {
	target
	Recursive bool   `short:"r" help:"Copy directories with all they hold."`
	From      string `arg:"" help:"A local path, or portal:/path."`
	To        string `arg:"" help:"A local path, or portal:/path. Exactly one of the two is in a portal."`
}

// Run implements the command.
func (c *cpCmd) Run(ctx context.Context) error {
	from, out := parsePlace(c.From)
	to, in := parsePlace(c.To)
	switch {
	case in && !out:
		return c.push(ctx, c.node(), c.From, to)
	case out && !in:
		return c.pull(ctx, c.node(), from, c.To)
	}
	return fmt.Errorf("exactly one of %q and %q must be portal:/path", c.From, c.To)
}

// push copies a local file or tree into a portal. Links are not followed and not copied.
func (c *cpCmd) push(ctx context.Context, n *admin.Client, from string, to place) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		dst := path.Join(to.path, filepath.ToSlash(rel))
		switch {
		case d.IsDir() && !c.Recursive:
			return fmt.Errorf("%s is a directory: use -r", name)
		case d.IsDir():
			return n.MakeDir(ctx, to.portal, dst)
		case !d.Type().IsRegular():
			fmt.Fprintf(os.Stderr, "spokefs: %s is not a regular file: left out\n", name)
			return nil
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return n.Write(ctx, to.portal, dst, f)
	})
}

// pull copies a file or tree of a portal to a local path.
func (c *cpCmd) pull(ctx context.Context, n *admin.Client, from place, to string) error {
	if !c.Recursive {
		if st, err := os.Stat(to); err == nil && st.IsDir() {
			to = filepath.Join(to, path.Base(from.path))
		}
		return pullFile(ctx, n, from, to)
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	entries, err := n.List(ctx, from.portal, from.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name != filepath.Base(e.Name) || e.Name == ".." || e.Name == "." {
			return fmt.Errorf("refusing the name %q", e.Name)
		}
		src, dst := place{from.portal, path.Join(from.path, e.Name)}, filepath.Join(to, e.Name)
		switch e.Attr.Type {
		case fabric.TypeDir:
			err = c.pull(ctx, n, src, dst)
		case fabric.TypeFile:
			err = pullFile(ctx, n, src, dst)
		default:
			fmt.Fprintf(os.Stderr, "spokefs: %s is not a regular file: left out\n", src.path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func pullFile(ctx context.Context, n *admin.Client, from place, to string) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return n.Read(ctx, from.portal, from.path, io.Writer(f))
}
