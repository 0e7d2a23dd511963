package fuse

import (
	"iter"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/spokefs/spokefs/fabric"
)

// openFile is a file that the kernel has open.
type openFile struct {
	file   fabric.File
	write  bool
	append bool
}

// openDir is a directory that the kernel is listing.
type openDir struct {
	next func() (fabric.Entry, error, bool)
	stop func()
	at   uint64        // the offset that next goes on from
	held *fabric.Entry // did not fit the last answer
}

func (f *files) file(fh uint64) *openFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[fh]
}

// opened opens an inode and fills the answer.
func (f *files) opened(cancel <-chan struct{}, h *fuse.InHeader, a *fabric.Attr, flags uint32, creating bool, out *fuse.OpenOut) fuse.Status {
	var m fabric.OpenMode
	switch flags & syscall.O_ACCMODE {
	case syscall.O_RDONLY:
		m = fabric.OpenRead
	case syscall.O_WRONLY:
		m = fabric.OpenWrite
	case syscall.O_RDWR:
		m = fabric.OpenRead | fabric.OpenWrite
	default:
		return fuse.EINVAL
	}
	o := &openFile{write: m&fabric.OpenWrite != 0, append: flags&syscall.O_APPEND != 0}
	if creating {
		m |= fabric.OpenOwner
	}
	fs := f.as(h)
	file, err := fs.Open(request{cancel}, a.Ino, m)
	if err != nil {
		return status(err)
	}
	o.file = file
	switch {
	case o.write:
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	case a.Fresh > 0:
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	default:
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO // what has no lease is not kept
	}
	if !o.write {
		out.OpenFlags |= fuse.FOPEN_NOFLUSH // a close has nothing to tell: a request less
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	out.Fh = f.next
	f.open[out.Fh] = o
	return fuse.OK
}

// Create implements fuse.RawFileSystem. The mode bits do not bind the open that creates (N14).
func (f *files) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	spec := fabric.NodeSpec{Type: fabric.TypeFile, Mode: uint16(in.Mode) & fabric.ModeAll}
	a, st := f.make(cancel, &in.InHeader, name, spec, &out.EntryOut)
	if st == fuse.Status(syscall.EEXIST) && in.Flags&syscall.O_EXCL == 0 {
		if st = f.Lookup(cancel, &in.InHeader, name, &out.EntryOut); st != fuse.OK {
			return st
		}
		var o fuse.OpenOut
		st = f.Open(cancel, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: out.NodeId, Caller: in.Caller}, Flags: in.Flags}, &o)
		out.OpenOut = o
		return st
	}
	if st != fuse.OK {
		return st
	}
	return f.opened(cancel, &in.InHeader, &a, in.Flags, true, &out.OpenOut)
}

// Open implements fuse.RawFileSystem.
func (f *files) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	a, err := f.as(&in.InHeader).Stat(request{cancel}, f.ino(in.NodeId))
	if err != nil {
		return status(err)
	}
	return f.opened(cancel, &in.InHeader, &a, in.Flags, false, out)
}

// Read implements fuse.RawFileSystem.
func (f *files) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	o := f.file(in.Fh)
	if o == nil {
		return nil, fuse.EBADF
	}
	n, err := o.file.ReadAt(request{cancel}, buf[:min(int(in.Size), len(buf))], int64(in.Offset))
	if err != nil {
		return nil, status(err)
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

// Write implements fuse.RawFileSystem. Written-back pages of a shared map come here too, and go
// where they belong also in a file opened with O_APPEND.
func (f *files) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	o := f.file(in.Fh)
	if o == nil {
		return 0, fuse.EBADF
	}
	if o.append && in.WriteFlags&fuse.WRITE_CACHE == 0 {
		if _, _, err := o.file.Append(request{cancel}, data); err != nil {
			return 0, status(err)
		}
		return uint32(len(data)), fuse.OK
	}
	n, _, err := o.file.WriteAt(request{cancel}, data, int64(in.Offset))
	return uint32(n), status(err)
}

// Flush implements fuse.RawFileSystem: the release does it.
func (f *files) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

// Fsync implements fuse.RawFileSystem.
func (f *files) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	o := f.file(in.Fh)
	if o == nil {
		return fuse.EBADF
	}
	return status(o.file.Sync(request{cancel}))
}

// Release implements fuse.RawFileSystem.
func (f *files) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	f.mu.Lock()
	o := f.open[in.Fh]
	delete(f.open, in.Fh)
	f.mu.Unlock()
	if o != nil {
		o.file.Close(request{cancel})
	}
}

