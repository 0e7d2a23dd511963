package nfs

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// The reasons to give up a connection: after any of them its framing is lost.
var (
	errRecordTooLong = errors.New("nfs: record over the limit")
	errFragments     = errors.New("nfs: too many fragments in a record")
	errRecordEmpty   = errors.New("nfs: empty record")
)

// recordStep is how much memory is taken ahead of the bytes that have come, so that a mark which
// promises much costs little until it is kept.
const recordStep = 64 << 10

// recordReader joins the fragments of RPC records (RFC 5531, section 11).
type recordReader struct {
	r            io.Reader
	maxRecord    int
	maxFragments int
	mark         [4]byte
}

func newRecordReader(r io.Reader, cfg Config) *recordReader {
	cfg = cfg.WithDefaults()
	return &recordReader{r: r, maxRecord: cfg.MaxRecord, maxFragments: cfg.MaxFragments}
}

// next reads one record into buf's memory, which grows if it must, and returns it. The error is
// io.EOF only between records; an end inside one is io.ErrUnexpectedEOF.
func (rr *recordReader) next(buf []byte) ([]byte, error) {
	buf = buf[:0]
	for n := 0; ; n++ {
		if n == rr.maxFragments {
			return nil, errFragments
		}
		if _, err := io.ReadFull(rr.r, rr.mark[:]); err != nil {
			if n > 0 && err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		mark := binary.BigEndian.Uint32(rr.mark[:])
		size := int(mark & 0x7fffffff)
		if size > rr.maxRecord-len(buf) {
			return nil, errRecordTooLong
		}
		var err error
		if buf, err = rr.fragment(buf, size); err != nil {
			return nil, err
		}
		if mark&0x80000000 != 0 {
			break
		}
	}
	if len(buf) == 0 {
		return nil, errRecordEmpty
	}
	return buf, nil
}

// fragment appends size bytes to buf.
func (rr *recordReader) fragment(buf []byte, size int) ([]byte, error) {
	for size > 0 {
		step := min(size, max(recordStep, cap(buf)-len(buf)))
		at := len(buf)
		buf = slices.Grow(buf, step)[:at+step]
		if _, err := io.ReadFull(rr.r, buf[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		size -= step
	}
	return buf, nil
}
