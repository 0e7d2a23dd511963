package nfs

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
)

// BenchmarkRead is READs of 128 KiB over loopback, 16 in flight, of a file that costs nothing.
func BenchmarkRead(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	s := New(Config{}, fakePortals{&fake{big: true}}, slog.New(slog.DiscardHandler))
	go func() { served <- s.Serve(ctx, l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	const size, flight = 128 << 10, 16
	record := callOf(1, programNFS, 6, handleOf(10), be(0, 0, size))
	record = append(be(uint32(len(record))|1<<31), record...)
	b.SetBytes(size)
	b.ReportAllocs()
	sent := 0
	for range flight {
		c.Write(record)
		sent++
	}
	buf := make([]byte, size+4096)
	for got := 0; got < b.N; got++ {
		if _, err := io.ReadFull(c, buf[:4]); err != nil {
			b.Fatal(err)
		}
		n := binary.BigEndian.Uint32(buf) & 0x7fffffff
		if _, err := io.ReadFull(c, buf[:n]); err != nil || n < size {
			b.Fatal(n, err)
		}
		if sent < b.N {
			c.Write(record)
			sent++
		}
	}
	c.Close()
	cancel()
	<-served
}
