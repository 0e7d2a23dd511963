package spoke

import (
	"context"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
)

// aheadOf is something to fetch before it is asked for: a range of a content, or the files that
// follow one in its directory.
type aheadOf struct {
	content namespace.Content
	off, n  int64
	files   []fabric.Ino
	dirs    []fabric.Ino
}

// maxAheadFile is the size up to which a file that comes next is fetched whole, in bytes; of a
// larger one that much.
const maxAheadFile = 1 << 20

// aheadWorkers is how many things are fetched ahead at once: each is a few round trips in a row.
const aheadWorkers = 8

// fetchAhead fetches what may be asked for soon.
func (s *Spoke) fetchAhead() {
	for {
		select {
		case a := <-s.ahead:
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
			switch {
			case len(a.dirs) > 0:
				s.warmDirs(ctx, a.dirs)
			case len(a.files) > 0:
				s.warmFiles(ctx, a.files)
			default:
				s.warm(ctx, &a.content, a.off, a.n, storage.ReadAhead)
			}
			cancel()
		case <-s.ctx.Done():
			return
		}
	}
}

// later queues something to fetch, if there is room.
func (s *Spoke) later(a aheadOf) {
	select {
	case s.ahead <- a:
	default:
	}
}

// warmDirs lists directories, several at once.
func (s *Spoke) warmDirs(ctx context.Context, dirs []fabric.Ino) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, 2*aheadWorkers)
	for _, dir := range dirs {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-turns }()
			l, err := s.list(ctx, dir, fabric.Pos{})
			for err == nil && !l.eof {
				_, err = l.fetch(ctx)
			}
		})
	}
	wg.Wait()
}

// lacks says whether part of a range is not here, as far as can be told without asking anybody. Most
// reads are of what is here, and cost nothing more than this.
func (s *Spoke) lacks(c *namespace.Content, off, n int64) bool {
	missing := false
	err := manifest.Walk(s.nodesHere, c.Root, c.Size, off, n, func(e manifest.Extent) bool {
		missing = !e.Ref.IsZero() && !s.cache.Has(e.Ref)
		return !missing
	})
	return missing || err != nil
}

// nodesHere is a manifest.Source of what is decoded already.
func (s *Spoke) nodesHere(ref storage.Ref) (manifest.Node, error) {
	n, ok := s.nodes.get(ref)
	if !ok {
		return n, fabric.NotExist
	}
	return n, nil
}

// warm fetches the chunks of a range in the background.
func (s *Spoke) warm(ctx context.Context, c *namespace.Content, off, n int64, class storage.Class) {
	if c.Root.IsZero() {
		return
	}
	var refs []storage.Ref
	err := manifest.Walk(s.source(ctx), c.Root, c.Size, off, n, func(e manifest.Extent) bool {
		if !e.Ref.IsZero() {
			refs = append(refs, e.Ref)
		}
		return true
	})
	if err == nil {
		s.cache.Warm(refs, class)
	}
}

// warmFiles brings the states of files in one call, then their nodes and chunks in a batch each.
func (s *Spoke) warmFiles(ctx context.Context, files []fabric.Ino) {
	var wants []rights.Want
	s.mu.Lock()
	for _, ino := range files {
		if n := s.inodes[ino]; n == nil || !n.known || n.state.Partial || !s.valid(ino, rights.R) {
			wants = append(wants, rights.Want{Ino: ino, Right: rights.R})
		}
	}
	s.mu.Unlock()
	if len(wants) > 0 {
		if _, err := s.acquireAll(ctx, wants); err != nil {
			return
		}
	}
	var contents []namespace.Content
	var roots []storage.Ref
	s.mu.Lock()
	for _, ino := range files {
		if n := s.inodes[ino]; n != nil && n.known && !n.state.Content.Root.IsZero() {
			contents = append(contents, n.state.Content)
			if !s.cache.Has(n.state.Content.Root) {
				roots = append(roots, n.state.Content.Root)
			}
		}
	}
	s.mu.Unlock()
	if len(roots) > 0 {
		s.cache.Fill(ctx, storage.Prefetch, roots)
	}
	for i := range contents {
		s.warm(ctx, &contents[i], 0, maxAheadFile, storage.Prefetch)
	}
}

// opened sees a file opened. If files are opened in the order of their directory, those that come
// next are fetched.
func (s *Spoke) opened(ino fabric.Ino) {
	if s.cfg.Ahead < 0 {
		return
	}
	s.mu.Lock()
	next := s.walk.opened(ino, s.cfg.Ahead)
	s.mu.Unlock()
	if len(next) > 0 {
		s.later(aheadOf{files: next})
	}
}
