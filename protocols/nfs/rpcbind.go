package nfs

import (
	"context"
	"net"
	"sync"
)

// ServePortmap answers portmap v2 (NULL, GETPORT, DUMP) on tcp and udp, either of which may be nil,
// until ctx ends: mount.nfs without port options asks it for NFS and MOUNT, which are both on
// nfsPort. Nothing can be registered with it.
func (s *Server) ServePortmap(ctx context.Context, tcp net.Listener, udp net.PacketConn, nfsPort int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := Ports{NFS: uint16(nfsPort), Mount: uint16(nfsPort)}
	var errTCP, errUDP error
	var done sync.WaitGroup
	if tcp != nil {
		done.Go(func() {
			defer cancel()
			errTCP = s.listen(ctx, tcp, func(_ context.Context, r *request, record []byte) bool {
				reply, ok := p.appendPortmap(append(r.out.p[:0], zeros[:markSize]...), record)
				r.out.p = reply
				return ok
			})
		})
	}
	if udp != nil {
		done.Go(func() {
			defer cancel()
			errUDP = packets(ctx, udp, p)
		})
	}
	done.Wait()
	if errTCP != nil {
		return errTCP
	}
	return errUDP
}

// packets answers datagrams, one after the other: the answers need no I/O.
func packets(ctx context.Context, udp net.PacketConn, p Ports) error {
	stop := context.AfterFunc(ctx, func() { udp.Close() })
	defer stop()
	defer udp.Close()
	in := make([]byte, 2048)
	out := make([]byte, 0, 256)
	for {
		n, from, err := udp.ReadFrom(in)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if reply, ok := p.appendPortmap(out, in[:n]); ok {
			udp.WriteTo(reply, from) // a lost answer is asked for again
		}
	}
}
