package main

import (
	"context"
	"os"

	"github.com/spokefs/spokefs/e2e/demo"
)

type demoCmd struct {
	Dir  string `arg:"" optional:"" type:"existingdir" help:"Tree to load. Default: the Go toolchain's own source."`
	Wan  string `help:"Link between hub and spoke." default:"40ms,200mbit"`
	JSON bool   `help:"Print the table as JSON."`
	Keep bool   `help:"Leave the folder with logs and state, and say where it is."`
}

// Help is shown by --help.
func (demoCmd) Help() string {
	return `Starts a hub and a spoke as processes of their own, needs no 'spokefs up', and leaves nothing behind.
Every file is read through each protocol and its SHA-256 compared; the exit status is not 0 if one
byte differs.`
}

// Run implements the command.
func (c *demoCmd) Run(ctx context.Context) error {
	return demo.Run(ctx, demo.Config{Dir: c.Dir, Wan: c.Wan, JSON: c.JSON, Keep: c.Keep, Out: os.Stdout, Progress: os.Stderr})
}
