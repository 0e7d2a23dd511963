package conform

import (
	"context"
	_ "embed"
	"net"
	"strings"
	"testing"

	"github.com/spokefs/spokefs/e2e/harness"
)

//go:embed testdata/nfs_kernel.sh
var kernelScript string

// TestNFSKernelClient runs what people run on a mount of the Linux kernel's own client, as an
// ordinary user: one boot, mounted with the ports given and again with none.
func TestNFSKernelClient(t *testing.T) {
	if err := harness.Available(); err != nil {
		harness.Lacking(t, err)
	}
	s := newNFS(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := s.port()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.srv.ServePortmap(ctx, l, nil, port) }()
	k := harness.KernelNFS{NFS: port, Portmap: l.Addr().(*net.TCPAddr).Port}
	out, err := k.Run(t.Context(), kernelScript)
	t.Log(out)
	if err != nil {
		t.Error(err)
	} else if !strings.HasSuffix(strings.TrimSpace(out), "all is well") {
		t.Error("the script did not come to its end")
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("portmap: %v", err)
	}
}
