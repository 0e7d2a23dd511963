package spoke

import (
	"context"
	"sort"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// listing is one walk over a directory. It answers from what is known under D if that is all,
// else from pages of the hub, which it learns.
type listing struct {
	s       *Spoke
	dir     fabric.Ino
	pos     fabric.Pos
	known   []listed // what is left of a complete directory as it was at the start; nobody changes it
	eof     bool
	seq     uint64 // of the D held since before the first page, 0 if none
	changes uint64 // of our own in the directory, at the start
	seen    map[string]entry
}

// list starts a listing. The caller has checked permissions.
func (s *Spoke) list(ctx context.Context, dir fabric.Ino, from fabric.Pos) (*listing, error) {
	l := &listing{s: s, dir: dir, pos: from}
	s.mu.Lock()
	if d := s.dir(dir); d != nil && d.complete && s.flights.dirs[dir] == 0 {
		l.known, l.eof = d.after(from), true
		s.mu.Unlock()
		return l, nil
	}
	held := s.valid(dir, rights.D)
	s.mu.Unlock()
	if !held {
		if _, err := s.acquire(ctx, rights.Want{Ino: dir, Right: rights.R | rights.D}); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.dir(dir); d != nil && from.After < fabric.FirstCookie && !from.ByName {
		l.seq, l.changes, l.seen = d.seq, d.changes, map[string]entry{}
	}
	return l, nil
}

// after gives the entries of a complete directory from a place on. mu is held.
func (d *directory) after(from fabric.Pos) []listed {
	d.sort()
	if from.ByName {
		i := sort.Search(len(d.byName), func(i int) bool { return d.byName[i].name >= from.At })
		return d.byName[i:]
	}
	i := sort.Search(len(d.byCookie), func(i int) bool { return d.byCookie[i].cookie > from.After })
	return d.byCookie[i:]
}

// shownOf gives entries as a listing shows them. Attributes are there as far as R covers them.
func (s *Spoke) shownOf(names []listed) []fabric.Entry {
	out := make([]fabric.Entry, 0, len(names))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range names {
		a := fabric.Attr{Ino: e.ino}
		if n := s.inodes[e.ino]; n != nil && n.known && s.flights.attrs[e.ino] == 0 && s.valid(e.ino, rights.R) {
			a = s.attrOf(n)
		}
		out = append(out, fabric.Entry{Name: e.name, Cookie: e.cookie, Attr: a})
	}
	return out
}

// sort makes the orders of a directory's entries. mu is held.
func (d *directory) sort() {
	if d.byCookie != nil {
		return
	}
	for name, e := range d.entries {
		if e.ino != 0 {
			d.byCookie = append(d.byCookie, listed{name, e})
		}
	}
	d.byName = append([]listed(nil), d.byCookie...)
	sort.Slice(d.byCookie, func(i, j int) bool { return d.byCookie[i].cookie < d.byCookie[j].cookie })
	sort.Slice(d.byName, func(i, j int) bool { return d.byName[i].name < d.byName[j].name })
}

// next gives the next page; empty at the end.
func (l *listing) next(ctx context.Context) ([]fabric.Entry, error) {
	var page []fabric.Entry
	var err error
	switch n := min(len(l.known), l.s.cfg.Page); {
	case n > 0: // a page at a time: who asks for the next one may be another call
		page, l.known = l.s.shownOf(l.known[:n]), l.known[n:]
	case l.eof:
		return nil, nil
	default:
		if page, err = l.fetch(ctx); err != nil || len(page) == 0 {
			return nil, err
		}
	}
	page, err = l.attributes(ctx, page)
	if err == nil {
		l.s.listed(page)
	}
	return page, err
}

// attributes fetches those that a page lacks, a batch at a time.
func (l *listing) attributes(ctx context.Context, page []fabric.Entry) ([]fabric.Entry, error) {
	const batch = 1024
	var wants []rights.Want
	var where []int
	flush := func() error {
		if len(wants) == 0 {
			return nil
		}
		states, err := l.s.acquireAll(ctx, wants)
		if err != nil {
			return err
		}
		for i, st := range states {
			if st.Ino != 0 {
				page[where[i]].Attr = st.Attr
			}
		}
		wants, where = wants[:0], where[:0]
		return nil
	}
	for i := range page {
		if page[i].Attr.Type != fabric.TypeNone {
			continue
		}
		wants, where = append(wants, rights.Want{Ino: page[i].Attr.Ino, Right: rights.R}), append(where, i)
		if len(wants) == batch {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	return page, flush()
}

// fetch asks the hub for a page and learns it.
func (l *listing) fetch(ctx context.Context) ([]fabric.Entry, error) {
	type answer struct {
		page []namespace.Dirent
		eof  bool
		ss   *session
		got  []rights.Grant
	}
	s := l.s
	a, err := call(ctx, s, func(ctx context.Context, ss *session) (answer, error) {
		grants, page, eof, err := ss.link.Hub.List(ctx, l.dir, l.pos, s.cfg.Page)
		return answer{page, eof, ss, grants}, err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range a.got {
		s.grant(a.ss, g)
	}
	out := make([]fabric.Entry, 0, len(a.page))
	for i := range a.page {
		e := &a.page[i]
		attr := e.Inode.Attr
		if right, seq := a.ss.held.Right(e.Inode.Ino); a.ss == s.sess && right&(rights.R|rights.W) != 0 && e.Inode.Type != fabric.TypeNone {
			attr = s.attrOf(s.learn(&e.Inode, seq))
		}
		out = append(out, fabric.Entry{Name: e.Name, Cookie: e.Cookie, Attr: attr})
		if l.seen != nil {
			l.seen[e.Name] = entry{ino: e.Inode.Ino, cookie: e.Cookie}
		}
		l.pos.After, l.pos.At = e.Cookie, e.Name+"\x00"
	}
	l.eof = a.eof
	if l.eof {
		l.finish()
	}
	return out, nil
}

// finish makes the directory complete if D was held without a break and nothing of our own came
// between (A16). mu is held.
func (l *listing) finish() {
	d := l.s.dir(l.dir)
	if d == nil || l.seen == nil || d.seq != l.seq || d.changes != l.changes {
		return
	}
	d.entries, d.complete = l.seen, true
	d.byCookie, d.byName = nil, nil
}
