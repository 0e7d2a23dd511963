package nfs

import (
	"context"
	"encoding/binary"
	"net/netip"

	"github.com/spokefs/spokefs/fabric"
)

// program is a range of versions and what answers them. It decodes r.in, appends to r.out and
// returns the state of an accepted call; what it appended is dropped unless that is success.
type program struct {
	low, high uint32
	call      func(ctx context.Context, r *request) uint32
}

type programs map[uint32]program

// request is one call and its reply.
type request struct {
	s    *Server
	from netip.Addr
	proc uint32
	who  fabric.Cred // what the client claims
	in   dec
	out  enc // a record mark, the header and the results

	data    *block // holds payload
	payload []byte // goes after out, padded
}

// markSize is the size of a record mark, bytes.
const markSize = 4

// run decodes a call and makes the reply; false if there is nobody to answer.
func (r *request) run(ctx context.Context, record []byte, all programs) (ok bool) {
	buf := append(r.out.p[:0], zeros[:markSize]...)
	c, err := parseCall(record)
	if err != nil {
		r.out.p, ok = appendRefused(buf, c.xid, err)
		return ok
	}
	p, ok := all[c.program]
	switch {
	case !ok:
		r.out.p = appendAccepted(buf, c.xid, acceptProgUnavail)
		return true
	case c.version < p.low || c.version > p.high:
		r.out.p = appendMismatch(buf, c.xid, p.low, p.high)
		return true
	}
	r.proc, r.who, r.in.p = c.procedure, c.cred, c.args
	r.out.p = appendAccepted(buf, c.xid, acceptSuccess)
	if state := p.call(ctx, r); state != acceptSuccess {
		r.s.mem.free(r.data)
		r.data, r.payload = nil, nil
		r.out.p = appendAccepted(r.out.p[:markSize], c.xid, state)
	}
	return true
}

// mark fills in the record mark: the reply is one last fragment.
func (r *request) mark() {
	n := len(r.out.p) - markSize + len(r.payload) + pad(len(r.payload))
	binary.BigEndian.PutUint32(r.out.p, uint32(n)|1<<31)
}
