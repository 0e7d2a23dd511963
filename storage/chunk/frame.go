package chunk

import (
	"errors"

	"github.com/klauspost/compress/zstd"
)

// What is wrong with a frame.
var (
	errHeader   = errors.New("its header is not one")
	errSkip     = errors.New("it is a skippable frame")
	errDict     = errors.New("it needs a dictionary")
	errLength   = errors.New("it states another length")
	errSegment  = errors.New("it is not a single segment")
	errBlock    = errors.New("its blocks are cut or of an unknown type")
	errTrailing = errors.New("bytes follow it")
)

// checkFrame sees, without decoding, that data is exactly one frame of size raw bytes: a decoder
// would take several, and skip what is no frame at all.
func checkFrame(data []byte, size uint64) error {
	var h zstd.Header
	if err := h.Decode(data); err != nil || h.HeaderSize > len(data) {
		return errHeader
	}
	switch {
	case h.Skippable:
		return errSkip
	case h.DictionaryID != 0:
		return errDict
	case !h.HasFCS || h.FrameContentSize != size:
		return errLength
	case !h.SingleSegment:
		return errSegment
	}
	rest := data[h.HeaderSize:]
	for last := false; !last; {
		if len(rest) < 3 {
			return errBlock
		}
		head := uint32(rest[0]) | uint32(rest[1])<<8 | uint32(rest[2])<<16
		last = head&1 != 0
		n := int(head >> 3)
		switch head >> 1 & 3 {
		case 1: // one byte, repeated
			n = 1
		case 3:
			return errBlock
		}
		if rest = rest[3:]; n > len(rest) {
			return errBlock
		}
		rest = rest[n:]
	}
	if h.HasCheckSum {
		if len(rest) < 4 {
			return errBlock
		}
		rest = rest[4:]
	}
	if len(rest) != 0 {
		return errTrailing
	}
	return nil
}
