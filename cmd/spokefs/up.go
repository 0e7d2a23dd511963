package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spokefs/spokefs/cmd/spokefs/node"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/protocols/fuse"
)

type upCmd struct {
	Data  string `help:"Folder of all state; it survives stop and start." default:"${data}" type:"path"`
	Wan   string `help:"Shape the link between hub and spoke, as 40ms,200mbit." placeholder:"RTT,RATE"`
	NFS   string `name:"nfs" help:"Address of NFS and MOUNT." default:"127.0.0.1:12049"`
	S3    string `name:"s3" help:"Address of S3." default:"127.0.0.1:19000"`
	Hub   string `help:"Address of the hub." default:"127.0.0.1:17070"`
	Mount string `help:"Mount point of the portal; empty: mnt in the data folder." type:"path"`
	Debug bool   `help:"Log what happens."`
}

// Help is shown by --help.
func (upCmd) Help() string {
	return `One process runs a hub with one voter, its packs in a local folder, and a spoke that reaches it over
gRPC and TLS. They serve one namespace, "main". Stop it with Ctrl-C; start it again and all is there.`
}

// upFiles are the folders of an `up`.
func (c *upCmd) hubData() string   { return filepath.Join(c.Data, "hub") }
func (c *upCmd) spokeData() string { return filepath.Join(c.Data, "spoke") }

// Run implements the command.
func (c *upCmd) Run(ctx context.Context) error {
	level := slog.LevelWarn
	if c.Debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	hc := &node.HubConfig{Data: c.hubData(), Listen: c.Hub}
	return serve(ctx, node.Config{Hub: hc.WithDefaults()}, log, func(hub *node.Process) error {
		if err := prepare(ctx, hub, c.spokeData()); err != nil {
			return err
		}
		return c.spoke(ctx, hub, log)
	})
}

// prepare makes the namespace and the spoke's node, the first time.
func prepare(ctx context.Context, hub *node.Process, spokeData string) error {
	if err := hub.CreateNamespace(ctx, "main"); err != nil && !errors.Is(err, fabric.Exist) {
		return err
	}
	if err := hub.SetPortal(ctx, system.Portal{Name: "main", Namespace: "main", Path: "/", NoRootSquash: true}); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(spokeData, "hub")); err == nil {
		return nil
	}
	t, err := hub.Token(ctx, admin.Join{Spoke: "up-spoke", Grants: []system.Grant{{Namespace: "main"}}, TTL: time.Minute, Uses: 1})
	if err != nil {
		return err
	}
	return node.JoinSpoke(ctx, spokeData, t)
}

// spoke runs the spoke until ctx ends.
func (c *upCmd) spoke(ctx context.Context, hub *node.Process, log *slog.Logger) error {
	key, err := c.key(ctx, hub)
	if err != nil {
		return err
	}
	sc := &node.SpokeConfig{Data: c.spokeData(), Wan: c.Wan, NFS: node.NFSConfig{Listen: c.NFS}, S3: node.S3Config{Listen: c.S3}}
	noFUSE := fuse.Available()
	if noFUSE == nil {
		dir := c.Mount
		if dir == "" {
			dir = filepath.Join(c.Data, "mnt")
		}
		sc.FUSE = []node.FUSEMount{{Portal: "main", Dir: dir}}
	}
	return serve(ctx, node.Config{Spoke: sc.WithDefaults()}, log, func(p *node.Process) error {
		s, err := p.Status(ctx)
		if err != nil {
			return err
		}
		c.tell(s, key, noFUSE)
		return nil
	})
}

// key is the S3 key of an `up`, made once and kept in its folder.
func (c *upCmd) key(ctx context.Context, hub *node.Process) (system.Key, error) {
	file := filepath.Join(c.Data, "s3-key")
	k := newKey()
	if p, err := os.ReadFile(file); err == nil {
		if f := strings.Fields(string(p)); len(f) == 2 {
			k.Access, k.Secret = f[0], f[1]
		}
	} else if err := os.WriteFile(file, []byte(k.Access+"\n"+k.Secret+"\n"), 0o600); err != nil {
		return k, err
	}
	return k, hub.SetKey(ctx, k)
}

// tell prints how to use what runs.
func (c *upCmd) tell(s admin.Status, key system.Key, noFUSE error) {
	fmt.Println("spokefs is up: a hub and a spoke in one process.")
	for _, e := range s.Endpoints {
		switch e.Protocol {
		case "fuse":
			fmt.Printf("  FUSE   mounted on %s\n", e.Address)
		case "nfs":
			_, port, _ := strings.Cut(e.Address, ":")
			fmt.Printf("  NFS    mount -t nfs -o vers=3,proto=tcp,nolock,port=%s,mountport=%s 127.0.0.1:/main DIR\n", port, port)
		case "s3":
			fmt.Printf("  S3     %s, bucket main\n         AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s\n", e.Address, key.Access, key.Secret)
		}
	}
	if noFUSE != nil {
		fmt.Printf("  FUSE   not here: %v\n", noFUSE)
	}
	fmt.Printf("  status spokefs status --socket %s\n", socketOf(c.spokeData()))
	fmt.Printf("  admin  spokefs portal list --socket %s\n", socketOf(c.hubData()))
	fmt.Println("Stop it with Ctrl-C; state stays in", c.Data)
}
