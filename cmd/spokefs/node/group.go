package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spokefs/spokefs/fabric/consensus"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/state"
	"github.com/spokefs/spokefs/storage/disk"
)

// group is one Raft group at this node: its log and its state.
type group struct {
	log   *consensus.Log
	state *state.Machine
}

// openGroup opens a group's state and then its log, which brings the state up to date.
func openGroup(dir disk.Dir, name, node string, apply func(v kv.View, index uint64, cmd []byte) []byte, fatal func(error), log *slog.Logger) (*group, error) {
	stateDir, err := dir.Dir("state")
	if err != nil {
		return nil, err
	}
	logDir, err := dir.Dir("log")
	if err != nil {
		return nil, err
	}
	g := &group{}
	if g.state, err = state.Open(state.Config{Apply: apply}, stateDir); err != nil {
		return nil, err
	}
	stream := consensus.Alone()
	g.log, err = consensus.New(consensus.Config{
		Group: name, Node: node, Voters: []consensus.Voter{{ID: node, Addr: stream.Addr().String()}},
	}, g.state, consensus.Deps{Disk: logDir, Stream: stream, Fatal: fatal, Slog: log})
	if err != nil {
		g.state.Close()
		return nil, err
	}
	return g, nil
}

// propose waits until this node leads and proposes one command.
func (g *group) propose(ctx context.Context, cmd []byte) ([]byte, error) {
	if err := g.lead(ctx); err != nil {
		return nil, err
	}
	return g.log.Propose(ctx, cmd)
}

// lead waits until this node leads the group and has applied all that came before.
func (g *group) lead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		_, ours, changed := g.log.Leading()
		if ours {
			return g.log.Barrier(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("no leader: %w", ctx.Err())
		}
	}
}

// close stops the log, then the state, which is flushed.
func (g *group) close() error {
	err := g.log.Close()
	if e := g.state.Close(); err == nil {
		err = e
	}
	return err
}
