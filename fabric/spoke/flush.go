package spoke

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
)

// flusher flushes files that have lingered, several at once.
func (s *Spoke) flusher() {
	tick := time.NewTicker(max(s.cfg.Linger/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.kick:
		case <-s.ctx.Done():
			return
		}
		now := s.deps.Boot()
		s.mu.Lock()
		var due []*file
		for _, n := range s.dirty {
			if n.file.lingered(now, s.cfg.Linger) {
				due = append(due, n.file)
			}
		}
		s.mu.Unlock()
		for _, f := range due {
			if !f.flush.TryLock() {
				continue // it is being flushed
			}
			select {
			case s.flushing <- struct{}{}:
			case <-s.ctx.Done():
				f.flush.Unlock()
				return
			}
			s.done.Go(func() {
				defer func() { <-s.flushing }()
				defer f.flush.Unlock()
				if err := s.flushLocked(s.ctx, f, false); err != nil && s.ctx.Err() == nil {
					s.deps.Slog.Warn("a flush failed and is tried again", "ino", f.ino, "err", err)
					pauseFor(s.ctx, 200*time.Millisecond)
				}
			})
		}
	}
}

// FlushAll publishes all that is dirty now.
func (s *Spoke) FlushAll(ctx context.Context) error {
	s.mu.Lock()
	var all []*file
	for _, n := range s.dirty {
		all = append(all, n.file)
	}
	s.mu.Unlock()
	var errs []error
	for _, f := range all {
		errs = append(errs, s.flushFile(ctx, f, false))
	}
	return errors.Join(errs...)
}

// flushFile publishes what is dirty of a file now (fsync), and gives W back with it if drop.
func (s *Spoke) flushFile(ctx context.Context, f *file, drop bool) error {
	f.flush.Lock()
	defer f.flush.Unlock()
	return s.flushLocked(ctx, f, drop)
}

// flushLocked makes the content of a moment the hub's: upload, then publish. f.flush is held.
func (s *Spoke) flushLocked(ctx context.Context, f *file, drop bool) error {
	ss, err := s.session(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if !f.dirty {
		f.mu.Unlock()
		return nil
	}
	v := version{base: f.base, over: append(overlay(nil), f.over...), size: f.size}
	op := &namespace.Publish{Ino: f.ino, Base: f.iver, Mtime: f.mtime, Atime: f.atime, Ctime: f.ctime, KillPriv: f.kill, DropW: drop}
	seq := f.seq
	f.mu.Unlock()

	if op.Content, err = s.upload(ctx, &v); err != nil {
		return &fabric.Error{Op: "flush", Ino: f.ino, Code: storageCode(err), Err: err}
	}
	res, err := s.publishOp(ss, f.ino, op)
	if err != nil {
		return err
	}
	if res.Code != fabric.OK {
		return s.refused(f, res.Code)
	}
	s.published(f, op, res.Attr, seq)
	return nil
}

// published lays what the hub has now under the file, and frees the journal.
func (s *Spoke) published(f *file, op *namespace.Publish, a fabric.Attr, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.base, f.iver = op.Content, a.Iver
	f.over.after(seq)
	f.kill, f.urgent = f.kill && f.killed > seq, false
	kept := f.places[:0]
	for _, r := range f.places {
		if r.seq > seq {
			kept = append(kept, r)
		} else {
			s.jrn.Done(r.place)
		}
	}
	f.places, f.local = kept, uint64(len(kept))
	if f.dirty = f.seq > seq; !f.dirty {
		f.atime = 0
		f.mtime = a.Mtime
		f.size = op.Content.Size
		delete(s.dirty, f.ino)
	} else {
		f.since = s.deps.Boot()
	}
	if n := s.inodes[f.ino]; n != nil && n.file == f && n.known {
		if newer := n.state.Attr; newer.Iver > a.Iver { // a change of the name was answered first
			newer.Size, newer.Used, newer.Mtime = a.Size, a.Used, a.Mtime
			a = newer
		}
		n.state.Attr, n.state.Content = a, op.Content // Partial stays: xattrs may have changed meanwhile
		n.state.Xattrs = withoutDescription(n.state.Xattrs)
	}
	// A note for the replay; it may be lost, which costs a look.
	s.jrn.Append(journal.Record{Type: journal.Published, Ino: f.ino, Base: a.Iver, Seq: seq}, nil)
}

// withoutDescription drops the attribute that goes with any change of content.
func withoutDescription(x []namespace.Xattr) []namespace.Xattr {
	for i := range x {
		if x[i].Name == fabric.ContentXattr {
			return append(append([]namespace.Xattr(nil), x[:i]...), x[i+1:]...)
		}
	}
	return x
}

// refused handles a publish that the hub will never take: the inode is gone, or another changed
// it after W was lost. What is dirty is parked, unless nobody can want it.
func (s *Spoke) refused(f *file, code fabric.Code) error {
	if code == fabric.Stale {
		s.mu.Lock()
		delete(s.dirty, f.ino)
		s.mu.Unlock()
		f.abandon()
		return nil
	}
	if code == fabric.Fenced {
		if err := s.park(s.ctx, f); err != nil {
			return err
		}
		return fabric.Fenced
	}
	return &fabric.Error{Op: "publish", Ino: f.ino, Code: code}
}

// storageCode maps an error of storage or journal to a code, once.
func storageCode(err error) fabric.Code {
	switch {
	case err == nil:
		return fabric.OK
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrNotExist):
		return fabric.Unavailable
	case errors.Is(err, storage.ErrCorrupt), errors.Is(err, io.ErrUnexpectedEOF):
		return fabric.Corrupt
	case errors.Is(err, storage.ErrNoSpace), errors.Is(err, journal.ErrFull):
		return fabric.NoSpace
	case errors.Is(err, storage.ErrDenied):
		return fabric.Denied
	}
	return fabric.CodeOf(err)
}

// sync makes a file durable at the hub (1.5).
func (s *Spoke) sync(ctx context.Context, ino fabric.Ino) error {
	s.mu.Lock()
	n := s.inodes[ino]
	var f *file
	if n != nil {
		f = n.file
	}
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return s.flushFile(ctx, f, false)
}
