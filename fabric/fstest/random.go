package fstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

// Random does the same random operations on two file systems and compares what they answer, the
// attributes, listings, extended attributes and content. got may have several sites; the sequence
// has no concurrency. After a difference it prints all that was done. The same seed does the same.
func Random(t *testing.T, got, want World, seed uint64, steps int) {
	p := &pair{t: t, ctx: t.Context(), w: got, ref: want.Portals[0], rng: rand.New(rand.NewPCG(seed, 0))}
	name := fmt.Sprint("random ", seed)
	spec := fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o1777}
	a, _, err := p.w.Portals[0].As(root).Make(p.ctx, p.w.Portals[0].As(root).Root(), name, spec)
	b, _, errRef := p.ref.As(root).Make(p.ctx, p.ref.As(root).Root(), name, spec)
	if err != nil || errRef != nil {
		t.Fatal(err, errRef)
	}
	p.know(a.Ino, b.Ino, fabric.TypeDir)
	defer p.closeAll()
	for i := range steps {
		p.step()
		if i%40 == 39 {
			p.compareAll()
			if p.w.Shake != nil && i%80 == 79 {
				p.trail = append(p.trail, "shake")
				p.closeAll()
				p.w.Portals = p.w.Shake(t)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d (SPOKEFS_SEED=%d), after:\n%s", seed, seed, strings.Join(p.trail, "\n"))
		}
	}
	p.closeAll()
	p.compareAll()
	if t.Failed() {
		t.Fatalf("seed %d, at the end, after:\n%s", seed, strings.Join(p.trail, "\n"))
	}
}

// pair is the two file systems at work.
type pair struct {
	t     *testing.T
	ctx   context.Context
	w     World
	ref   fabric.Portal
	rng   *rand.Rand
	nodes []*twin
	open  []twoFiles
	trail []string
}

// twin is one inode in both.
type twin struct {
	got, want fabric.Ino
	kind      fabric.Type
	// last is what was seen of it in both.
	last, lastRef fabric.Attr
}

type twoFiles struct {
	*twin
	got, want fabric.File
}

var people = []fabric.Cred{root, root, owner, member, other}

// sites gives a caller's view of both.
func (p *pair) sites(who fabric.Cred) (got, want fabric.FS) {
	return p.w.Portals[p.rng.IntN(len(p.w.Portals))].As(who), p.ref.As(who)
}

func (p *pair) know(got, want fabric.Ino, kind fabric.Type) {
	p.nodes = append(p.nodes, &twin{got: got, want: want, kind: kind})
}

// twinOf finds an inode by its number in the reference.
func (p *pair) twinOf(want fabric.Ino) *twin {
	for _, n := range p.nodes {
		if n.want == want {
			return n
		}
	}
	return nil
}

// any draws an inode, of one kind if there are many; it may be gone.
func (p *pair) any(kind fabric.Type) *twin {
	for range 20 {
		if n := p.nodes[p.rng.IntN(len(p.nodes))]; n.kind == kind {
			return n
		}
	}
	return p.nodes[0]
}

func (p *pair) name() string { return string(rune('a' + p.rng.IntN(6))) }

var sizes = []int64{0, 1, 100, 4096, 16 << 10, 16<<10 + 1, 70_000, 200_000}

func (p *pair) size() int64 { return sizes[p.rng.IntN(len(sizes))] }

// fill gives n bytes that differ from those of other calls.
func (p *pair) fill(n int64) []byte {
	out, x := make([]byte, n), byte(p.rng.Uint32())|1
	for i := range out {
		out[i] = x + byte(i/97)
	}
	return out
}

// say adds to the trail.
func (p *pair) say(format string, args ...any) {
	p.trail = append(p.trail, fmt.Sprintf(format, args...))
}

// errs compares errors, and says whether there was none.
func (p *pair) errs(got, want error) bool {
	p.say("    %v", fabric.CodeOf(want))
	if fabric.CodeOf(got) != fabric.CodeOf(want) {
		p.t.Errorf("error %v, want %v", got, want)
	}
	return got == nil && want == nil
}

