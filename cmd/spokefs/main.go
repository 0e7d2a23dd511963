// Command spokefs is the one binary of spokefs: hub, spoke, mounts and the operator's verbs.
// There is a file per command: flags and help here, the work in cmd/spokefs/node and below.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

// cli is the grammar: a field per command.
type cli struct {
	Up        upCmd        `cmd:"" help:"Run a hub and a spoke in one process, with defaults: the first thing to try."`
	Demo      demoCmd      `cmd:"" help:"Load a real tree at a hub, read it at a spoke over a shaped link by FUSE, NFS and S3, and check every byte."`
	Hub       hubCmd       `cmd:"" help:"Run a hub node from a config file."`
	Spoke     spokeCmd     `cmd:"" help:"Run a spoke node, or make this machine one."`
	Mount     mountCmd     `cmd:"" help:"Mount a portal on this machine through its spoke."`
	Status    statusCmd    `cmd:"" help:"Tell how a node is."`
	Namespace namespaceCmd `cmd:"" help:"Create and list namespaces."`
	Portal    portalCmd    `cmd:"" help:"Create, list and remove portals: the subtrees that spokes show."`
	Key       keyCmd       `cmd:"" help:"Create, list and remove S3 keys."`
	Ls        lsCmd        `cmd:"" help:"List a directory of a portal."`
	Cat       catCmd       `cmd:"" help:"Print a file of a portal."`
	Cp        cpCmd        `cmd:"" help:"Copy files and trees into or out of a portal."`
	Fsck      fsckCmd      `cmd:"" help:"Check the hub's metadata and its packs' index; prints each finding."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

const about = `spokefs shows one set of files at many sites, coherent and at local speed.

A hub keeps namespaces: metadata in a replicated log, content as deduplicated chunks in a bucket.
Spokes elsewhere show portals of them as NFS, FUSE and S3.

Start with 'spokefs up', or 'spokefs demo' to see it work on a tree of yours.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	k := kong.Parse(&c,
		kong.Name("spokefs"), kong.Description(about), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Vars{"version": version(), "data": defaultData()})
	if err := k.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "spokefs: %v\n", err)
		os.Exit(1)
	}
}

// version is the module's version and revision, as the build recorded them.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "v0.1-dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			v += " " + s.Value[:12]
		}
	}
	return v
}

// defaultData is where `up` keeps its state.
func defaultData() string {
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return d + "/spokefs"
	}
	if home, err := os.UserHomeDir(); err == nil {
		return home + "/.local/share/spokefs"
	}
	return "/var/lib/spokefs"
}

type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run() error {
	fmt.Println("spokefs", version())
	return nil
}
