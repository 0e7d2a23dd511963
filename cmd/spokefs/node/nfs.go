package node

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/protocols/nfs"
)

// startNFS serves NFS and MOUNT on one port, and the port mapper if it is asked for.
func (f *fronts) startNFS(cfg NFSConfig, portals fabric.Portals) error {
	if cfg.Listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("nfs: %w", err)
	}
	s := nfs.New(nfs.Config{}, portals, f.log)
	f.run("NFS", func(ctx context.Context) error { return s.Serve(ctx, l) })
	f.serves(admin.Endpoint{Protocol: "nfs", Address: l.Addr().String(), Note: "NFS v3 and MOUNT"})
	if cfg.Portmap == "" {
		return nil
	}
	tcp, err := net.Listen("tcp", cfg.Portmap)
	if err != nil {
		return fmt.Errorf("portmap: %w", err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		return errors.Join(fmt.Errorf("portmap: %w", err), tcp.Close())
	}
	port := l.Addr().(*net.TCPAddr).Port
	f.run("portmap", func(ctx context.Context) error { return s.ServePortmap(ctx, tcp, udp, port) })
	f.serves(admin.Endpoint{Protocol: "portmap", Address: tcp.Addr().String()})
	return nil
}
