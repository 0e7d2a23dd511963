package demo

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// maxFiles bounds a tree, so that a demo of "/" ends with a message and not by patience.
const maxFiles = 200_000

// file is one regular file of the tree.
type file struct {
	path string // relative, with slashes
	size int64
	sum  [sha256.Size]byte
}

// tree is what was loaded and must be found again.
type tree struct {
	dirs  []string
	files []file
	bytes int64
}

// defaultTree is the Go toolchain's own source, which every machine with Go has.
func defaultTree() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	root := strings.TrimSpace(string(out))
	if err == nil {
		if st, err := os.Stat(filepath.Join(root, "src")); err == nil && st.IsDir() {
			return filepath.Join(root, "src"), nil
		}
	}
	return "", errors.New("no Go toolchain found: name a folder")
}

// scan reads a tree: names, sizes, sums. Only directories and regular files count; what else there
// is, and names that S3 keys cannot have, are left out.
func scan(root string, step func(n int64)) (*tree, error) {
	t := &tree{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			t.dirs = append(t.dirs, rel)
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if len(t.files) == maxFiles {
			return fmt.Errorf("%s has more than %d files: name a smaller folder", root, maxFiles)
		}
		sum, n, err := sumFile(name)
		if err != nil {
			return err
		}
		t.files = append(t.files, file{rel, n, sum})
		t.bytes += n
		step(1)
		return nil
	})
	if err == nil && len(t.files) == 0 {
		err = fmt.Errorf("%s has no files", root)
	}
	return t, err
}

func sumFile(name string) (sum [sha256.Size]byte, n int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), n, err
}

// edits is a set of changes to make at one side: what to write (path to content), rename, remove.
type edits struct {
	write  map[string][]byte
	rename map[string]string
	remove []string
}

// pick chooses edits of the files whose place in the tree is who modulo 2, so that two sides never
// touch the same file: new content, an append, a rename, a removal and a new file in ten each.
func (t *tree) pick(who int, read func(path string) ([]byte, error)) (edits, error) {
	e := edits{write: map[string][]byte{}, rename: map[string]string{}}
	stride := max(len(t.files)/80, 2) &^ 1
	for i, n := who, 0; i < len(t.files) && n < 40; i, n = i+stride, n+1 {
		p := t.files[i].path
		switch n % 4 {
		case 0:
			e.write[p] = fmt.Appendf(nil, "written anew by side %d, number %d\n", who, n)
		case 1:
			old, err := read(p)
			if err != nil {
				return e, err
			}
			e.write[p] = fmt.Appendf(old, "\na line more from side %d\n", who)
		case 2:
			e.rename[p] = fmt.Sprintf("%s.moved-by-%d", p, who)
		case 3:
			e.remove = append(e.remove, p)
		}
		e.write[fmt.Sprintf("%s.new-from-%d", p, who)] = fmt.Appendf(nil, "new file %d of side %d\n", n, who)
	}
	return e, nil
}

// apply changes what is expected as e changed the files.
func (t *tree) apply(e edits) {
	gone := map[string]bool{}
	moved := map[string]string{}
	for _, p := range e.remove {
		gone[p] = true
	}
	for old, name := range e.rename {
		moved[old] = name
	}
	written := map[string][]byte{}
	for p, data := range e.write {
		written[p] = data
	}
	var files []file
	for _, f := range t.files {
		if gone[f.path] {
			continue
		}
		if name, ok := moved[f.path]; ok {
			f.path = name
		}
		if data, ok := written[f.path]; ok {
			f.size, f.sum = int64(len(data)), sha256.Sum256(data)
			delete(written, f.path)
		}
		files = append(files, f)
	}
	for p, data := range written {
		files = append(files, file{p, int64(len(data)), sha256.Sum256(data)})
	}
	sort.Slice(files, func(i, j int) bool { return files[i].path < files[j].path })
	t.files, t.bytes = files, 0
	for _, f := range files {
		t.bytes += f.size
	}
}

// names lists the paths that a listing of the whole tree must show, files only.
func (t *tree) names() map[string]bool {
	m := make(map[string]bool, len(t.files))
	for _, f := range t.files {
		m[f.path] = true
	}
	return m
}
