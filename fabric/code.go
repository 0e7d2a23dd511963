package fabric

import (
	"context"
	"errors"
	"fmt"
)

// Code says why a call failed, in the closed set that every protocol maps once. The set is
// append-only: values cross the wire. A Code is an error; hot paths return it bare.
type Code uint8

// The codes. OK never leaves a call as an error.
const (
	OK           Code = iota
	NotExist          // no such name
	Exist             // the name is taken
	NotDir            // a directory was needed
	IsDir             // a directory was not allowed
	NotEmpty          // the directory has entries
	Denied            // mode bits forbid it
	NotOwner          // only the owner or root may
	ReadOnly          // the portal or grant is read-only
	Invalid           // an argument makes no sense
	NameTooLong       // over MaxName or MaxTarget
	TooBig            // over MaxFileSize, or a value over its limit
	Loop              // too many levels
	CrossDevice       // two namespaces or portals
	TooManyLinks      // over MaxLinks
	Unsupported       // this file system or object cannot
	NoXattr           // no such extended attribute
	BadCookie         // a listing position nobody gave out
	BadHandle         // not a handle of ours
	Precondition      // a Cond did not hold
	Locked            // another holds the lock
	Stale             // the inode is gone
	NoSpace           // the store is full
	Quota             // over a quota
	Unavailable       // no quorum, hub, bucket or lease now; try again
	Held              // dirty at a site that is cut off
	Fenced            // the session or right was lost while data was dirty
	Unknown           // the outcome is not known
	Corrupt           // no good copy of the bytes
	Canceled          // the caller gave up
	Internal          // a bug
	codeEnd
)

// Codes is the number of codes; tests use it to show that a protocol's table is complete.
const Codes = int(codeEnd)

var codeNames = [...]string{
	"ok", "not exist", "exist", "not a directory", "is a directory", "not empty", "denied",
	"not owner", "read-only", "invalid", "name too long", "too big", "loop", "cross device",
	"too many links", "unsupported", "no xattr", "bad cookie", "bad handle", "precondition",
	"locked", "stale", "no space", "quota", "unavailable", "held", "fenced", "unknown outcome",
	"corrupt", "canceled", "internal",
}

// String is the code in words.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", uint8(c))
}

// Error makes a Code an error.
func (c Code) Error() string { return c.String() }

// Error is a Code with what one layer knows about it.
type Error struct {
	Op   string // the operation, such as "read"
	Ino  Ino    // 0 if none
	Code Code
	Err  error // the cause; nil if the code says all
}

// Error is "op ino: code: cause".
func (e *Error) Error() string {
	s := e.Op
	if e.Ino != 0 {
		s += fmt.Sprintf(" %#x", uint64(e.Ino))
	}
	s += ": " + e.Code.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the code and the cause, so that errors.Is(err, fabric.NotExist) works.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Err}
}

// CodeOf is the code of err: OK of nil, Canceled of a context's end, Internal of what carries none.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Canceled
	}
	return Internal
}
