package consensus

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/spokefs/spokefs/fabric"
)

// entryVersion is the first byte of a Raft entry; see docs/formats/raft-entry.md.
const entryVersion = 1

// entryHead is the version byte and the checksum.
const entryHead = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendEntry encodes commands as one entry.
func appendEntry(dst []byte, cmds [][]byte) []byte {
	start := len(dst)
	dst = append(dst, entryVersion, 0, 0, 0, 0)
	dst = binary.AppendUvarint(dst, uint64(len(cmds)))
	for _, c := range cmds {
		dst = binary.AppendUvarint(dst, uint64(len(c)))
		dst = append(dst, c...)
	}
	sum := crc32.Checksum(dst[start+entryHead:], castagnoli)
	binary.LittleEndian.PutUint32(dst[start+1:], sum)
	return dst
}

// decodeEntry appends the commands of an entry to dst; they share p's memory. Corrupt if p is
// not what appendEntry wrote.
func decodeEntry(p []byte, dst [][]byte) ([][]byte, error) {
	if len(p) < entryHead || p[0] != entryVersion ||
		binary.LittleEndian.Uint32(p[1:]) != crc32.Checksum(p[entryHead:], castagnoli) {
		return dst, fabric.Corrupt
	}
	p = p[entryHead:]
	count, w := binary.Uvarint(p)
	if w <= 0 || count > uint64(len(p)) {
		return dst, fabric.Corrupt
	}
	p = p[w:]
	for range count {
		n, w := binary.Uvarint(p)
		if w <= 0 || n > uint64(len(p)-w) {
			return dst, fabric.Corrupt
		}
		dst = append(dst, p[w:w+int(n)])
		p = p[w+int(n):]
	}
	if len(p) != 0 {
		return dst, fabric.Corrupt
	}
	return dst, nil
}
