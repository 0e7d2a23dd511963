package s3

import (
	"errors"

	"github.com/versity/versitygw/s3err"

	"github.com/spokefs/spokefs/fabric"
)

// statuses maps every fabric.Code to S3's error; a test proves that none is missing.
var statuses = map[fabric.Code]s3err.ErrorCode{
	fabric.NotExist:     s3err.ErrNoSuchKey,
	fabric.Exist:        s3err.ErrPreconditionFailed,
	fabric.NotDir:       s3err.ErrNoSuchKey,
	fabric.IsDir:        s3err.ErrExistingObjectIsDirectory,
	fabric.NotEmpty:     s3err.ErrDirectoryNotEmpty,
	fabric.Denied:       s3err.ErrAccessDenied,
	fabric.NotOwner:     s3err.ErrAccessDenied,
	fabric.ReadOnly:     s3err.ErrAccessDenied,
	fabric.Invalid:      s3err.ErrInvalidRequest,
	fabric.NameTooLong:  s3err.ErrKeyTooLong,
	fabric.TooBig:       s3err.ErrEntityTooLarge,
	fabric.Loop:         s3err.ErrInvalidRequest,
	fabric.CrossDevice:  s3err.ErrInvalidRequest,
	fabric.TooManyLinks: s3err.ErrInvalidRequest,
	fabric.Unsupported:  s3err.ErrNotImplemented,
	fabric.NoXattr:      s3err.ErrNoSuchKey,
	fabric.BadCookie:    s3err.ErrInvalidRequest,
	fabric.BadHandle:    s3err.ErrInvalidRequest,
	fabric.Precondition: s3err.ErrPreconditionFailed,
	fabric.Locked:       s3err.ErrObjectLocked,
	fabric.Stale:        s3err.ErrNoSuchKey,
	fabric.NoSpace:      s3err.ErrNoSpaceLeftOnDevice,
	fabric.Quota:        s3err.ErrQuotaExceeded,
	fabric.Unavailable:  s3err.ErrSlowDown,
	fabric.Held:         s3err.ErrSlowDown,
	fabric.Fenced:       s3err.ErrInternalError,
	fabric.Unknown:      s3err.ErrInternalError,
	fabric.Corrupt:      s3err.ErrInternalError,
	fabric.Canceled:     s3err.ErrSlowDown,
	fabric.Internal:     s3err.ErrInternalError,
}

// failed turns an error of the FS into one of S3. One that is S3's already stays.
func failed(err error) error {
	if err == nil {
		return nil
	}
	var mine s3err.S3Error
	if errors.As(err, &mine) {
		return err
	}
	if fabric.CodeOf(err) == fabric.Precondition {
		return s3err.GetPreconditionFailedErr(s3err.ConditionIfMatch)
	}
	return s3err.GetAPIError(statuses[fabric.CodeOf(err)])
}