// attr compares attributes: times by when they were set, versions by whether they moved.
func (p *pair) attr(got, want fabric.Attr) {
	n := p.twinOf(want.Ino)
	if n == nil || n.got != got.Ino {
		p.t.Errorf("inode %#x, want the twin of %#x", got.Ino, want.Ino)
		return
	}
	shape := func(a fabric.Attr) fabric.Attr {
		return fabric.Attr{Type: a.Type, Mode: a.Mode, UID: a.UID, GID: a.GID, Nlink: a.Nlink, Rdev: a.Rdev, Size: a.Size, Atime: explicit(a.Atime), Mtime: explicit(a.Mtime)}
	}
	if shape(got) != shape(want) {
		p.t.Errorf("inode %#x: attributes %+v, want %+v", got.Ino, shape(got), shape(want))
	}
	if want.Type == fabric.TypeDir {
		if up := p.twinOf(want.Parent); up != nil && up.got != got.Parent {
			p.t.Errorf("inode %#x: parent %#x, want %#x", got.Ino, got.Parent, up.got)
		}
	}
	moved := want.Iver != n.lastRef.Iver
	if got.Ctime < n.last.Ctime || moved && got.Ctime == n.last.Ctime {
		p.t.Errorf("inode %#x: ctime %d to %d, and there was a change: %v", got.Ino, n.last.Ctime, got.Ctime, moved)
	}
	if !p.w.IverLags && (got.Iver < n.last.Iver || moved && got.Iver == n.last.Iver) {
		p.t.Errorf("inode %#x: iver %d to %d, and there was a change: %v", got.Ino, n.last.Iver, got.Iver, moved)
	}
	n.last, n.lastRef = got, want
}

// explicit keeps times that a caller set, which are small here, and makes one of all others.
func explicit(t fabric.Time) fabric.Time {
	if t < 1<<20 {
		return t
	}
	return 1 << 20
}

// step does one operation on both.
func (p *pair) step() {
	who := people[p.rng.IntN(len(people))]
	got, want := p.sites(who)
	switch p.rng.IntN(12) {
	case 0, 1, 2:
		p.makeOne(who, got, want)
	case 3:
		p.linkOne(who, got, want)
	case 4:
		p.renameOne(who, got, want)
	case 5:
		p.removeOne(who, got, want)
	case 6:
		p.setOne(who, got, want)
	case 7, 8, 9:
		p.fileOne(who, got, want)
	case 10:
		p.xattrOne(who, got, want)
	case 11:
		p.lookOne(who, got, want)
	}
}

func (p *pair) makeOne(who fabric.Cred, got, want fabric.FS) {
	dir, name := p.any(fabric.TypeDir), p.name()
	spec := fabric.NodeSpec{Type: fabric.TypeFile, Mode: uint16(p.rng.IntN(8)<<9&0o6000 | 0o600 | p.rng.IntN(0o100))}
	switch p.rng.IntN(6) {
	case 0, 1:
		spec.Type, spec.Mode = fabric.TypeDir, uint16(0o700|p.rng.IntN(0o100)|p.rng.IntN(8)<<9&0o3000)
	case 2:
		spec.Type, spec.Target = fabric.TypeSymlink, name+"/x"
	}
	p.say("make %d in %#x %q type %d mode %o", who.UID, dir.got, name, spec.Type, spec.Mode)
	a, _, err := got.Make(p.ctx, dir.got, name, spec)
	b, _, errRef := want.Make(p.ctx, dir.want, name, spec)
	if p.errs(err, errRef) {
		p.know(a.Ino, b.Ino, spec.Type)
		p.attr(a, b)
	}
}

func (p *pair) linkOne(who fabric.Cred, got, want fabric.FS) {
	n, dir, name := p.any(fabric.TypeFile), p.any(fabric.TypeDir), p.name()
	if a, err := want.Stat(p.ctx, n.want); err != nil || a.Nlink == 0 {
		return // where a file without names lives on is its site's to say
	}
	if p.rng.IntN(2) == 0 {
		p.say("replace %d %#x in %#x %q", who.UID, n.got, dir.got, name)
		a, _, err := got.Replace(p.ctx, n.got, dir.got, name, fabric.Cond{})
		b, _, errRef := want.Replace(p.ctx, n.want, dir.want, name, fabric.Cond{})
		if p.errs(err, errRef) {
			p.attr(a, b)
		}
		return
	}
	p.say("link %d %#x in %#x %q", who.UID, n.got, dir.got, name)
	a, _, err := got.Link(p.ctx, n.got, dir.got, name)
	b, _, errRef := want.Link(p.ctx, n.want, dir.want, name)
	if p.errs(err, errRef) {
		p.attr(a, b)
	}
}

