package fuse

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/spokefs/spokefs/fabric"
)

// statuses maps every fabric.Code to an errno; a test proves that none is missing.
var statuses = map[fabric.Code]syscall.Errno{
	fabric.NotExist:     syscall.ENOENT,
	fabric.Exist:        syscall.EEXIST,
	fabric.NotDir:       syscall.ENOTDIR,
	fabric.IsDir:        syscall.EISDIR,
	fabric.NotEmpty:     syscall.ENOTEMPTY,
	fabric.Denied:       syscall.EACCES,
	fabric.NotOwner:     syscall.EPERM,
	fabric.ReadOnly:     syscall.EROFS,
	fabric.Invalid:      syscall.EINVAL,
	fabric.NameTooLong:  syscall.ENAMETOOLONG,
	fabric.TooBig:       syscall.EFBIG,
	fabric.Loop:         syscall.ELOOP,
	fabric.CrossDevice:  syscall.EXDEV,
	fabric.TooManyLinks: syscall.EMLINK,
	fabric.Unsupported:  syscall.EOPNOTSUPP,
	fabric.NoXattr:      syscall.ENODATA,
	fabric.BadCookie:    syscall.EINVAL,
	fabric.BadHandle:    syscall.ESTALE,
	fabric.Precondition: syscall.EEXIST,
	fabric.Locked:       syscall.EAGAIN,
	fabric.Stale:        syscall.ESTALE,
	fabric.NoSpace:      syscall.ENOSPC,
	fabric.Quota:        syscall.EDQUOT,
	fabric.Unavailable:  syscall.EIO,
	fabric.Held:         syscall.EIO,
	fabric.Fenced:       syscall.EIO,
	fabric.Unknown:      syscall.EIO,
	fabric.Corrupt:      syscall.EIO,
	fabric.Canceled:     syscall.EINTR,
	fabric.Internal:     syscall.EIO,
}

// status is the kernel's word for an error.
func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	return fuse.Status(statuses[fabric.CodeOf(err)])
}
