package nfs

import (
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/spokefs/spokefs/fabric"
)

// statusOf is the NFS status of a code; ok is false of Canceled, which gets no reply, and of codes
// that nobody has mapped.
func statusOf(c fabric.Code) (s nfsv3.Nfsstat3, ok bool) {
	switch c {
	case fabric.OK:
		return nfsv3.NFS3_OK, true
	case fabric.NotExist:
		return nfsv3.NFS3ERR_NOENT, true
	case fabric.Exist:
		return nfsv3.NFS3ERR_EXIST, true
	case fabric.NotDir:
		return nfsv3.NFS3ERR_NOTDIR, true
	case fabric.IsDir:
		return nfsv3.NFS3ERR_ISDIR, true
	case fabric.NotEmpty:
		return nfsv3.NFS3ERR_NOTEMPTY, true
	case fabric.Denied:
		return nfsv3.NFS3ERR_ACCES, true
	case fabric.NotOwner:
		return nfsv3.NFS3ERR_PERM, true
	case fabric.ReadOnly:
		return nfsv3.NFS3ERR_ROFS, true
	case fabric.Invalid, fabric.Loop:
		return nfsv3.NFS3ERR_INVAL, true
	case fabric.NameTooLong:
		return nfsv3.NFS3ERR_NAMETOOLONG, true
	case fabric.TooBig:
		return nfsv3.NFS3ERR_FBIG, true
	case fabric.CrossDevice:
		return nfsv3.NFS3ERR_XDEV, true
	case fabric.TooManyLinks:
		return nfsv3.NFS3ERR_MLINK, true
	case fabric.Unsupported, fabric.NoXattr:
		return nfsv3.NFS3ERR_NOTSUPP, true
	case fabric.BadCookie:
		return nfsv3.NFS3ERR_BAD_COOKIE, true
	case fabric.BadHandle:
		return nfsv3.NFS3ERR_BADHANDLE, true
	case fabric.Precondition:
		return nfsv3.NFS3ERR_NOT_SYNC, true
	case fabric.Locked, fabric.Unavailable, fabric.Held:
		return nfsv3.NFS3ERR_JUKEBOX, true
	case fabric.Stale:
		return nfsv3.NFS3ERR_STALE, true
	case fabric.NoSpace:
		return nfsv3.NFS3ERR_NOSPC, true
	case fabric.Quota:
		return nfsv3.NFS3ERR_DQUOT, true
	case fabric.Fenced, fabric.Unknown, fabric.Corrupt:
		return nfsv3.NFS3ERR_IO, true
	case fabric.Internal:
		return nfsv3.NFS3ERR_SERVERFAULT, true
	}
	return nfsv3.NFS3ERR_SERVERFAULT, false
}