// Lseek implements fuse.RawFileSystem: SEEK_DATA and SEEK_HOLE.
func (f *files) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	o := f.file(in.Fh)
	if o == nil {
		return fuse.EBADF
	}
	a, err := o.file.Stat(request{cancel})
	if err != nil {
		return status(err)
	}
	off := int64(in.Offset)
	if off >= a.Size {
		return fuse.Status(syscall.ENXIO)
	}
	start, end, err := o.file.NextData(request{cancel}, off)
	if err != nil {
		return status(err)
	}
	switch in.Whence {
	case unix.SEEK_DATA:
		if start >= a.Size {
			return fuse.Status(syscall.ENXIO)
		}
		out.Offset = uint64(start)
	case unix.SEEK_HOLE:
		if out.Offset = uint64(off); start == off {
			out.Offset = uint64(end)
		}
	default:
		return fuse.EINVAL
	}
	return fuse.OK
}

// Fallocate implements fuse.RawFileSystem: holes can be punched, and a file grows as asked. Space is
// not set aside: it is credit at the hub, not blocks.
func (f *files) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	o := f.file(in.Fh)
	if o == nil {
		return fuse.EBADF
	}
	ctx := request{cancel}
	switch in.Mode {
	case unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE:
		_, err := o.file.Punch(ctx, int64(in.Offset), int64(in.Length))
		return status(err)
	case unix.FALLOC_FL_KEEP_SIZE:
		return fuse.OK
	case 0:
	default:
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	a, err := o.file.Stat(ctx)
	size := int64(in.Offset + in.Length)
	if err == nil && size > a.Size {
		fs := f.portal.As(fabric.Cred{UID: a.UID, GID: a.GID, From: f.from})
		_, err = fs.SetAttr(ctx, a.Ino, fabric.SetAttr{Set: fabric.SetSize, Size: size})
	}
	return status(err)
}

// OpenDir implements fuse.RawFileSystem.
func (f *files) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	fs := f.as(&in.InHeader)
	got, err := fs.Access(request{cancel}, f.ino(in.NodeId), fabric.PermRead)
	if err == nil && got == 0 {
		err = fabric.Denied
	}
	if err != nil {
		return status(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	out.Fh = f.next
	f.dirs[out.Fh] = &openDir{}
	return fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (f *files) ReleaseDir(in *fuse.ReleaseIn) {
	f.mu.Lock()
	d := f.dirs[in.Fh]
	delete(f.dirs, in.Fh)
	f.mu.Unlock()
	if d != nil && d.stop != nil {
		d.stop()
	}
}

// FsyncDir implements fuse.RawFileSystem: a change of names is durable when it is answered.
func (f *files) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// forever is the context of a listing, which outlives the request that starts it.
var forever = request{make(chan struct{})}

// ReadDir implements fuse.RawFileSystem.
func (f *files) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.listed(in, func(e *fabric.Entry, d fuse.DirEntry) bool { return out.AddDirEntry(d) })
}

// ReadDirPlus implements fuse.RawFileSystem.
func (f *files) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.listed(in, func(e *fabric.Entry, d fuse.DirEntry) bool {
		o := out.AddDirLookupEntry(d)
		if o == nil {
			return false
		}
		if e != nil && e.Attr.Type != fabric.TypeNone {
			f.entry(&e.Attr, o)
		}
		return true
	})
}

// listed answers one page of a listing. Offsets are the entries' cookies; . and .. are 1 and 2.
func (f *files) listed(in *fuse.ReadIn, add func(e *fabric.Entry, d fuse.DirEntry) bool) fuse.Status {
	f.mu.Lock()
	d := f.dirs[in.Fh]
	f.mu.Unlock()
	if d == nil {
		return fuse.EBADF
	}
	at := in.Offset
	for ; at < 2; at++ {
		name := [...]string{".", ".."}[at]
		if !add(nil, fuse.DirEntry{Name: name, Ino: in.NodeId, Mode: syscall.S_IFDIR, Off: at + 1}) {
			return fuse.OK
		}
	}
	if d.next == nil || d.at != at {
		if d.stop != nil {
			d.stop()
		}
		from := fabric.Pos{After: fabric.Cookie(at)}
		d.next, d.stop = iter.Pull2(f.as(&in.InHeader).ReadDir(forever, f.ino(in.NodeId), from))
		d.at, d.held = at, nil
	}
	for {
		e := d.held
		if e == nil {
			got, err, ok := d.next()
			if !ok {
				return fuse.OK
			}
			if err != nil {
				d.stop()
				d.next, d.stop = nil, nil
				return status(err)
			}
			e = &got
		}
		d.held = nil
		if !add(e, fuse.DirEntry{Name: e.Name, Ino: uint64(e.Attr.Ino), Mode: typeBits[e.Attr.Type], Off: uint64(e.Cookie)}) {
			d.held = e
			return fuse.OK
		}
		d.at = uint64(e.Cookie)
	}
}
