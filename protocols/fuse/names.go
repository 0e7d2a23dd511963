package fuse

import (
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/spokefs/spokefs/fabric"
)

// Lookup implements fuse.RawFileSystem.
func (f *files) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	a, err := f.as(h).Lookup(request{cancel}, f.ino(h.NodeId), name)
	if err != nil {
		return status(err)
	}
	f.entry(&a, out)
	return fuse.OK
}

// GetAttr implements fuse.RawFileSystem.
func (f *files) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	a, err := f.as(&in.InHeader).Stat(request{cancel}, f.ino(in.NodeId))
	if err != nil {
		return status(err)
	}
	f.attr(&a, &out.Attr)
	out.SetTimeout(a.Fresh)
	return fuse.OK
}

func clock(sec uint64, nsec uint32) fabric.Time {
	return fabric.Time(int64(sec)*1e9 + int64(nsec))
}

// SetAttr implements fuse.RawFileSystem.
func (f *files) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	var s fabric.SetAttr
	has := func(bit uint32, set fabric.SetBits) {
		if in.Valid&bit != 0 {
			s.Set |= set
		}
	}
	has(fuse.FATTR_MODE, fabric.SetMode)
	has(fuse.FATTR_UID, fabric.SetUID)
	has(fuse.FATTR_GID, fabric.SetGID)
	has(fuse.FATTR_SIZE, fabric.SetSize)
	has(fuse.FATTR_KILL_SUIDGID, fabric.SetKillPriv)
	s.Mode, s.UID, s.GID, s.Size = uint16(in.Mode)&fabric.ModeAll, in.Uid, in.Gid, int64(in.Size)
	switch {
	case in.Valid&fuse.FATTR_ATIME_NOW != 0:
		s.Set |= fabric.SetAtimeNow
	case in.Valid&fuse.FATTR_ATIME != 0:
		s.Set |= fabric.SetAtime
		s.Atime = clock(in.Atime, in.Atimensec)
	}
	switch {
	case in.Valid&fuse.FATTR_MTIME_NOW != 0:
		s.Set |= fabric.SetMtimeNow
	case in.Valid&fuse.FATTR_MTIME != 0:
		s.Set |= fabric.SetMtime
		s.Mtime = clock(in.Mtime, in.Mtimensec)
	}
	fs := f.as(&in.InHeader)
	if h := f.file(in.Fh); in.Valid&fuse.FATTR_FH != 0 && h != nil && h.write && s.Set == fabric.SetSize {
		// ftruncate goes by what the open was allowed, and not by the mode bits of now.
		if a, err := fs.Stat(request{cancel}, f.ino(in.NodeId)); err == nil {
			fs = f.portal.As(fabric.Cred{UID: a.UID, GID: a.GID, From: f.from})
		}
	}
	c, err := fs.SetAttr(request{cancel}, f.ino(in.NodeId), s)
	if err != nil {
		return status(err)
	}
	f.attr(&c.After, &out.Attr)
	out.SetTimeout(c.After.Fresh)
	return fuse.OK
}

// make creates an inode and answers as a lookup does.
func (f *files) make(cancel <-chan struct{}, h *fuse.InHeader, name string, spec fabric.NodeSpec, out *fuse.EntryOut) (fabric.Attr, fuse.Status) {
	a, _, err := f.as(h).Make(request{cancel}, f.ino(h.NodeId), name, spec)
	if err != nil {
		return a, status(err)
	}
	f.entry(&a, out)
	return a, fuse.OK
}

// Mknod implements fuse.RawFileSystem.
func (f *files) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	spec := fabric.NodeSpec{Mode: uint16(in.Mode) & fabric.ModeAll}
	for t, bits := range typeBits {
		if t != 0 && in.Mode&syscall.S_IFMT == bits {
			spec.Type = fabric.Type(t)
		}
	}
	dev := uint64(in.Rdev)
	spec.Rdev = uint64(unix.Major(dev))<<32 | uint64(unix.Minor(dev))
	_, st := f.make(cancel, &in.InHeader, name, spec, out)
	return st
}

// Mkdir implements fuse.RawFileSystem.
func (f *files) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	_, st := f.make(cancel, &in.InHeader, name, fabric.NodeSpec{Type: fabric.TypeDir, Mode: uint16(in.Mode) & fabric.ModeAll}, out)
	return st
}

// Symlink implements fuse.RawFileSystem.
func (f *files) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	_, st := f.make(cancel, h, name, fabric.NodeSpec{Type: fabric.TypeSymlink, Target: target, Mode: fabric.ModePerm}, out)
	return st
}

