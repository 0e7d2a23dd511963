package cluster

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/spokefs/spokefs/e2e/harness"
	"github.com/spokefs/spokefs/protocols/fuse"
)

// workers is how many make changes and check them at once, each with files of its own, all in the
// same few directories.
const workers = 8

// perWorker is how many names a worker has.
const perWorker = 6

// dirs are where they are.
var dirs = []string{"d0", "d1"}

// worker makes a change at one spoke and looks at it from the other.
type worker struct {
	id    int
	r     *rand.Rand
	sides [2]map[string]protocol
	names []string // of protocols
	files map[string][]byte
	inode map[string]int      // which file a name has, counted from 1
	made  int                 // files so far
	held  [2]map[int]*os.File // by FUSE, open over many changes
	log   []string            // the last steps
	pairs map[string]int
}

// maxHeld bounds how many files a worker has open at each side.
const maxHeld = 8

func (w *worker) name() string {
	return fmt.Sprintf("%s/w%d-%d", dirs[w.r.IntN(len(dirs))], w.id, w.r.IntN(perWorker))
}

// change draws an operation that p can do, and what the files are after it.
func (w *worker) change(p protocol) (op harness.FileOp, after map[string][]byte) {
	sizes := []int64{0, 1, 100, 100, 3000, 4096, 5000, 16 << 10, 16<<10 + 1, 70_000, 300_000}
	data := make([]byte, sizes[w.r.IntN(len(sizes))])
	seed := w.r.Uint32()
	for i := range data {
		seed = seed*1664525 + 1013904223
		data[i] = byte(seed >> 24)
	}
	for {
		op = harness.FileOp{Path: w.name(), To: w.name(), Data: data, Size: sizes[w.r.IntN(len(sizes))], Sync: w.r.IntN(4) == 0}
		old, exists := w.files[op.Path]
		kinds := []string{harness.Create, harness.Overwrite}
		if exists {
			kinds = []string{harness.Overwrite, harness.Overwrite, harness.Append, harness.Append, harness.Truncate, harness.Rename, harness.Rename, harness.Remove}
		}
		op.Kind = kinds[w.r.IntN(len(kinds))]
		if !p.can(op.Kind) || op.Kind == harness.Rename && op.To == op.Path {
			continue
		}
		after = maps.Clone(w.files)
		switch op.Kind {
		case harness.Create, harness.Overwrite:
			after[op.Path] = data
		case harness.Append:
			after[op.Path] = slices.Concat(old, data)
		case harness.Truncate:
			after[op.Path] = slices.Concat(old, make([]byte, max(0, op.Size-int64(len(old)))))[:op.Size]
		case harness.Rename:
			after[op.To] = old
			delete(after, op.Path)
		case harness.Remove:
			delete(after, op.Path)
		}
		return op, after
	}
}

// step makes a change by one protocol at one spoke, and checks what all of them show at the other,
// in any order: the first one recalls what the writer has, the others must not show what they had.
func (w *worker) step() (checks int64, err error) {
	side := w.r.IntN(2)
	by := w.names[w.r.IntN(len(w.names))]
	op, after := w.change(w.sides[side][by])
	what := fmt.Sprintf("%s by %s at %d (%s, %d bytes, size %d, sync %v)", op.Kind, by, side, strings.TrimSuffix(op.Path+" "+op.To, " "), len(op.Data), op.Size, op.Sync)
	w.log = append(w.log[max(0, len(w.log)-9):], what)
	if err := w.sides[side][by].do(op).Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	w.files = after
	w.follow(op, by)
	if err := w.checkHeld(1-side, op.Path); err != nil {
		return 0, fmt.Errorf("held open at %d: %w", 1-side, err)
	}
	for _, i := range w.r.Perm(len(w.names)) {
		to := w.names[i]
		reader := w.sides[1-side][to]
		switch {
		case w.r.IntN(8) == 0:
			err = w.checkNames(reader, filepath.Dir(op.Path))
		case op.Kind == harness.Rename && w.r.IntN(2) == 0:
			err = w.checkFile(reader, op.To)
		default:
			err = w.checkFile(reader, op.Path)
		}
		if err != nil {
			return checks, fmt.Errorf("by %s at %d: %w", to, 1-side, err)
		}
		checks++
		w.pairs[by+" to "+to]++
	}
	return checks, nil
}

// follow keeps track of which file a name has: S3 makes a new one for each object.
func (w *worker) follow(op harness.FileOp, by string) {
	switch {
	case op.Kind == harness.Rename && by != "S3":
		w.inode[op.To] = w.inode[op.Path]
	case op.Kind == harness.Rename:
		w.made++
		w.inode[op.To] = w.made
	case by == "S3" || w.inode[op.Path] == 0:
		w.made++
		w.inode[op.Path] = w.made
	}
	if op.Kind == harness.Rename || op.Kind == harness.Remove {
		delete(w.inode, op.Path)
	}
}

// checkHeld reads a file through the descriptor that has been open since before the change, and
// sees to it that there is one for the next. The kernel must have dropped its pages.
func (w *worker) checkHeld(side int, name string) error {
	ino := w.inode[name]
	if ino == 0 {
		return nil
	}
	f := w.held[side][ino]
	if f == nil {
		f, err := os.Open(filepath.Join(string(w.sides[side]["FUSE"].(mounted)), name))
		if err != nil {
			return err
		}
		for other, g := range w.held[side] {
			if len(w.held[side]) >= maxHeld {
				delete(w.held[side], other)
				g.Close()
			}
		}
		w.held[side][ino] = f
		_, err = io.Copy(io.Discard, f)
		return err
	}
	want := w.files[name]
	got, err := io.ReadAll(io.NewSectionReader(f, 0, int64(len(want))+1))
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%s has %d bytes, %v; written were %d, equal up to %d", name, len(got), err, len(want), common(got, want))
	}
	w.pairs["held"]++
	return nil
}

