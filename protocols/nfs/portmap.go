package nfs

// The programs that portmap knows.
const (
	programPortmap = 100000
	programNFS     = 100003
	programMount   = 100005

	protocolTCP = 6
)

// Ports are the TCP ports that portmap names; 0: not served.
type Ports struct {
	NFS   uint16
	Mount uint16
}

// port is the port of a program, or 0, which GETPORT answers of what is not registered.
func (p Ports) port(program, version, protocol uint32) uint32 {
	if version != 3 || protocol != protocolTCP {
		return 0
	}
	switch program {
	case programNFS:
		return uint32(p.NFS)
	case programMount:
		return uint32(p.Mount)
	}
	return 0
}

// appendPortmap appends the reply to one portmap request (RFC 1833, version 2). ok is false where
// there is nothing to answer. Only NULL, GETPORT and DUMP are served: nobody registers from outside.
func (p Ports) appendPortmap(b, record []byte) (reply []byte, ok bool) {
	c, err := parseCall(record)
	switch {
	case err != nil:
		return appendRefused(b, c.xid, err)
	case c.program != programPortmap:
		return appendAccepted(b, c.xid, acceptProgUnavail), true
	case c.version != 2:
		return appendMismatch(b, c.xid, 2, 2), true
	}
	switch c.procedure {
	case 0: // NULL
		return appendAccepted(b, c.xid, acceptSuccess), true
	case 3: // GETPORT
		w := words{b: c.args}
		program, version, protocol := w.uint32(), w.uint32(), w.uint32()
		w.uint32() // the port, which a caller leaves 0
		if w.short {
			return appendAccepted(b, c.xid, acceptGarbageArgs), true
		}
		return appendWords(appendAccepted(b, c.xid, acceptSuccess), p.port(program, version, protocol)), true
	case 4: // DUMP
		b = appendAccepted(b, c.xid, acceptSuccess)
		for _, program := range [...]uint32{programNFS, programMount} {
			if port := p.port(program, 3, protocolTCP); port != 0 {
				b = appendWords(b, 1, program, 3, protocolTCP, port)
			}
		}
		return appendWords(b, 0), true
	}
	return appendAccepted(b, c.xid, acceptProcUnavail), true
}
