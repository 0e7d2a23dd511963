package journal

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/spokefs/spokefs/fabric"
)

// Type is the kind of a record. Values are part of the format.
type Type uint8

// The types. 16 to 31 are reserved for names (A26).
const (
	Write     Type = 1 // Len bytes at Off
	Truncate  Type = 2 // the size is Off
	Punch     Type = 3 // Len bytes at Off are a hole
	Published Type = 4 // what this file has up to Seq is at the hub, whose version of it is Base
)

// Record is what is known of one write beside its data.
type Record struct {
	Type Type
	Ino  fabric.Ino
	Base uint64 // the inode's iver when W was taken, or after the last publish
	Off  int64
	Len  int64
	Seq  uint64      // grows with each record of the journal; set by Append, but for Published
	At   fabric.Time // the file's mtime after it
}

// Form of a record's head, little endian: magic 4, version 1, type 1, reserved 2, ino 8, base 8,
// off 8, len 8, seq 8, at 8, reserved for an HMAC 16, CRC32C of the data 4, CRC32C of the head 4.
const (
	headLen = 84
	magic   = 0x4c4a4b53 // "SKJL"
	// MaxData bounds the data of one record, in bytes.
	MaxData = 4 << 20
	suffix  = ".journal"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func dataLen(r *Record) int64 {
	if r.Type == Write {
		return r.Len
	}
	return 0
}

func encodeHead(p []byte, r *Record, sum uint32) {
	le := binary.LittleEndian
	clear(p)
	le.PutUint32(p, magic)
	p[4], p[5] = 1, byte(r.Type)
	le.PutUint64(p[8:], uint64(r.Ino))
	le.PutUint64(p[16:], r.Base)
	le.PutUint64(p[24:], uint64(r.Off))
	le.PutUint64(p[32:], uint64(r.Len))
	le.PutUint64(p[40:], r.Seq)
	le.PutUint64(p[48:], uint64(r.At))
	le.PutUint32(p[72:], sum)
	le.PutUint32(p[headLen-4:], crc32.Checksum(p[:headLen-4], castagnoli))
}

func decodeHead(p []byte) (r Record, sum uint32, ok bool) {
	le := binary.LittleEndian
	if le.Uint32(p) != magic || p[4] != 1 || le.Uint32(p[headLen-4:]) != crc32.Checksum(p[:headLen-4], castagnoli) {
		return r, 0, false
	}
	r = Record{
		Type: Type(p[5]), Ino: fabric.Ino(le.Uint64(p[8:])), Base: le.Uint64(p[16:]),
		Off: int64(le.Uint64(p[24:])), Len: int64(le.Uint64(p[32:])), Seq: le.Uint64(p[40:]), At: fabric.Time(le.Uint64(p[48:])),
	}
	ok = r.Type >= Write && r.Type <= Published && r.Off >= 0 && r.Len >= 0 && (r.Type != Write || r.Len <= MaxData)
	return r, le.Uint32(p[72:]), ok
}
