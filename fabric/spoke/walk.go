package spoke

import "github.com/spokefs/spokefs/fabric"

// walks remembers where listed files stand in their directories, to see when files are opened in
// that order. It is what stands for a model until prefetch has its own. Spoke.mu guards it.
type walks struct {
	at     map[fabric.Ino]spot
	recent []*walked // newest last
}

// walked is one listing of a directory.
type walked struct {
	files []fabric.Ino
	hits  int // opens seen in it
	upTo  int // files before it were fetched
}

type spot struct {
	w *walked
	i int
}

// maxWalks bounds the listings remembered, and maxWalkFiles their files in all.
const (
	maxWalks     = 64
	maxWalkFiles = 256 << 10
)

// listed takes a page of a listing; more says that it goes on the last one.
func (k *walks) listed(page []fabric.Entry, w *walked) *walked {
	if k.at == nil || len(k.at) > maxWalkFiles {
		k.at, k.recent = map[fabric.Ino]spot{}, nil
	}
	if w == nil {
		w = &walked{}
		k.recent = append(k.recent, w)
		if len(k.recent) > maxWalks {
			for _, ino := range k.recent[0].files {
				if k.at[ino].w == k.recent[0] {
					delete(k.at, ino)
				}
			}
			k.recent = k.recent[1:]
		}
	}
	for i := range page {
		if page[i].Attr.Type != fabric.TypeFile {
			continue
		}
		k.at[page[i].Attr.Ino] = spot{w, len(w.files)}
		w.files = append(w.files, page[i].Attr.Ino)
	}
	return w
}

// opened gives the files to fetch after an open. A crawler that opens a file here and there gets
// none: it takes two opens of one listing, the next of them not far ahead (case F14).
func (k *walks) opened(s *Spoke, ino fabric.Ino) []fabric.Ino {
	at, ok := k.at[ino]
	if !ok {
		return nil
	}
	w := at.w
	w.hits++
	if w.hits < 2 || at.i+s.cfg.Ahead/2 < w.upTo {
		return nil
	}
	from := max(w.upTo, at.i+1)
	to := min(at.i+1+s.cfg.Ahead, len(w.files))
	if from >= to {
		return nil
	}
	w.upTo = to
	return w.files[from:to]
}
