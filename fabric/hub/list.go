package hub

import (
	"context"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// listRounds is how often a List asks for entries that came while it waited; then they are shown
// without a right, so that a storm of creates cannot starve it.
const listRounds = 3

// List implements spoke.Hub.
func (s *Session) List(ctx context.Context, dir fabric.Ino, from fabric.Pos, n int) ([]rights.Grant, []namespace.Dirent, bool, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	defer end()
	if n <= 0 {
		return nil, nil, false, fabric.Invalid
	}
	n = min(n, s.n.cfg.MaxPage)
	page, _, err := s.n.page(dir, from, n)
	if err != nil {
		return nil, nil, false, err
	}
	patience, stop := context.WithTimeout(ctx, s.n.cfg.ListWait)
	defer stop()
	granted := map[fabric.Ino]rights.Grant{} // also those asked for and not granted
	for round := range listRounds {
		settled, err := s.cover(ctx, patience, page, granted)
		if err != nil {
			return nil, nil, false, err
		}
		var eof bool
		if page, eof, err = s.n.page(dir, from, n); err != nil {
			return nil, nil, false, err
		}
		young, missing := s.uncovered(page, granted, settled)
		if len(young) > 0 {
			if err := s.grown(ctx); err != nil {
				return nil, nil, false, err
			}
		}
		for _, ino := range young {
			delete(granted, ino) // it was not to be had: ask again
		}
		if (len(young) == 0 && !missing) || round == listRounds-1 || patience.Err() != nil {
			return grantsOf(page, granted), page, eof, nil
		}
	}
	panic("unreachable")
}

// page reads entries of the committed state.
func (n *Namespace) page(dir fabric.Ino, from fabric.Pos, max int) (page []namespace.Dirent, eof bool, err error) {
	n.view(func(v kv.View) {
		d, ok := namespace.GetAttr(v, dir)
		switch {
		case !ok:
			err = fabric.Stale
		case d.Type != fabric.TypeDir:
			err = fabric.NotDir
		case from.ByName:
			page, eof = namespace.ListByName(v, dir, from.At, max)
		default:
			page, eof = namespace.ListByCookie(v, dir, from.After, max)
		}
		for i := range page {
			page[i].Inode, _ = namespace.GetPartial(v, page[i].Inode.Ino)
		}
	})
	return page, eof, err
}

// cover asks R on the entries not asked for yet, and waits for who writes them while patience
// lasts; then those stay without a right (A11).
func (s *Session) cover(ctx, patience context.Context, page []namespace.Dirent, granted map[fabric.Ino]rights.Grant) (fabric.Ino, error) {
	var wants []rights.Want
	for _, e := range page {
		if _, ok := granted[e.Inode.Ino]; !ok {
			granted[e.Inode.Ino] = rights.Grant{}
			wants = append(wants, rights.Want{Ino: e.Inode.Ino, Right: rights.R})
		}
	}
	w, err := s.ask(wants)
	if err != nil {
		return 0, err
	}
	select {
	case <-w.done:
	case <-s.done:
		return 0, s.over()
	case <-patience.Done():
		s.withdraw(w)
		if ctx.Err() != nil {
			return 0, fabric.Canceled
		}
	}
	s.n.mu.Lock()
	code := w.code
	for _, g := range w.grants {
		if g.Right != 0 {
			granted[g.Ino] = g
		}
	}
	s.n.mu.Unlock()
	if code != fabric.OK {
		return 0, code
	}
	return w.settled, s.n.fresh(ctx, s.term)
}

// uncovered finds what is young, and whether the table was not asked about some entry.
func (s *Session) uncovered(page []namespace.Dirent, granted map[fabric.Ino]rights.Grant, settled fabric.Ino) (young []fabric.Ino, missing bool) {
	s.n.view(func(v kv.View) {
		for _, e := range page {
			if _, ok := granted[e.Inode.Ino]; !ok {
				missing = true
			}
			young = s.young(v, e.Inode.Ino, settled, young)
		}
	})
	return young, missing
}

func grantsOf(page []namespace.Dirent, granted map[fabric.Ino]rights.Grant) (grants []rights.Grant) {
	seen := make(map[fabric.Ino]bool, len(page))
	for _, e := range page {
		if g := granted[e.Inode.Ino]; g.Right != 0 && !seen[g.Ino] {
			seen[g.Ino] = true
			grants = append(grants, g)
		}
	}
	return grants
}
