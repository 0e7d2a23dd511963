package wire

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokefs/spokefs/fabric"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// maxText bounds the text of an error that crosses the wire, in bytes.
const maxText = 256

// errStorage are storage's errors under the numbers they have on the wire, from 1 on. Append only.
var errStorage = [...]error{
	storage.ErrNotExist, storage.ErrExist, storage.ErrCorrupt, storage.ErrUnavailable,
	storage.ErrNoSpace, storage.ErrDenied, storage.ErrInvalid,
}

// unexpected is the number of an error that carries none of storage's.
const unexpected = 255

// storageNumber is the number of err.
func storageNumber(err error) uint32 {
	for i, e := range errStorage {
		if errors.Is(err, e) {
			return uint32(i + 1)
		}
	}
	return unexpected
}

// storageError is the reverse; an unknown number is an unexpected error.
func storageError(n uint32) error {
	if n >= 1 && int(n) <= len(errStorage) {
		return errStorage[n-1]
	}
	return fmt.Errorf("unexpected error %d of the hub's store", n)
}

// toStatus makes an error what a handler returns. blobs: it is one of package storage.
func toStatus(err error, blobs bool) error {
	if err == nil {
		return nil
	}
	p := &pb.Problem{Code: uint32(fabric.CodeOf(err))}
	var code fabric.Code
	if blobs && !errors.As(err, &code) {
		p.Storage = storageNumber(err)
	}
	text := err.Error()
	if len(text) > maxText {
		text = text[:maxText]
	}
	grpcCode := codes.Unknown
	if p.Code == uint32(fabric.Denied) {
		grpcCode = codes.PermissionDenied
	}
	s, detailErr := status.New(grpcCode, fmt.Sprintf("%q", text)).WithDetails(p)
	if detailErr != nil { // a message of ours does not encode: a bug
		return status.Error(codes.Internal, "error without a detail")
	}
	return s.Err()
}

// problemOf is the detail of an error that the other end's code returned; nil if the transport or
// gRPC itself failed.
func problemOf(err error) *pb.Problem {
	for _, d := range status.Convert(err).Details() {
		if p, ok := d.(*pb.Problem); ok {
			return p
		}
	}
	return nil
}

// fromStatus gives the fabric error of a call that failed.
func fromStatus(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	code := codeOf(ctx, err)
	if code == fabric.Unavailable || code == fabric.Canceled || code == fabric.Fenced {
		return code // on the way of every retry
	}
	return &fabric.Error{Op: op, Code: code, Err: errors.New(status.Convert(err).Message())}
}

func codeOf(ctx context.Context, err error) fabric.Code {
	if p := problemOf(err); p != nil {
		code := fabric.Code(p.Code)
		switch {
		case p.Code == 0 || p.Code >= uint32(fabric.Codes):
			return fabric.Internal
		case code == fabric.Canceled && ctx.Err() == nil:
			return fabric.Unavailable // not by us: the server is going down
		}
		return code
	}
	if ctx.Err() != nil {
		return fabric.Canceled
	}
	switch status.Code(err) {
	case codes.ResourceExhausted:
		return fabric.TooBig
	case codes.PermissionDenied, codes.Unauthenticated:
		return fabric.Denied
	case codes.Unimplemented:
		return fabric.Unsupported
	case codes.InvalidArgument:
		return fabric.Invalid
	case codes.DeadlineExceeded:
		return fabric.Canceled
	}
	return fabric.Unavailable // a break shows as any of the others
}

// fromBlobs gives the storage error of a transfer that failed; broken says that the transport did.
func fromBlobs(ctx context.Context, err error) (_ error, broken bool) {
	if ctx.Err() != nil {
		return ctx.Err(), false
	}
	if p := problemOf(err); p != nil && p.Storage != 0 {
		return storageError(p.Storage), false
	}
	switch code := codeOf(ctx, err); code {
	case fabric.Unavailable:
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, code), problemOf(err) == nil
	case fabric.Denied, fabric.Fenced, fabric.ReadOnly:
		return fmt.Errorf("%w: %w", storage.ErrDenied, code), false
	case fabric.Invalid, fabric.TooBig:
		return fmt.Errorf("%w: %s", storage.ErrInvalid, status.Convert(err).Message()), false
	default:
		return fmt.Errorf("transfer: %w", code), false
	}
}
