// Package fstest is the suite that every fabric.FS passes: [Run] takes each method and each error
// that the interface names, [Random] compares an FS with another one under random operations, and
// [Race] lets several callers work in one directory.
//
// All three take a [World], which may have several sites: then each call goes to the next one, so
// that what one site was answered is what the other must show.
package fstest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

// World is what is tested: one namespace, at one or more sites.
type World struct {
	// Portals show the namespace's root at each site; its mode must let root of the tests make
	// directories. Calls go to them in turn.
	Portals []fabric.Portal
	// ReadOnly shows it without the right to change it; nil: that is not tested.
	ReadOnly fabric.Portal
	// IverLags: iver may stand still over a change that meets the publish of others. Then ctime
	// alone is asked to grow.
	IverLags bool
	// Shake, if not nil, is called by Random from time to time, when no file is open: it may drop
	// caches or start sites anew. It gives the portals to go on with.
	Shake func(t *testing.T) []fabric.Portal
}

// The callers of the cases. Owner and member share the group 2000.
var (
	root   = fabric.Root()
	owner  = fabric.Cred{UID: 1000, GID: 1000, Groups: []uint32{2000}}
	member = fabric.Cred{UID: 1001, GID: 1001, Groups: []uint32{2000}}
	other  = fabric.Cred{UID: 1002, GID: 1002}
)

// env is one case at work, in a directory of its own, in which all may do all.
type env struct {
	*testing.T
	w    *World
	ctx  context.Context
	turn int
	dir  fabric.Ino
}

// as gives a caller's view of the next site.
func (e *env) as(who fabric.Cred) fabric.FS {
	e.turn++
	return e.w.Portals[e.turn%len(e.w.Portals)].As(who)
}

// Run runs every case.
func Run(t *testing.T, w World) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(newEnv(t, &w, "case "+c.name)) })
	}
}

// newEnv makes the directory of a case.
func newEnv(t *testing.T, w *World, name string) *env {
	t.Helper()
	e := &env{T: t, w: w, ctx: t.Context()}
	top := w.Portals[0].As(root)
	a, _, err := top.Make(e.ctx, top.Root(), name, fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o777})
	if err != nil {
		t.Fatal("the directory of the case: ", err)
	}
	e.dir = a.Ino
	return e
}

var cases = []struct {
	name string
	run  func(e *env)
}{
	{"lookup", testLookup}, {"walk", testWalk}, {"make", testMake}, {"make errors", testMakeErrors},
	{"exclusive", testExclusive}, {"link", testLink}, {"remove", testRemove}, {"sticky", testSticky},
	{"conditions", testConditions}, {"unnamed", testUnnamed}, {"discard", testDiscard}, {"replace errors", testReplaceErrors},
	{"rename", testRename}, {"rename directories", testRenameDirs}, {"rename errors", testRenameErrors},
	{"listing", testListing}, {"listing goes on", testListingGoesOn}, {"listing errors", testListingErrors},
	{"links", testReadLink}, {"access", testAccess}, {"gone", testGone},
	{"chmod", testChmod}, {"chown", testChown}, {"times", testTimes}, {"guard", testGuard}, {"all or nothing", testAllOrNothing},
	{"xattrs", testXattrs}, {"xattr errors", testXattrErrors}, {"description", testDescription},
	{"read and write", testReadWrite}, {"append", testAppend}, {"truncate", testTruncate}, {"holes", testHoles},
	{"open errors", testOpenErrors}, {"file errors", testFileErrors}, {"open owner", testOpenOwner},
	{"fixed", testFixed}, {"unlinked", testUnlinked}, {"privileges", testPrivileges}, {"privileges given", testPrivilegesGiven},
	{"clone", testClone}, {"clone errors", testCloneErrors}, {"usage", testUsage}, {"changes", testChanges},
	{"handles", testHandles}, {"observers", testObservers}, {"read-only", testReadOnly}, {"locks", testLocks},
}

// must ends the case if there was an error.
func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// want reports an error that is not the one that was to come.
func (e *env) want(what string, err error, code fabric.Code) {
	e.Helper()
	if fabric.CodeOf(err) != code {
		e.Errorf("%s: error %v, want %v", what, err, code)
	}
}

