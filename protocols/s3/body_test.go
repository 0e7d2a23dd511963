package s3

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

// pages is a file that counts its reads.
type pages struct {
	fabric.File
	data  []byte
	reads int
}

func (p *pages) ReadAt(_ context.Context, buf []byte, off int64) (int, error) {
	p.reads++
	return copy(buf, p.data[off:]), nil
}

// A body is sent in large pieces, whatever the writer would take; its range is all of it.
func TestBodyIsReadInLargePieces(t *testing.T) {
	f := &pages{data: bytes.Repeat([]byte("0123456789"), 60_000)}
	var out bytes.Buffer
	n, err := io.CopyBuffer(&out, newBody(f, 7, 500_000), make([]byte, 4096))
	if err != nil || n != 500_000 || !bytes.Equal(out.Bytes(), f.data[7:500_007]) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if f.reads > 2 {
		t.Errorf("500,000 bytes took %d reads", f.reads)
	}
}

// A file that became shorter breaks the body off.
func TestBodyOfAFileThatShrank(t *testing.T) {
	f := &pages{data: make([]byte, 1000)}
	if n, err := io.Copy(io.Discard, newBody(f, 0, 2000)); err != io.ErrUnexpectedEOF || n != 1000 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
