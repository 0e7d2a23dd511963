package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

type statusCmd struct {
	target
	JSON bool `help:"Print all of it as JSON."`
}

// Run implements the command.
func (c *statusCmd) Run(ctx context.Context) error {
	s, err := c.node().Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	fmt.Printf("%s %s, version %s, pid %d, up %v\n", s.Role, s.Node, s.Version, s.PID, s.Up.Round(time.Second))
	for _, e := range s.Endpoints {
		fmt.Printf("  %-5s %s  %s\n", e.Protocol, e.Address, e.Note)
	}
	rows := [][]string{{"NAMESPACE", "STATE", "SESSIONS", "DIRTY", "PARKED", "BYTES", "FILES"}}
	for _, n := range s.Namespaces {
		state := n.State
		if n.Leading {
			state = strings.TrimSpace("leading " + state)
		}
		rows = append(rows, []string{
			n.Name, state, fmt.Sprint(len(n.Sessions)), fmt.Sprintf("%d (%s)", n.Dirty, size(n.Bytes)), fmt.Sprint(n.Parked),
			size(n.Usage.Bytes - n.Usage.FreeBytes), fmt.Sprint(n.Usage.Inodes - n.Usage.FreeInodes),
		})
	}
	table(rows)
	fmt.Printf("cache %s of %s, %d hits, %d misses, %d corrupt\n", size(s.Cache.Bytes), size(s.Cache.Limit), s.Cache.Hits, s.Cache.Misses, s.Cache.Corrupt)
	fmt.Printf("wan   %s received, %s sent; clients read %s\n", size(s.Wan.Received), size(s.Wan.Sent), size(s.Wan.Asked))
	return nil
}
