package fuse

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/spokefs/spokefs/fabric"
)

// files implements fuse.RawFileSystem over one portal.
type files struct {
	fuse.RawFileSystem // answers ENOSYS to what is not here
	portal             fabric.Portal
	root               fabric.Ino
	readOnly           bool
	server             *fuse.Server
	from               fabric.Watcher

	mu     sync.Mutex // guards what follows
	next   uint64
	open   map[uint64]*openFile
	dirs   map[uint64]*openDir
	known  map[uint64]uint64 // lookups of nodes that the kernel has
	groups map[uint32]groups // by process
}

// groups are the supplementary groups of a process, for a moment.
type groups struct {
	list []uint32
	at   time.Time
}

func newFiles(p fabric.Portal) *files {
	return &files{
		RawFileSystem: fuse.NewDefaultRawFileSystem(), portal: p, root: p.As(fabric.Root()).Root(), readOnly: p.Policy().ReadOnly,
		open: map[uint64]*openFile{}, dirs: map[uint64]*openDir{}, known: map[uint64]uint64{}, groups: map[uint32]groups{},
	}
}

// String implements fuse.RawFileSystem.
func (f *files) String() string { return "spokefs:" + f.portal.Name() }

// request is the context of one request: it ends when the kernel interrupts it.
type request struct{ cancel <-chan struct{} }

// Deadline implements context.Context.
func (request) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (r request) Done() <-chan struct{} { return r.cancel }

// Err implements context.Context.
func (r request) Err() error {
	select {
	case <-r.cancel:
		return context.Canceled
	default:
		return nil
	}
}

// Value implements context.Context.
func (request) Value(any) any { return nil }

// ino is the inode of a node id: the kernel calls the root 1.
func (f *files) ino(node uint64) fabric.Ino {
	if node == fuse.FUSE_ROOT_ID {
		return f.root
	}
	return fabric.Ino(node)
}

func (f *files) node(ino fabric.Ino) uint64 {
	if ino == f.root {
		return fuse.FUSE_ROOT_ID
	}
	return uint64(ino)
}

// as gives the caller's view.
func (f *files) as(h *fuse.InHeader) fabric.FS {
	who := fabric.Cred{UID: h.Uid, GID: h.Gid, From: f.from}
	if h.Uid != 0 {
		who.Groups = f.groupsOf(h.Pid)
	}
	return f.portal.As(who)
}

// groupTime is how long a process's groups are remembered; they hardly ever change.
const groupTime = time.Second

// groupsOf reads a process's supplementary groups, which requests do not bring.
func (f *files) groupsOf(pid uint32) []uint32 {
	now := time.Now()
	f.mu.Lock()
	g, ok := f.groups[pid]
	f.mu.Unlock()
	if ok && now.Sub(g.at) < groupTime {
		return g.list
	}
	g = groups{at: now}
	p, _ := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/status")
	if _, line, ok := bytes.Cut(p, []byte("\nGroups:")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		for _, s := range bytes.Fields(line) {
			if n, err := strconv.ParseUint(string(s), 10, 32); err == nil && len(g.list) < fabric.MaxGroups {
				g.list = append(g.list, uint32(n))
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.groups) > 4096 {
		clear(f.groups)
	}
	f.groups[pid] = g
	return g.list
}

var typeBits = [...]uint32{
	fabric.TypeFile: syscall.S_IFREG, fabric.TypeDir: syscall.S_IFDIR, fabric.TypeSymlink: syscall.S_IFLNK,
	fabric.TypeFifo: syscall.S_IFIFO, fabric.TypeSocket: syscall.S_IFSOCK, fabric.TypeChar: syscall.S_IFCHR, fabric.TypeBlock: syscall.S_IFBLK,
}

func setTime(t fabric.Time, sec *uint64, nsec *uint32) {
	s, n := int64(t)/1e9, int64(t)%1e9
	if n < 0 {
		s, n = s-1, n+1e9
	}
	*sec, *nsec = uint64(s), uint32(n)
}

// attr fills the kernel's attributes.
func (f *files) attr(a *fabric.Attr, out *fuse.Attr) {
	out.Ino = uint64(a.Ino)
	out.Size = uint64(a.Size)
	out.Blocks = uint64(a.Used+511) / 512
	out.Blksize = 1 << 17
	out.Mode = typeBits[a.Type] | uint32(a.Mode)
	out.Nlink = a.Nlink
	out.Uid, out.Gid = a.UID, a.GID
	out.Rdev = uint32(unix.Mkdev(uint32(a.Rdev>>32), uint32(a.Rdev)))
	setTime(a.Atime, &out.Atime, &out.Atimensec)
	setTime(a.Mtime, &out.Mtime, &out.Mtimensec)
	setTime(a.Ctime, &out.Ctime, &out.Ctimensec)
}

// entry fills the answer of a lookup, and counts it.
func (f *files) entry(a *fabric.Attr, out *fuse.EntryOut) {
	out.NodeId, out.Generation = f.node(a.Ino), 1
	f.attr(a, &out.Attr)
	out.SetAttrTimeout(a.Fresh)
	if f.readOnly {
		out.SetEntryTimeout(a.Fresh)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[out.NodeId]++
}

// Forget implements fuse.RawFileSystem.
func (f *files) Forget(node, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[node] <= n {
		delete(f.known, node)
	} else {
		f.known[node] -= n
	}
}

// Invalidate implements fabric.Observer. The kernel may make us wait for requests in flight, so
// each notification is sent from a goroutine that ctx does not hold up.
func (f *files) Invalidate(ctx context.Context, keys []fabric.Key) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, k := range keys {
			f.drop(k)
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drop tells the kernel to forget one thing; what it does not have is forgotten already.
func (f *files) drop(k fabric.Key) {
	switch k.Kind {
	case fabric.KeyAttr:
		f.server.InodeNotify(f.node(k.Ino), -1, 0)
	case fabric.KeyPages:
		f.server.InodeNotify(f.node(k.Ino), k.Off, k.Len)
	case fabric.KeyEntry:
		if f.readOnly { // elsewhere no name is kept
			f.server.EntryNotify(f.node(k.Ino), k.Name)
		}
	}
}

// InvalidateAll implements fabric.Observer.
func (f *files) InvalidateAll(ctx context.Context) error {
	f.mu.Lock()
	nodes := make([]uint64, 0, len(f.known)+1)
	nodes = append(nodes, fuse.FUSE_ROOT_ID)
	for n := range f.known {
		nodes = append(nodes, n)
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, n := range nodes {
			if ctx.Err() != nil {
				return
			}
			f.server.InodeNotify(n, 0, 0)
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