// Readlink implements fuse.RawFileSystem.
func (f *files) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	target, err := f.as(h).ReadLink(request{cancel}, f.ino(h.NodeId))
	return []byte(target), status(err)
}

// Link implements fuse.RawFileSystem.
func (f *files) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	a, _, err := f.as(&in.InHeader).Link(request{cancel}, f.ino(in.Oldnodeid), f.ino(in.NodeId), name)
	if err != nil {
		return status(err)
	}
	f.entry(&a, out)
	return fuse.OK
}

// Unlink implements fuse.RawFileSystem.
func (f *files) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	_, err := f.as(h).Remove(request{cancel}, f.ino(h.NodeId), name, fabric.RemoveFile, fabric.Cond{})
	return status(err)
}

// Rmdir implements fuse.RawFileSystem.
func (f *files) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	_, err := f.as(h).Remove(request{cancel}, f.ino(h.NodeId), name, fabric.RemoveDir, fabric.Cond{})
	return status(err)
}

// Rename implements fuse.RawFileSystem.
func (f *files) Rename(cancel <-chan struct{}, in *fuse.RenameIn, old, name string) fuse.Status {
	var m fabric.RenameMode
	switch in.Flags {
	case 0:
	case unix.RENAME_NOREPLACE:
		m = fabric.RenameNoReplace
	default:
		return fuse.EINVAL
	}
	_, _, err := f.as(&in.InHeader).Rename(request{cancel}, f.ino(in.NodeId), old, f.ino(in.Newdir), name, m)
	return status(err)
}

// Access implements fuse.RawFileSystem.
func (f *files) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	want := fabric.Perm(in.Mask) & (fabric.PermRead | fabric.PermWrite | fabric.PermExec)
	got, err := f.as(&in.InHeader).Access(request{cancel}, f.ino(in.NodeId), want)
	if err == nil && got != want {
		err = fabric.Denied
	}
	return status(err)
}

// system starts the names of attributes that mean something to the kernel, such as ACLs: kept as
// mere bytes they would promise what nobody enforces.
const system = "system."

// GetXAttr implements fuse.RawFileSystem.
func (f *files) GetXAttr(cancel <-chan struct{}, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if strings.HasPrefix(name, system) {
		return 0, fuse.Status(syscall.EOPNOTSUPP)
	}
	if len(dest) == 0 {
		dest = nil
	}
	n, err := f.as(h).Xattr(request{cancel}, f.ino(h.NodeId), name, dest)
	if fabric.CodeOf(err) == fabric.Invalid {
		n, err = f.as(h).Xattr(request{cancel}, f.ino(h.NodeId), name, nil)
		if err == nil {
			return uint32(n), fuse.Status(syscall.ERANGE)
		}
	}
	return uint32(n), status(err)
}

// ListXAttr implements fuse.RawFileSystem.
func (f *files) ListXAttr(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	names, err := f.as(h).ListXattr(request{cancel}, f.ino(h.NodeId))
	if err != nil {
		return 0, status(err)
	}
	var all []byte
	for _, n := range names {
		all = append(append(all, n...), 0)
	}
	if len(dest) < len(all) {
		return uint32(len(all)), fuse.Status(syscall.ERANGE)
	}
	return uint32(copy(dest, all)), fuse.OK
}

// SetXAttr implements fuse.RawFileSystem.
func (f *files) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, name string, value []byte) fuse.Status {
	if strings.HasPrefix(name, system) {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	m := fabric.XattrAny
	switch in.Flags {
	case unix.XATTR_CREATE:
		m = fabric.XattrCreate
	case unix.XATTR_REPLACE:
		m = fabric.XattrReplace
	}
	return status(f.as(&in.InHeader).SetXattr(request{cancel}, f.ino(in.NodeId), name, append([]byte(nil), value...), m))
}

// RemoveXAttr implements fuse.RawFileSystem.
func (f *files) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return status(f.as(h).RemoveXattr(request{cancel}, f.ino(h.NodeId), name))
}

// StatFs implements fuse.RawFileSystem.
func (f *files) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	u, err := f.as(h).StatFS(request{cancel})
	if err != nil {
		return status(err)
	}
	const block = 4096
	out.Bsize, out.Frsize, out.NameLen = block, block, fabric.MaxName
	out.Blocks, out.Bfree = uint64(u.Bytes)/block, uint64(u.FreeBytes)/block
	out.Bavail = out.Bfree
	out.Files, out.Ffree = uint64(u.Inodes), uint64(u.FreeInodes)
	return fuse.OK
}
