package main

import (
	"context"
	"errors"
	"os"

	"github.com/spokefs/spokefs/cmd/spokefs/node"
	"github.com/spokefs/spokefs/fabric/admin"
)

type mountCmd struct {
	logging
	Portal string `arg:"" help:"Portal to mount."`
	Dir    string `arg:"" help:"Directory to mount it on; made if it is not there." type:"path"`
	Data   string `help:"Data folder of a node that has joined a hub." required:"" type:"path"`
	Wan    string `help:"If the node is started: shape its link to the hub, as 40ms,200mbit."`
}

// Help is shown by --help.
func (mountCmd) Help() string {
	return `Asks the node with that data folder to mount, and returns. Where none runs, runs the node in the
foreground with this one mount, until it is interrupted.`
}

// Run implements the command.
func (c *mountCmd) Run(ctx context.Context) error {
	socket := socketOf(c.Data)
	if _, err := os.Stat(socket); err == nil {
		n := admin.Dial(socket)
		if _, err := n.Status(ctx); err == nil {
			return n.Mount(ctx, admin.Mount{Portal: c.Portal, Dir: c.Dir})
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s := &node.SpokeConfig{Data: c.Data, Wan: c.Wan, FUSE: []node.FUSEMount{{Portal: c.Portal, Dir: c.Dir}}}
	return serve(ctx, node.Config{Spoke: s.WithDefaults()}, c.logger(), announce)
}
