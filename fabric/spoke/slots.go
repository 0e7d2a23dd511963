package spoke

import (
	"context"
	"sync"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
)

// The slots of a session (A33): most for changes of names and attributes, the rest for publishes,
// which must never wait for those (A12). A slot has one command at a time, so its seqs have no gap.
const (
	publishSlots = 64
	changeSlots  = namespace.Slots - publishSlots
)

// slots hands out the slots of one session.
type slots struct {
	free chan uint16 // of changes
	mu   [publishSlots]sync.Mutex
	seq  [namespace.Slots]uint32 // guarded by having the slot
}

func newSlots() *slots {
	t := &slots{free: make(chan uint16, changeSlots)}
	for i := range changeSlots {
		t.free <- uint16(i)
	}
	return t
}

// change sends ops as one command and gives their results. It is sent until its outcome is known
// or the session ends (A35); a caller that gives up leaves it to go on.
func (s *Spoke) change(ctx context.Context, ops ...namespace.Op) ([]namespace.OpResult, error) {
	ss, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	var slot uint16
	select {
	case slot = <-ss.slots.free:
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	type outcome struct {
		res []namespace.OpResult
		err error
	}
	done := make(chan outcome, 1)
	s.done.Go(func() {
		res, err := s.send(ss, slot, ops)
		ss.slots.free <- slot
		done <- outcome{res, err}
	})
	select {
	case o := <-done:
		return o.res, o.err
	case <-ctx.Done():
		return nil, ended(ctx)
	}
}

// publishOp sends a publish on a slot of its own; those of one file are in order.
func (s *Spoke) publishOp(ss *session, ino fabric.Ino, op namespace.Op) (namespace.OpResult, error) {
	i := uint64(ino) % publishSlots
	ss.slots.mu[i].Lock()
	defer ss.slots.mu[i].Unlock()
	res, err := s.send(ss, uint16(changeSlots+i), []namespace.Op{op})
	if err != nil {
		return namespace.OpResult{}, err
	}
	return res[0], nil
}

// send gives a command its place in a slot and repeats it until it is answered.
func (s *Spoke) send(ss *session, slot uint16, ops []namespace.Op) ([]namespace.OpResult, error) {
	ss.slots.seq[slot]++
	c := namespace.Command{
		From: namespace.Origin{Session: ss.link.Ticket.Session, Epoch: ss.link.Ticket.Epoch, Slot: slot, Seq: ss.slots.seq[slot]},
		Ops:  ops,
	}
	s.mu.Lock()
	t := s.sending(ops)
	s.mu.Unlock()
	res, err := s.outcome(ss, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.landed(t)
	if err != nil {
		s.unsure(ops)
		return nil, err
	}
	s.digest(ss, t.before, ops, res)
	return res.Ops, nil
}

// outcome repeats a command until its verdict is known.
func (s *Spoke) outcome(ss *session, c namespace.Command) (namespace.Result, error) {
	pause := retryPause
	for {
		grants, res, err := ss.link.Hub.Apply(ss.ctx, c)
		switch code := fabric.CodeOf(err); {
		case err == nil:
		case code == fabric.Unavailable, code == fabric.Unknown:
			if !backoff(ss.ctx, &pause) {
				return res, &fabric.Error{Op: "change", Code: fabric.Unknown, Err: err}
			}
			continue
		case ss.ctx.Err() != nil:
			return res, &fabric.Error{Op: "change", Code: fabric.Unknown, Err: err}
		default:
			// The hub refused it before it had a place in the log: the seq is free again.
			ss.slots.seq[c.From.Slot]--
			return res, err
		}
		switch res.Verdict {
		case namespace.Applied:
			s.mu.Lock()
			for _, g := range grants {
				s.grant(ss, g)
			}
			s.mu.Unlock()
			return res, nil
		case namespace.NotYet:
			if !backoff(ss.ctx, &pause) {
				return res, fabric.Unknown
			}
		case namespace.Dropped:
			return res, fabric.Fenced
		case namespace.ReadAgain:
			return res, fabric.Unknown
		default:
			return res, fabric.Invalid
		}
	}
}
