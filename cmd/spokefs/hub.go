package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spokefs/spokefs/cmd/spokefs/node"
)

// logging is how a daemon logs.
type logging struct {
	LogLevel slog.Level `help:"Least level to log: debug, info, warn or error." default:"info"`
	LogJSON  bool       `help:"Log as JSON."`
}

func (l logging) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: l.LogLevel}
	if l.LogJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}

// closeTime is how long a stop may take to publish what is dirty.
const closeTime = 60 * time.Second

// serve runs a configuration until ctx ends, and calls ready when it serves.
func serve(ctx context.Context, cfg node.Config, log *slog.Logger, ready func(p *node.Process) error) error {
	p, err := node.Start(ctx, cfg, version(), log)
	if err != nil {
		return err
	}
	if err = ready(p); err == nil {
		err = p.Wait(ctx)
	}
	c, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if e := p.Close(c); err == nil {
		err = e
	}
	return err
}

type hubCmd struct {
	logging
	Config string `arg:"" type:"existingfile" help:"TOML file with a [hub] table; a [spoke] table configures the spoke beside it."`
}

// Help is shown by --help.
func (hubCmd) Help() string {
	return `The least a file needs:

  [hub]
  data = "/var/lib/spokefs/hub"
  listen = "10.0.0.1:7070"

  [hub.bucket]
  kind = "s3"
  endpoint = "https://s3.example.org"
  bucket = "spokefs"
  credentials = "/etc/spokefs/s3"

Without [hub.bucket] packs are kept in a folder of data. Unknown keys are refused.`
}

// Run implements the command.
func (c *hubCmd) Run(ctx context.Context) error {
	cfg, err := node.Load(c.Config)
	if err != nil {
		return err
	}
	if cfg.Hub == nil {
		return fmt.Errorf("%s has no [hub] table", c.Config)
	}
	return serve(ctx, cfg, c.logger(), announce)
}

// announce tells whoever started this process where things are.
func announce(p *node.Process) error {
	s, err := p.Status(context.Background())
	if err != nil {
		return err
	}
	for _, e := range s.Endpoints {
		fmt.Printf("%-5s %s  %s\n", e.Protocol, e.Address, e.Note)
	}
	fmt.Println("ready")
	return nil
}
