package nfs

import (
	"math"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// ftypes is NFS's ftype3 of each fabric.Type.
var ftypes = [...]uint32{
	fabric.TypeFile: 1, fabric.TypeDir: 2, fabric.TypeBlock: 3, fabric.TypeChar: 4,
	fabric.TypeSymlink: 5, fabric.TypeSocket: 6, fabric.TypeFifo: 7,
}

// time appends an nfstime3, whose seconds are unsigned: times before 1970 and after 2106 are cut.
func (e *enc) time(t fabric.Time) {
	ns := min(max(int64(t), 0), math.MaxUint32*int64(time.Second))
	e.u32(uint32(ns / int64(time.Second)))
	e.u32(uint32(ns % int64(time.Second)))
}

func (d *dec) time() fabric.Time {
	s, ns := d.u32(), d.u32()
	if ns >= uint32(time.Second) {
		d.bad, d.p = true, nil
	}
	return fabric.Time(int64(s)*int64(time.Second) + int64(ns))
}

// attr appends a fattr3: 84 bytes.
func (e *enc) attr(a *fabric.Attr, fsid uint64) {
	e.u32(ftypes[a.Type])
	e.u32(uint32(a.Mode))
	e.u32(a.Nlink)
	e.u32(a.UID)
	e.u32(a.GID)
	e.u64(uint64(a.Size))
	e.u64(uint64(a.Used))
	e.u64(a.Rdev) // major and minor, as fabric has them
	e.u64(fsid)
	e.u64(uint64(a.Ino))
	e.time(a.Atime)
	e.time(a.Mtime)
	e.time(a.Ctime)
}

// post appends a post_op_attr; a nil or empty a is none.
func (e *enc) post(a *fabric.Attr, fsid uint64) {
	if a == nil || a.Type == fabric.TypeNone {
		e.u32(0)
		return
	}
	e.u32(1)
	e.attr(a, fsid)
}

// wcc appends a wcc_data.
func (e *enc) wcc(c *fabric.Change, fsid uint64) {
	if c.After.Type == fabric.TypeNone {
		e.u64(0)
		return
	}
	e.u32(1)
	e.u64(uint64(c.Before.Size))
	e.time(c.Before.Mtime)
	e.time(c.Before.Ctime)
	e.post(&c.After, fsid)
}

// sattr decodes a sattr3.
func (d *dec) sattr() (s fabric.SetAttr) {
	if d.boolean() {
		s.Set |= fabric.SetMode
		s.Mode = uint16(d.u32()) & fabric.ModeAll
	}
	if d.boolean() {
		s.Set |= fabric.SetUID
		s.UID = d.u32()
	}
	if d.boolean() {
		s.Set |= fabric.SetGID
		s.GID = d.u32()
	}
	if d.boolean() {
		s.Set |= fabric.SetSize
		// Sizes over 2^63 are refused like all that are too big.
		s.Size = int64(min(d.u64(), math.MaxInt64))
	}
	s.Atime = d.setTime(&s.Set, fabric.SetAtimeNow, fabric.SetAtime)
	s.Mtime = d.setTime(&s.Set, fabric.SetMtimeNow, fabric.SetMtime)
	return s
}

// setTime decodes one of sattr3's times: keep, the server's, or the client's.
func (d *dec) setTime(set *fabric.SetBits, now, given fabric.SetBits) fabric.Time {
	switch how := d.u32(); how {
	case 0:
	case 1:
		*set |= now
	case 2:
		*set |= given
		return d.time()
	default:
		d.bad, d.p = true, nil
	}
	return 0
}
