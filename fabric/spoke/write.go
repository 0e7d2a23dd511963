package spoke

import (
	"context"
	"errors"
	"time"

	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/rights"
)

// change is a local change of a file's content.
type change struct {
	record journal.Record
	data   []byte
	append bool  // at the end, wherever that is
	min    int64 // with append: the least offset
	kill   bool
	skip   fabric.Watcher
}

// writable gives the file of an inode under W, acquired if need be.
func (s *Spoke) writable(ctx context.Context, ino fabric.Ino) (*inode, *file, error) {
	for {
		s.mu.Lock()
		if n := s.inodes[ino]; n != nil && n.known && !n.state.Partial && s.valid(ino, rights.W) && !s.sess.held.Recalled(ino) {
			f := n.file
			if f == nil {
				f = s.newFile(n)
			}
			s.clock++
			n.used = s.clock
			s.mu.Unlock()
			return n, f, nil
		}
		ss := s.sess
		recalled := ss.held.Recalled(ino)
		s.mu.Unlock()
		if recalled { // its Ack is on the way: ask again after it
			if err := pauseFor(ctx, 5*time.Millisecond); err != nil {
				return nil, nil, err
			}
			continue
		}
		st, err := s.acquire(ctx, rights.Want{Ino: ino, Right: rights.W, Wait: true})
		if err != nil {
			return nil, nil, err
		}
		if st.Type != fabric.TypeFile {
			return nil, nil, fabric.Invalid
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// modify makes a local change of a file, under W. The record is in the journal, and the node's
// other observers have dropped what they held, when it returns (A14).
func (s *Spoke) modify(ctx context.Context, ino fabric.Ino, c change) (off int64, ch fabric.Change, err error) {
	var deadline time.Time
	var progress int64
	for {
		n, f, err := s.writable(ctx, ino)
		if err != nil {
			return 0, ch, err
		}
		off, ch, ok, err := s.record(n, f, &c)
		if err == nil && ok {
			if c.record.Type == journal.Write {
				s.touch(ctx, ino, off, int64(len(c.data)), c.skip)
			} else {
				s.touch(ctx, ino, 0, 0, c.skip)
			}
			return off, ch, nil
		}
		if err == nil {
			continue // W was recalled in between
		}
		if !errors.Is(err, journal.ErrFull) {
			return 0, ch, &fabric.Error{Op: "write", Ino: ino, Code: storageCode(err), Err: err}
		}
		live, _ := s.jrn.Live()
		now := s.deps.Wall()
		if deadline.IsZero() || live < progress {
			deadline = now.Add(s.cfg.FullWait)
		}
		if progress = live; now.After(deadline) {
			return 0, ch, fabric.NoSpace
		}
		s.hurry()
		if err := pauseFor(ctx, 20*time.Millisecond); err != nil {
			return 0, ch, err
		}
	}
}

// record appends the change to the journal and lays it over the file, if W is still there: a
// recall waits for this lock after it has stopped W.
func (s *Spoke) record(n *inode, f *file, c *change) (off int64, ch fabric.Change, ok bool, err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	s.mu.Lock()
	ok = s.valid(n.ino, rights.W) && n.file == f && n.known
	attr := n.state.Attr
	s.mu.Unlock()
	if !ok {
		return 0, ch, false, nil
	}
	was := attr
	f.overlayAttr(&was)
	ch.Before = was.Version()
	r := c.record
	if c.append {
		r.Off = max(was.Size, c.min)
	}
	if r.Off > fabric.MaxFileSize-r.Len {
		return 0, ch, false, &fabric.Error{Op: "write", Ino: n.ino, Code: fabric.TooBig}
	}
	r.Ino, r.Base, r.At = n.ino, attr.Iver, max(s.now(), was.Ctime+1)
	place, seq, err := s.jrn.Append(r, c.data)
	if err != nil {
		return 0, ch, false, err
	}
	f.mu.Lock()
	f.apply(r, place, seq)
	f.ctime = r.At
	if c.kill {
		f.kill, f.killed = true, seq
	}
	ch.After = attr
	f.overlayLocked(&ch.After)
	f.mu.Unlock()
	s.mu.Lock()
	s.dirty[n.ino] = n
	s.mu.Unlock()
	return r.Off, ch, true, nil
}

// setTimes sets the times of a file with unpublished writes, here: the publish carries them, so
// that they win over the times of those writes (case F4). ok is false if nothing is unpublished.
func (s *Spoke) setTimes(n *inode, f *file, set fabric.SetAttr) (ch fabric.Change, ok bool, err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	s.mu.Lock()
	ok = n.file == f && n.known && s.valid(n.ino, rights.W)
	attr := n.state.Attr
	s.mu.Unlock()
	if !ok || f.idle() {
		return ch, false, nil
	}
	was := attr
	f.overlayAttr(&was)
	now := max(s.now(), was.Ctime+1)
	mtime := was.Mtime
	switch {
	case set.Set&fabric.SetMtime != 0:
		mtime = set.Mtime
	case set.Set&fabric.SetMtimeNow != 0:
		mtime = now
	}
	// A cut to the size that it has changes nothing but the time.
	r := journal.Record{Type: journal.Truncate, Ino: n.ino, Base: attr.Iver, Off: was.Size, At: mtime}
	place, seq, err := s.jrn.Append(r, nil)
	if err != nil {
		return ch, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apply(r, place, seq)
	f.ctime = now
	switch {
	case set.Set&fabric.SetAtime != 0:
		f.atime = set.Atime
	case set.Set&fabric.SetAtimeNow != 0:
		f.atime = now
	}
	ch.Before, ch.After = was.Version(), attr
	f.overlayLocked(&ch.After)
	return ch, true, nil
}

// hurry wakes the flusher, and tells it not to linger.
func (s *Spoke) hurry() {
	s.mu.Lock()
	for _, n := range s.dirty {
		n.file.mu.Lock()
		n.file.urgent = true
		n.file.mu.Unlock()
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Spoke) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