func (p *pair) renameOne(who fabric.Cred, got, want fabric.FS) {
	from, to, old, name := p.any(fabric.TypeDir), p.any(fabric.TypeDir), p.name(), p.name()
	mode := fabric.RenameMode(p.rng.IntN(5) / 4)
	p.say("rename %d %#x %q to %#x %q mode %d", who.UID, from.got, old, to.got, name, mode)
	_, _, err := got.Rename(p.ctx, from.got, old, to.got, name, mode)
	_, _, errRef := want.Rename(p.ctx, from.want, old, to.want, name, mode)
	p.errs(err, errRef)
}

func (p *pair) removeOne(who fabric.Cred, got, want fabric.FS) {
	dir, name, kind := p.any(fabric.TypeDir), p.name(), fabric.RemoveKind(p.rng.IntN(3))
	p.say("remove %d in %#x %q kind %d", who.UID, dir.got, name, kind)
	_, err := got.Remove(p.ctx, dir.got, name, kind, fabric.Cond{})
	_, errRef := want.Remove(p.ctx, dir.want, name, kind, fabric.Cond{})
	p.errs(err, errRef)
}

func (p *pair) setOne(who fabric.Cred, got, want fabric.FS) {
	n := p.live()
	some, few := p.rng.IntN(1<<8), p.rng.IntN(1<<8) // both have a bit: one in four
	set := fabric.SetAttr{Set: fabric.SetBits(some&few) &^ (fabric.SetUID | fabric.SetGID),
		Mode: uint16(p.rng.IntN(0o10000)) | 0o700, Size: p.size(), Atime: fabric.Time(p.rng.IntN(1 << 19)), Mtime: fabric.Time(p.rng.IntN(1 << 19))}
	if set.Set&fabric.SetAtime != 0 {
		set.Set &^= fabric.SetAtimeNow
	}
	if set.Set&fabric.SetMtime != 0 {
		set.Set &^= fabric.SetMtimeNow
	}
	p.say("setattr %d %#x set %x mode %o size %d times %d %d", who.UID, n.got, set.Set, set.Mode, set.Size, set.Atime, set.Mtime)
	_, err := got.SetAttr(p.ctx, n.got, set)
	_, errRef := want.SetAttr(p.ctx, n.want, set)
	p.errs(err, errRef)
}

// live draws an inode that has a name.
func (p *pair) live() *twin {
	for range 50 {
		n := p.nodes[p.rng.IntN(len(p.nodes))]
		if _, err := p.ref.As(root).Stat(p.ctx, n.want); err == nil {
			return n
		}
	}
	return p.nodes[0]
}

func (p *pair) xattrOne(who fabric.Cred, got, want fabric.FS) {
	n, name, mode := p.live(), "user."+p.name(), fabric.XattrMode(p.rng.IntN(3))
	if p.rng.IntN(3) == 0 {
		p.say("removexattr %d %#x %s", who.UID, n.got, name)
		p.errs(got.RemoveXattr(p.ctx, n.got, name), want.RemoveXattr(p.ctx, n.want, name))
		return
	}
	value := p.fill(p.rng.Int64N(200))
	p.say("setxattr %d %#x %s mode %d", who.UID, n.got, name, mode)
	p.errs(got.SetXattr(p.ctx, n.got, name, value, mode), want.SetXattr(p.ctx, n.want, name, value, mode))
}

func (p *pair) lookOne(who fabric.Cred, got, want fabric.FS) {
	dir := p.any(fabric.TypeDir)
	path := []string{p.name(), p.name(), p.name()}[:1+p.rng.IntN(3)]
	p.say("walk %d from %#x %q", who.UID, dir.got, path)
	a, err := got.Walk(p.ctx, dir.got, path)
	b, errRef := want.Walk(p.ctx, dir.want, path)
	p.errs(err, errRef)
	if len(a) != len(b) {
		p.t.Errorf("%d steps, want %d", len(a), len(b))
		return
	}
	for i := range a {
		p.attr(a[i], b[i])
	}
	up, err := got.Lookup(p.ctx, dir.got, "..")
	upRef, errRef := want.Lookup(p.ctx, dir.want, "..")
	if p.errs(err, errRef) && p.twinOf(upRef.Ino) != nil {
		p.attr(up, upRef)
	}
}
