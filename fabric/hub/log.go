package hub

import (
	"context"
	"errors"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
)

// Log puts the commands of one group in one durable order.
type Log interface {
	// Propose returns the result of cmd, applied here. Unknown: it may be applied later or never,
	// send the same bytes again. Unavailable: it was not proposed. cmd is not kept.
	Propose(ctx context.Context, cmd []byte) (result []byte, err error)
	// Barrier returns once an entry proposed after the call is applied here; one entry serves all
	// who wait (A3).
	Barrier(ctx context.Context) error
	// Leading: the term, whether we lead it, a channel closed when that changes.
	Leading() (t fabric.Term, ours bool, changed <-chan struct{})
}

// pause is how long a proposal whose outcome is unknown waits before it is sent again.
const pause = 10 * time.Millisecond

// barriers runs one barrier at a time for all who ask while the last one ran (A3).
func (n *Namespace) barriers(ctx context.Context) {
	for {
		var waiting []chan error
		select {
		case <-ctx.Done():
			return
		case w := <-n.asks:
			waiting = append(waiting, w)
		}
		for more := true; more; {
			select {
			case w := <-n.asks:
				waiting = append(waiting, w)
			default:
				more = false
			}
		}
		err := n.deps.Log.Barrier(ctx)
		n.mu.Lock()
		n.counts.Barriers++
		n.mu.Unlock()
		for _, w := range waiting {
			w <- err
		}
	}
}

// barrier returns once an entry proposed after the call has been applied.
func (n *Namespace) barrier(ctx context.Context) error {
	w := make(chan error, 1)
	select {
	case n.asks <- w:
	case <-ctx.Done():
		return fabric.Canceled
	}
	select {
	case err := <-w:
		if err != nil {
			return &fabric.Error{Op: "barrier", Code: fabric.Unavailable, Err: err}
		}
		return nil
	case <-ctx.Done():
		return fabric.Canceled
	}
}

// fresh waits for a barrier, and says whether term has lasted to its end.
func (n *Namespace) fresh(ctx context.Context, term fabric.Term) error {
	if err := n.barrier(ctx); err != nil {
		return err
	}
	return n.still(term)
}

func (n *Namespace) still(term fabric.Term) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.term != term {
		return fabric.Unavailable
	}
	return nil
}

// commit proposes a command until its outcome is known or the reign ends: then Unavailable, and
// it may be applied yet. Callers whose command is their own to repeat pass the reign as ctx.
func commit(ctx context.Context, log Log, c *namespace.Command) (namespace.Result, error) {
	cmd := namespace.AppendCommand(nil, c)
	if len(cmd) > namespace.MaxCommand {
		return namespace.Result{}, fabric.TooBig
	}
	for {
		p, err := log.Propose(ctx, cmd)
		if err == nil {
			res, err := namespace.DecodeResult(p)
			if err != nil {
				return res, &fabric.Error{Op: "result", Code: fabric.Internal, Err: err}
			}
			return res, nil
		}
		if !errors.Is(err, fabric.Unknown) {
			return namespace.Result{}, &fabric.Error{Op: "propose", Code: fabric.Unavailable, Err: err}
		}
		select {
		case <-ctx.Done():
			return namespace.Result{}, &fabric.Error{Op: "propose", Code: fabric.Unavailable, Err: err}
		case <-time.After(pause):
		}
	}
}

// own proposes a command of the hub itself and gives its ops' results.
func own(ctx context.Context, log Log, wall time.Time, ops ...namespace.Op) ([]namespace.OpResult, error) {
	res, err := commit(ctx, log, &namespace.Command{Wall: fabric.Time(wall.UnixNano()), Ops: ops})
	if err != nil {
		return nil, err
	}
	if res.Verdict != namespace.Applied || len(res.Ops) != len(ops) {
		return nil, &fabric.Error{Op: "command", Code: fabric.Internal}
	}
	return res.Ops, nil
}

func (n *Namespace) own(ctx context.Context, ops ...namespace.Op) ([]namespace.OpResult, error) {
	return own(ctx, n.deps.Log, n.deps.Wall(), ops...)
}
