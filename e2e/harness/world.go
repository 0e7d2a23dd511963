package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
)

// World is a hub and the spokes joined to it, as processes with a folder of their own.
type World struct {
	Dir string     // of all nodes; its path is short, since sockets are below it
	Key system.Key // of root, for S3 at every node
	Hub *Node

	name   string // of the namespace, the portal and the bucket
	binary string
	spokes []*Node
}

// Spec says what a node is. Ports are free ones of the loopback, and stay over restarts.
type Spec struct {
	NFS, S3   bool
	BucketsIn string        // namespace in which S3 clients make buckets; of a hub
	Wan       string        // shape of the link to the hub, as "40ms,200mbit"; of a spoke
	Lease     time.Duration // of a hub; 0: the default
	Store     *MinIO        // packs of a hub are kept there; nil: in a folder
}

// NewWorld makes a folder. binary is spokefs; name is that of its one namespace, its portal and its
// bucket.
func NewWorld(binary, name string) (*World, error) {
	dir, err := os.MkdirTemp("", "spokefs-world-")
	if err != nil {
		return nil, err
	}
	var secret [24]byte
	rand.Read(secret[:])
	key := system.Key{Access: "KEY" + hex.EncodeToString(secret[:4]), Secret: hex.EncodeToString(secret[4:])}
	return &World{Dir: dir, Key: key, name: name, binary: binary}, nil
}

// Open starts a hub for a test, whose portal is "main". It ends with the test; a failed one shows
// what the nodes logged.
func Open(t TB, hub Spec) *World {
	t.Helper()
	bin, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorld(bin, "main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.Explain(errors.New("what the nodes said")))
		}
		if err := errors.Join(w.Close(), os.RemoveAll(w.Dir)); err != nil {
			t.Error(err)
		}
	})
	if err := w.StartHub(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	return w
}

// StartHub starts the hub and makes namespace, portal and key.
func (w *World) StartHub(ctx context.Context, spec Spec) error {
	n, err := w.node(ctx, "hub", spec, "hub")
	if err != nil {
		return err
	}
	w.Hub = n
	if err := n.Admin.CreateNamespace(ctx, w.name); err != nil {
		return err
	}
	if err := n.Admin.SetPortal(ctx, system.Portal{Name: w.name, Namespace: w.name, Path: "/", NoRootSquash: true}); err != nil {
		return err
	}
	return n.Admin.SetKey(ctx, w.Key)
}

// Join starts a spoke and joins it to the hub.
func (w *World) Join(ctx context.Context, name string, spec Spec) (*Node, error) {
	token, err := w.Hub.Admin.Token(ctx, admin.Join{Spoke: name, Grants: []system.Grant{{Namespace: w.name}}, TTL: time.Minute, Uses: 1})
	if err != nil {
		return nil, err
	}
	if out, err := w.Spokefs("spoke", "join", token, "--data", filepath.Join(w.Dir, name)); err != nil {
		return nil, fmt.Errorf("join: %w: %s", err, out)
	}
	n, err := w.node(ctx, name, spec, "spoke", "run")
	if err == nil {
		w.spokes = append(w.spokes, n)
	}
	return n, err
}

// node starts a node for the first time. verb is what of spokefs it is.
func (w *World) node(ctx context.Context, name string, spec Spec, verb ...string) (*Node, error) {
	n := &Node{spec: spec, hub: verb[0] == "hub", data: filepath.Join(w.Dir, name), portal: w.name}
	n.Process = Process{name: name, log: n.file("log"), args: append(append([]string{w.binary}, verb...), n.file("toml"))}
	n.Admin = admin.Dial(n.Socket())
	return n, n.Start(ctx)
}

// Spokefs runs the program with a verb of the operator and gives what it printed.
func (w *World) Spokefs(args ...string) ([]byte, error) {
	return exec.Command(w.binary, args...).CombinedOutput()
}

// Explain adds the end of the nodes' logs to an error.
func (w *World) Explain(err error) error {
	if w.Hub != nil {
		err = w.Hub.Explain(err)
	}
	for _, n := range w.spokes {
		err = n.Explain(err)
	}
	return err
}

// Close stops the processes, the hub last. The folder is left.
func (w *World) Close() error {
	var errs []error
	for _, n := range w.spokes {
		errs = append(errs, n.Stop())
	}
	if w.Hub != nil {
		errs = append(errs, w.Hub.Stop())
	}
	return errors.Join(errs...)
}

// Node is a process of spokefs.
type Node struct {
	Process
	Admin *admin.Client

	spec      Spec
	hub       bool
	data      string
	portal    string
	mounts    []string
	endpoints map[string]string // protocol to address
}

// Start starts the node, as it was before if it ran, and waits until it serves.
func (n *Node) Start(ctx context.Context) error {
	if err := n.configure(); err != nil {
		return err
	}
	ready := make(chan struct{})
	announced := false
	found := map[string]string{}
	err := n.start(func(line string) {
		switch f := strings.Fields(line); {
		case announced:
		case line == "ready":
			announced = true
			close(ready)
		case len(f) >= 2:
			found[f[0]] = f[1]
		}
	})
	if err == nil {
		err = n.await(ctx, ready)
	}
	if err == nil {
		n.endpoints = found
	}
	return err
}

// Endpoint is where a protocol is served: "hub", "nfs" as host:port, "s3" as a URL.
func (n *Node) Endpoint(protocol string) string { return n.endpoints[protocol] }

// Mount shows the portal at dir by FUSE; a later start does it again.
func (n *Node) Mount(ctx context.Context, dir string) error {
	if err := n.Admin.Mount(ctx, admin.Mount{Portal: n.portal, Dir: dir}); err != nil {
		return err
	}
	n.mounts = append(n.mounts, dir)
	return nil
}

// Data is the node's folder.
func (n *Node) Data() string { return n.data }

// Socket is that of the node's operator.
func (n *Node) Socket() string { return filepath.Join(n.data, "admin.sock") }

// file names a file of the node beside its data.
func (n *Node) file(kind string) string { return n.data + "." + kind }

// configure writes the node's file: the addresses are those that it had.
func (n *Node) configure() error {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	listen := func(protocol string) {
		addr := strings.TrimPrefix(n.endpoints[protocol], "http://")
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		say("listen = %q", addr)
	}
	front := n.data
	if n.hub {
		front += "-home"
		say("[hub]\ndata = %q", n.data)
		listen("hub")
		if n.spec.Lease != 0 {
			say("lease = %q", n.spec.Lease.String())
		}
		if m := n.spec.Store; m != nil {
			if err := os.WriteFile(n.file("secret"), []byte(m.Access+"\n"+m.Secret+"\n"), 0o600); err != nil {
				return err
			}
			say("[hub.bucket]\nkind = \"s3\"\nendpoint = %q\nbucket = %q\ncredentials = %q", m.Endpoint, m.Bucket, n.file("secret"))
		}
	}
	say("[spoke]\ndata = %q\nwan = %q", front, n.spec.Wan)
	if n.spec.NFS {
		say("[spoke.nfs]")
		listen("nfs")
	}
	if n.spec.S3 {
		say("[spoke.s3]\nbuckets_in = %q", n.spec.BucketsIn)
		listen("s3")
	}
	for _, dir := range n.mounts {
		say("[[spoke.fuse]]\nportal = %q\ndir = %q", n.portal, dir)
	}
	return os.WriteFile(n.file("toml"), []byte(b.String()), 0o600)
}

// S3 is a client of an S3 server, such as a node's.
func S3(endpoint, access, secret string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
	})
}
