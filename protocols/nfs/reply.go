package nfs

import "encoding/binary"

// The states of an accepted call (RFC 5531, section 9).
const (
	acceptSuccess      = 0
	acceptProgUnavail  = 1
	acceptProgMismatch = 2
	acceptProcUnavail  = 3
	acceptGarbageArgs  = 4
)

func appendWords(b []byte, vs ...uint32) []byte {
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// appendAccepted appends the header of a reply to an accepted call, up to its state.
func appendAccepted(b []byte, xid, state uint32) []byte {
	return appendWords(b, xid, 1, 0, authNone, 0, state)
}

// appendMismatch says that of this program only versions low to high are served.
func appendMismatch(b []byte, xid, low, high uint32) []byte {
	return appendWords(appendAccepted(b, xid, acceptProgMismatch), low, high)
}

// appendRefused appends the reply to a call that parseCall could not read; ok is false where
// there is nobody to answer.
func appendRefused(b []byte, xid uint32, err error) (reply []byte, ok bool) {
	switch err {
	case errRPCVersion:
		return appendWords(b, xid, 1, 1, 0, 2, 2), true // RPC_MISMATCH, versions 2 to 2
	case errBadCred:
		return appendWords(b, xid, 1, 1, 1, 1), true // AUTH_ERROR, AUTH_BADCRED
	}
	return b, false
}