// checkFile compares a file, or that there is none.
func (w *worker) checkFile(reader protocol, name string) error {
	got := reader.do(harness.FileOp{Kind: harness.ReadFile, Path: name})
	want, exists := w.files[name]
	switch {
	case !exists && got.Errno != syscall.ENOENT:
		return fmt.Errorf("%s has %d bytes, %v; it was removed", name, len(got.Data), got.Err())
	case exists && (got.Errno != 0 || !bytes.Equal(got.Data, want)):
		return fmt.Errorf("%s has %d bytes, %v; written were %d, equal up to %d", name, len(got.Data), got.Err(), len(want), common(got.Data, want))
	}
	return nil
}

// common is how many bytes two contents have in common at the start.
func common(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// checkNames compares a listing with this worker's files there.
func (w *worker) checkNames(reader protocol, dir string) error {
	got := reader.do(harness.FileOp{Kind: harness.ReadDir, Path: dir})
	if got.Err() != nil {
		return fmt.Errorf("list %s: %w", dir, got.Err())
	}
	mine := fmt.Sprintf("w%d-", w.id)
	names := slices.DeleteFunc(got.Names, func(n string) bool { return !strings.HasPrefix(n, mine) })
	var want []string
	for p := range w.files {
		if filepath.Dir(p) == dir {
			want = append(want, filepath.Base(p))
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		return fmt.Errorf("list %s: %q; there are %q", dir, names, want)
	}
	return nil
}

// sites are two spokes with every protocol of this machine.
type sites struct {
	world  *harness.World
	spokes [2]*harness.Node
	mounts [2]string
}

func openSites(t *testing.T) *sites {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes and takes a while")
	}
	if err := fuse.Available(); err != nil {
		harness.Lacking(t, err)
	}
	s := &sites{world: harness.Open(t, harness.Spec{})}
	for i, name := range []string{"one", "two"} {
		n, err := s.world.Join(t.Context(), name, harness.Spec{NFS: true, S3: true})
		if err != nil {
			t.Fatal(err)
		}
		s.spokes[i], s.mounts[i] = n, filepath.Join(s.world.Dir, "mnt-"+name)
		if err := n.Mount(t.Context(), s.mounts[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range dirs {
		if err := os.Mkdir(filepath.Join(s.mounts[0], d), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.mounts[0], d, "stays"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// number is a setting, or what it is by default.
func number(name string, by uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return by
}

// cross makes checks by workers with these protocols. more gives what a side has besides.
func (s *sites) cross(t *testing.T, checks uint64, more map[string][2]protocol) {
	seed := number("SPOKEFS_SEED", 1)
	var left atomic.Int64
	left.Store(int64(checks))
	var mu sync.Mutex
	pairs := map[string]int{}
	var wg sync.WaitGroup
	for id := range workers {
		w := &worker{id: id, r: rand.New(rand.NewPCG(seed, uint64(id))), files: map[string][]byte{}, inode: map[string]int{}, pairs: map[string]int{}}
		for i, n := range s.spokes {
			w.held[i] = map[int]*os.File{}
			w.sides[i] = map[string]protocol{"FUSE": mounted(s.mounts[i]), "NFS": dialNFS(t, n), "S3": dialS3(t, s.world, n)}
			for name, p := range more {
				w.sides[i][name] = p[i]
			}
		}
		w.names = slices.Sorted(maps.Keys(w.sides[0]))
		wg.Go(func() {
			for left.Load() > 0 && !t.Failed() {
				n, err := w.step()
				left.Add(-n)
				if err != nil {
					t.Errorf("seed %d, worker %d: %v\nits last steps:\n%s", seed, id, err, strings.Join(w.log, "\n"))
				}
			}
			for _, held := range w.held {
				for _, f := range held {
					f.Close()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range w.pairs {
				pairs[k] += n
			}
		})
	}
	wg.Wait()
	t.Logf("%d checks: %v", int64(checks)-left.Load(), pairs)
	if out, err := s.world.Spokefs("fsck", "--socket", s.world.Hub.Socket()); err != nil {
		t.Errorf("fsck: %v: %s", err, out)
	}
}

// A change made and closed at one spoke is what an open at the other sees, whatever the protocols.
// SPOKEFS_CHECKS is how many checks, SPOKEFS_SEED draws others.
func TestTwoSpokes(t *testing.T) {
	openSites(t).cross(t, number("SPOKEFS_CHECKS", 10_000), nil)
}

// kernel is a mount of the Linux kernel's NFS client.
type kernel struct {
	g     *harness.Guest
	mount int
}

func (k kernel) do(op harness.FileOp) harness.FileResult { return k.g.Do(k.mount, op) }

func (k kernel) can(string) bool { return true }

// The same with the Linux kernel's client among the protocols, mounted so that it asks each time.
func TestTwoSpokesKernel(t *testing.T) {
	s := openSites(t)
	g := harness.OpenGuest(t, "hard,actimeo=0,lookupcache=none", port(t, s.spokes[0]), port(t, s.spokes[1]))
	s.cross(t, number("SPOKEFS_KERNEL_CHECKS", 1200), map[string][2]protocol{"kernel": {kernel{g, 0}, kernel{g, 1}}})
}
