package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spokefs/spokefs/cmd/spokefs/node"
)

type spokeCmd struct {
	Start  spokeRun    `cmd:"" name:"run" help:"Run a spoke node from a config file."`
	Join   spokeJoin   `cmd:"" help:"Make a data folder of this machine a node of a spoke, by a token from the hub."`
	Token  spokeToken  `cmd:"" help:"At the hub: make a spoke known and print a token for one node of it."`
	List   spokeList   `cmd:"" help:"At the hub: list the spokes and what they are granted."`
	Revoke spokeRevoke `cmd:"" help:"At the hub: let a spoke in no more."`
}

type spokeRun struct {
	logging
	Config string `arg:"" type:"existingfile" help:"TOML file with a [spoke] table."`
}

// Help is shown by --help.
func (spokeRun) Help() string {
	return `The least a file needs, after 'spokefs spoke join':

  [spoke]
  data = "/var/lib/spokefs/spoke"

  [spoke.nfs]
  listen = "127.0.0.1:2049"

  [spoke.s3]
  listen = "127.0.0.1:9000"

  [[spoke.fuse]]
  portal = "data"
  dir = "/mnt/data"

Each front end is served only if it is named. Unknown keys are refused.`
}

// Run implements the command.
func (c *spokeRun) Run(ctx context.Context) error {
	cfg, err := node.Load(c.Config)
	if err != nil {
		return err
	}
	if cfg.Spoke == nil || cfg.Hub != nil {
		return fmt.Errorf("%s needs a [spoke] table and no [hub]", c.Config)
	}
	return serve(ctx, cfg, c.logger(), announce)
}

type spokeJoin struct {
	Token string `arg:"" help:"The token that 'spokefs spoke token' printed at the hub. It works once, within an hour."`
	Data  string `help:"Data folder of the node." required:"" type:"path"`
}

// Run implements the command.
func (c *spokeJoin) Run(ctx context.Context) error {
	if err := node.JoinSpoke(ctx, c.Data, c.Token); err != nil {
		return err
	}
	fmt.Printf("joined; run it with a config file whose [spoke] has data = %q\n", c.Data)
	return nil
}

type spokeToken struct {
	target
	Spoke     string        `arg:"" help:"The spoke's name."`
	Namespace []string      `help:"Namespaces that it may use; ro:NAME to read only." required:""`
	TTL       time.Duration `help:"How long the token is good." default:"1h"`
	Uses      int           `help:"How many nodes may use it." default:"1"`
}

// Run implements the command.
func (c *spokeToken) Run(ctx context.Context) error {
	t, err := tokenFor(ctx, c.node(), c.Spoke, c.Namespace, c.TTL, c.Uses)
	if err == nil {
		fmt.Println(t)
	}
	return err
}

type spokeList struct{ target }

// Run implements the command.
func (c *spokeList) Run(ctx context.Context) error {
	all, err := c.node().Spokes(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"SPOKE", "GRANTS", "STATE"}}
	for _, s := range all {
		var grants []string
		for _, g := range s.Grants {
			if g.ReadOnly {
				grants = append(grants, "ro:"+g.Namespace)
			} else {
				grants = append(grants, g.Namespace)
			}
		}
		state := "admitted"
		if s.Revoked {
			state = "revoked"
		}
		rows = append(rows, []string{s.Name, strings.Join(grants, ","), state})
	}
	table(rows)
	return nil
}

type spokeRevoke struct {
	target
	Spoke string `arg:""`
}

// Run implements the command.
func (c *spokeRevoke) Run(ctx context.Context) error { return c.node().Revoke(ctx, c.Spoke) }
