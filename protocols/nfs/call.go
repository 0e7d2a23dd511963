package nfs

import (
	"encoding/binary"
	"errors"

	"github.com/spokefs/spokefs/fabric"
)

// The limits of RFC 5531 on what a caller says of itself.
const (
	maxAuthBody    = 400
	maxMachineName = 255
	maxSysGroups   = 16
)

// The flavours of credentials that are understood.
const (
	authNone = 0
	authSys  = 1
)

// nobody is the user and group of a caller with AUTH_NONE.
const nobody = 65534

// The ways in which a call cannot be read. errShort, errNotCall and errAuthBody leave nothing to
// answer; errRPCVersion is answered RPC_MISMATCH, errBadCred AUTH_BADCRED, with the xid read.
var (
	errShort      = errors.New("nfs: call ends early")
	errNotCall    = errors.New("nfs: not a call")
	errAuthBody   = errors.New("nfs: auth body over 400 bytes")
	errRPCVersion = errors.New("nfs: RPC version is not 2")
	errBadCred    = errors.New("nfs: bad credentials")
)

// call is the header of one RPC call; args is what follows, in the record's memory.
type call struct {
	xid, program, version, procedure uint32
	cred                             fabric.Cred
	args                             []byte
}

// words reads XDR from a record. After the first failure it yields zeros and short is set.
type words struct {
	b     []byte
	short bool
}

func (w *words) uint32() uint32 {
	if len(w.b) < 4 {
		w.b, w.short = nil, true
		return 0
	}
	v := binary.BigEndian.Uint32(w.b)
	w.b = w.b[4:]
	return v
}

// opaque reads n bytes and their padding.
func (w *words) opaque(n uint32) []byte {
	padded := (uint64(n) + 3) &^ 3
	if padded > uint64(len(w.b)) {
		w.b, w.short = nil, true
		return nil
	}
	v := w.b[:n:n]
	w.b = w.b[padded:]
	return v
}

// parseCall reads the header of a call. On errRPCVersion and errBadCred the xid is set. The cred
// is what the client claims: squashing is the caller's work.
func parseCall(record []byte) (call, error) {
	w := words{b: record}
	c := call{xid: w.uint32()}
	kind, rpc := w.uint32(), w.uint32()
	c.program, c.version, c.procedure = w.uint32(), w.uint32(), w.uint32()
	switch {
	case w.short:
		return c, errShort
	case kind != 0:
		return c, errNotCall
	case rpc != 2:
		return c, errRPCVersion
	}
	flavour, body, err := authBody(&w)
	if err != nil {
		return c, err
	}
	if _, _, err := authBody(&w); err != nil { // the verifier says nothing under these flavours
		return c, err
	}
	c.args = w.b
	c.cred, err = parseCred(flavour, body)
	return c, err
}

func authBody(w *words) (flavour uint32, body []byte, err error) {
	flavour = w.uint32()
	n := w.uint32()
	if n > maxAuthBody {
		return 0, nil, errAuthBody
	}
	body = w.opaque(n)
	if w.short {
		return 0, nil, errShort
	}
	return flavour, body, nil
}

// parseCred reads AUTH_NONE or AUTH_SYS. A body must be read to its end.
func parseCred(flavour uint32, body []byte) (fabric.Cred, error) {
	switch flavour {
	case authNone:
		return fabric.Cred{UID: nobody, GID: nobody}, nil
	case authSys:
	default:
		return fabric.Cred{UID: nobody, GID: nobody}, errBadCred
	}
	bad := fabric.Cred{UID: nobody, GID: nobody}
	w := words{b: body}
	w.uint32() // a stamp
	name := w.uint32()
	if name > maxMachineName {
		return bad, errBadCred
	}
	w.opaque(name)
	c := fabric.Cred{UID: w.uint32(), GID: w.uint32()}
	n := w.uint32()
	if w.short || n > maxSysGroups || int(n)*4 != len(w.b) {
		return bad, errBadCred
	}
	if n > 0 {
		c.Groups = make([]uint32, n)
		for i := range c.Groups {
			c.Groups[i] = w.uint32()
		}
	}
	return c, nil
}
