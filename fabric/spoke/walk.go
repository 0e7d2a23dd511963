package spoke

import "github.com/spokefs/spokefs/fabric"

// walks remembers the files of recent listings in one order, to see when they are opened in it: a
// walk over a tree, whose next files and directories are worth fetching. It is what stands for a
// model until prefetch has its own. Spoke.mu guards it.
type walks struct {
	files []fabric.Ino
	at    map[fabric.Ino]int // where a file is in files
	last  int                // of the newest open
	run   int                // opens in a row near the one before
	upTo  int                // where the newest prefetch ended
}

// maxWalkFiles bounds the files remembered; then it starts anew.
const maxWalkFiles = 256 << 10

// listed takes a page of a listing, and begins to list its subdirectories: whoever walks a tree
// wants those next, and one after the other they would cost a round trip each.
func (s *Spoke) listed(page []fabric.Entry) {
	if s.cfg.Ahead < 0 {
		return
	}
	var dirs []fabric.Ino
	s.mu.Lock()
	k := &s.walk
	if k.at == nil || len(k.files) > maxWalkFiles {
		*k = walks{at: map[fabric.Ino]int{}}
	}
	for i := range page {
		a := &page[i].Attr
		switch a.Type {
		case fabric.TypeDir:
			if d := s.dir(a.Ino); d == nil || !d.complete {
				dirs = append(dirs, a.Ino)
			}
		case fabric.TypeFile:
			if _, ok := k.at[a.Ino]; !ok {
				k.at[a.Ino] = len(k.files)
				k.files = append(k.files, a.Ino)
			}
		}
	}
	s.mu.Unlock()
	if len(dirs) > 0 {
		s.later(aheadOf{dirs: dirs})
	}
}

// opened gives the files to fetch after an open. Who opens a file here and there gets none: it
// takes opens in a row that are near each other in the order of the listings (case F14).
func (k *walks) opened(ino fabric.Ino, ahead int) []fabric.Ino {
	i, ok := k.at[ino]
	if !ok {
		return nil
	}
	near := i-k.last <= 2*ahead && k.last-i <= 2*ahead
	k.last = i
	if !near {
		k.run, k.upTo = 0, i
		return nil
	}
	if k.run++; k.run < 3 || i+ahead/2 < k.upTo {
		return nil
	}
	from, to := max(k.upTo, i+1), min(i+1+ahead, len(k.files))
	if from >= to {
		return nil
	}
	k.upTo = to
	return k.files[from:to]
}
