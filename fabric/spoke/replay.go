package spoke

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
)

// replay publishes what an earlier process wrote and did not publish, before anything is served
// (A10, A27).
func (s *Spoke) replay(ctx context.Context) error {
	type todo struct {
		base    uint64
		records []journal.Record
		places  []journal.Place
	}
	files := map[fabric.Ino]*todo{}
	var order []fabric.Ino
	err := s.jrn.Replay(func(r journal.Record, p journal.Place) error {
		t := files[r.Ino]
		if t == nil {
			t = &todo{base: r.Base}
			files[r.Ino] = t
			order = append(order, r.Ino)
		}
		t.base = max(t.base, r.Base)
		t.records, t.places = append(t.records, r), append(t.places, p)
		return nil
	})
	if err != nil {
		return fmt.Errorf("spoke: replay: %w", err)
	}
	if len(order) > 0 {
		s.deps.Slog.Info("publishing what the last run wrote", "files", len(order))
	}
	for _, ino := range order {
		t := files[ino]
		f, state, err := s.reopen(ctx, ino)
		if fabric.CodeOf(err) == fabric.Stale { // removed meanwhile, and nobody had it open
			for _, p := range t.places {
				s.jrn.Done(p)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("spoke: replay: %w", err)
		}
		f.mu.Lock()
		for i, r := range t.records {
			f.apply(r, t.places[i], r.Seq)
		}
		f.mu.Unlock()
		if err := s.settle(ctx, f, state, t.base); err != nil {
			return fmt.Errorf("spoke: replay: %w", err)
		}
	}
	return nil
}

// reopen takes W on a file and gives its state at the hub.
func (s *Spoke) reopen(ctx context.Context, ino fabric.Ino) (*file, namespace.Inode, error) {
	_, f, err := s.writable(ctx, ino)
	if err != nil {
		return nil, namespace.Inode{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.inodes[ino]
	s.dirty[ino] = n
	return f, n.state, nil
}

// settle publishes a file's dirty content if its base is unchanged, or if it would change nothing
// more (the last run published it and died before it noted that); else it is parked.
func (s *Spoke) settle(ctx context.Context, f *file, state namespace.Inode, base uint64) error {
	if state.Iver == base {
		return s.flushFile(ctx, f, false)
	}
	same, err := s.sameAs(ctx, f, &state)
	if err != nil {
		return err
	}
	if same {
		s.mu.Lock()
		delete(s.dirty, f.ino)
		s.mu.Unlock()
		f.abandon()
		return nil
	}
	return s.park(ctx, f)
}

// sameAs says whether the hub's content has the dirty writes in it already.
func (s *Spoke) sameAs(ctx context.Context, f *file, state *namespace.Inode) (bool, error) {
	v := f.snapshot()
	if v.size != state.Size {
		return false, nil
	}
	mine, theirs := make([]byte, 1<<20), make([]byte, 1<<20)
	for i := range v.over {
		p := v.over[i].cut(v.over[i].off, v.size)
		for off := p.off; off < p.end(); {
			n := min(int64(len(mine)), p.end()-off)
			if err := s.read(ctx, &v, mine[:n], off, storage.Demand); err != nil {
				return false, err
			}
			if err := s.readBase(ctx, &state.Content, theirs[:n], off, storage.Demand); err != nil {
				return false, err
			}
			if !bytes.Equal(mine[:n], theirs[:n]) {
				return false, nil
			}
			off += n
		}
	}
	return true, nil
}

// recover goes on with what was dirty when a session was lost.
func (s *Spoke) recover(ctx context.Context) {
	s.mu.Lock()
	var files []*file
	for _, n := range s.dirty {
		files = append(files, n.file)
	}
	s.mu.Unlock()
	for _, f := range files {
		f.mu.Lock()
		base := f.iver
		f.mu.Unlock()
		_, err := s.acquire(ctx, rights.Want{Ino: f.ino, Right: rights.W, Wait: true})
		var iver uint64 // as the hub has it
		s.mu.Lock()
		if n := s.inodes[f.ino]; n != nil {
			iver = n.state.Iver
		}
		s.mu.Unlock()
		switch {
		case fabric.CodeOf(err) == fabric.Stale:
			s.refused(f, fabric.Stale)
		case err != nil:
			s.deps.Slog.Error("dirty data of a lost session cannot be published yet", "ino", f.ino, "err", err)
		case iver != base:
			if err := s.park(ctx, f); err != nil {
				s.deps.Slog.Error("dirty data of a lost session cannot be parked", "ino", f.ino, "err", err)
			}
		default:
			f.mu.Lock()
			f.urgent = true
			f.mu.Unlock()
			s.wake()
		}
	}
}