// same reports a difference.
func same[T comparable](e *env, what string, got, want T) {
	e.Helper()
	if got != want {
		e.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// make makes an inode in the case's directory.
func (e *env) make(who fabric.Cred, name string, t fabric.Type, mode uint16) fabric.Ino {
	e.Helper()
	return e.makeIn(who, e.dir, name, fabric.NodeSpec{Type: t, Mode: mode})
}

func (e *env) makeIn(who fabric.Cred, dir fabric.Ino, name string, spec fabric.NodeSpec) fabric.Ino {
	e.Helper()
	a, _, err := e.as(who).Make(e.ctx, dir, name, spec)
	e.must(err)
	return a.Ino
}

// file makes a file with a content.
func (e *env) file(who fabric.Cred, name, content string) fabric.Ino {
	e.Helper()
	ino := e.make(who, name, fabric.TypeFile, 0o644)
	e.write(ino, 0, content)
	return ino
}

// open opens a file as root, until the case ends.
func (e *env) open(ino fabric.Ino, m fabric.OpenMode) fabric.File {
	e.Helper()
	return e.openAs(root, ino, m)
}

func (e *env) openAs(who fabric.Cred, ino fabric.Ino, m fabric.OpenMode) fabric.File {
	e.Helper()
	f, err := e.as(who).Open(e.ctx, ino, m)
	e.must(err)
	e.Cleanup(func() { f.Close(context.Background()) }) // a second time is an error, and no harm
	return f
}

func (e *env) write(ino fabric.Ino, off int64, p string) {
	e.Helper()
	f, err := e.as(root).Open(e.ctx, ino, fabric.OpenWrite)
	e.must(err)
	n, _, err := f.WriteAt(e.ctx, []byte(p), off)
	e.must(errors.Join(err, f.Close(e.ctx)))
	same(e, "bytes written", n, len(p))
}

// read gives all of a file.
func (e *env) read(ino fabric.Ino) string {
	e.Helper()
	f, err := e.as(root).Open(e.ctx, ino, fabric.OpenRead)
	e.must(err)
	p := e.readFile(f)
	e.must(f.Close(e.ctx))
	return p
}

func (e *env) readFile(f fabric.File) string {
	e.Helper()
	a, err := f.Stat(e.ctx)
	e.must(err)
	p := make([]byte, a.Size+1) // a read that ends early does not fill it
	n, err := f.ReadAt(e.ctx, p, 0)
	e.must(err)
	same(e, "bytes read of a file by its size", int64(n), a.Size)
	return string(p[:n])
}

func (e *env) stat(ino fabric.Ino) fabric.Attr {
	e.Helper()
	a, err := e.as(root).Stat(e.ctx, ino)
	e.must(err)
	a.Fresh = 0
	return a
}

// lookup gives the inode of a name, 0 if there is none.
func (e *env) lookup(dir fabric.Ino, name string) fabric.Ino {
	e.Helper()
	a, err := e.as(root).Lookup(e.ctx, dir, name)
	if fabric.CodeOf(err) == fabric.NotExist {
		return 0
	}
	e.must(err)
	return a.Ino
}

// list gives a listing as root.
func (e *env) list(dir fabric.Ino, from fabric.Pos) []fabric.Entry {
	e.Helper()
	var out []fabric.Entry
	for d, err := range e.as(root).ReadDir(e.ctx, dir, from) {
		e.must(err)
		out = append(out, d)
	}
	return out
}

// names gives the names of a listing.
func names(list []fabric.Entry) (out []string) {
	for _, d := range list {
		out = append(out, d.Name)
	}
	return out
}

// sync makes a file durable, wherever it was written.
func (e *env) sync(ino fabric.Ino) {
	e.Helper()
	for _, p := range e.w.Portals {
		e.must(p.As(root).Sync(e.ctx, ino))
	}
}

// gone waits until an inode that lost its last name is no more: whoever may have had it open gives
// it up on their own time, and until then it may be seen.
func (e *env) gone(ino fabric.Ino) {
	e.Helper()
	for range 100_000 {
		if _, err := e.as(root).Stat(e.ctx, ino); err != nil {
			e.want("an inode without names", err, fabric.Stale)
			return
		}
		runtime.Gosched()
	}
	e.Error("an inode without names is still there")
}

// changed reports what of an inode does not move with a change of it.
func (e *env) changed(what string, before, after fabric.Attr) {
	e.Helper()
	if after.Iver <= before.Iver && !e.w.IverLags || after.Ctime <= before.Ctime {
		e.Errorf("%s: iver %d to %d, ctime %d to %d: both must grow", what, before.Iver, after.Iver, before.Ctime, after.Ctime)
	}
}
