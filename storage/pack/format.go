package pack

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/blake3"

	"github.com/spokefs/spokefs/storage"
)

// The format of docs/formats/pack.md.
const (
	version   = 1
	headLen   = 16
	entryLen  = storage.RefLen + 10
	footLen   = 48
	footMagic = "SPKE"
	headMagic = "SPKP"

	cipherNone = 0
)

// Entry is one blob in a pack.
type Entry struct {
	Ref      storage.Ref
	Kind     storage.Kind
	Form     storage.Form
	Off, Len uint32        // of the stored bytes in the object
	Sum      uint64        // of a node: bytes of file it covers; not in the object
	Children []storage.Ref // of a node; not in the object
	Owner    Owner         // who uploaded it; not in the object
}

// appendHead starts an object.
func appendHead(dst []byte) []byte {
	dst = append(dst, headMagic...)
	dst = append(dst, version, cipherNone, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, 0) // key version
	return append(dst, 0, 0, 0, 0)
}

// appendFoot ends an object with its index and checksum.
func appendFoot(dst []byte, entries []Entry) []byte {
	at := len(dst)
	for i := range entries {
		e := &entries[i]
		dst = e.Ref.Append(dst)
		dst = append(dst, byte(e.Kind), byte(e.Form))
		dst = binary.LittleEndian.AppendUint32(dst, e.Off)
		dst = binary.LittleEndian.AppendUint32(dst, e.Len)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(at))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(entries)))
	sum := checksum(dst[:headLen], dst[at:])
	return append(append(dst, sum[:]...), headLen, version, 0, 0, footMagic[0], footMagic[1], footMagic[2], footMagic[3])
}

func checksum(head, index []byte) (sum [32]byte) {
	h := blake3.New()
	_, _ = h.Write(head) // never fails
	_, _ = h.Write(index)
	h.Sum(sum[:0])
	return sum
}

// Read gives what a whole object says it holds. ErrCorrupt: it is no pack of a known version, its
// index is damaged, or entries overlap or lie outside. Blobs themselves are verified by their Ref.
func Read(object []byte) ([]Entry, error) {
	if len(object) < headLen+footLen || string(object[:4]) != headMagic {
		return nil, bad("no pack")
	}
	if object[4] != version {
		return nil, bad("version %d", object[4])
	}
	if object[5] != cipherNone || binary.LittleEndian.Uint32(object[8:]) != 0 {
		return nil, bad("cipher %d, key version %d", object[5], binary.LittleEndian.Uint32(object[8:]))
	}
	foot := object[len(object)-footLen:]
	if string(foot[44:]) != footMagic || foot[40] != headLen || foot[41] != version || foot[42] != 0 || foot[43] != 0 {
		return nil, bad("no foot")
	}
	at, n := int64(binary.LittleEndian.Uint32(foot)), int64(binary.LittleEndian.Uint32(foot[4:]))
	if at < headLen || at+n*entryLen+footLen != int64(len(object)) {
		return nil, bad("%d entries at %d in %d bytes", n, at, len(object))
	}
	if checksum(object[:headLen], object[at:len(object)-footLen+8]) != [32]byte(foot[8:40]) {
		return nil, bad("checksum")
	}
	entries := make([]Entry, n)
	end := int64(headLen)
	for i := range entries {
		p := object[at+int64(i)*entryLen:]
		e := &entries[i]
		e.Ref, _ = storage.DecodeRef(p)
		e.Kind, e.Form = storage.Kind(p[36]), storage.Form(p[37])
		e.Off, e.Len = binary.LittleEndian.Uint32(p[38:]), binary.LittleEndian.Uint32(p[42:])
		if int64(e.Off) != end || e.Len == 0 || end+int64(e.Len) > at {
			return nil, bad("entry %d at %d after %d", i, e.Off, end)
		}
		end += int64(e.Len)
	}
	if end != at {
		return nil, bad("%d bytes without an entry", at-end)
	}
	return entries, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("pack: %s: %w", fmt.Sprintf(format, args...), storage.ErrCorrupt)
}
