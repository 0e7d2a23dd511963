package nfs

import "encoding/binary"

// dec decodes XDR. After the first error bad is set and everything is zero; the caller looks once,
// at the end. Slices point into the input.
type dec struct {
	p   []byte
	bad bool
}

func (d *dec) take(n int) []byte {
	if d.bad || n > len(d.p) {
		d.bad, d.p = true, nil
		return nil
	}
	p := d.p[:n:n]
	d.p = d.p[n:]
	return p
}

func (d *dec) u32() uint32 {
	if p := d.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (d *dec) u64() uint64 {
	if p := d.take(8); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// boolean takes 0 and 1 alone.
func (d *dec) boolean() bool {
	v := d.u32()
	if v > 1 {
		d.bad, d.p = true, nil
	}
	return v == 1
}

// opaque is a variable-length opaque of at most limit bytes, padding skipped.
func (d *dec) opaque(limit int) []byte {
	n := d.u32()
	if d.bad || uint64(n) > uint64(limit) || uint64(n) > uint64(len(d.p)) {
		d.bad, d.p = true, nil
		return nil
	}
	p := d.take(int(n))
	d.take(pad(int(n)))
	return p
}

// name is a string that FS checks; a record bounds it.
func (d *dec) name() string { return string(d.opaque(1 << 20)) }

// pad is how many zero bytes follow n bytes of data.
func pad(n int) int { return -n & 3 }

var zeros [4]byte

// enc encodes XDR by appending to p.
type enc struct{ p []byte }

func (e *enc) u32(v uint32) { e.p = binary.BigEndian.AppendUint32(e.p, v) }
func (e *enc) u64(v uint64) { e.p = binary.BigEndian.AppendUint64(e.p, v) }

func (e *enc) boolean(v bool) {
	if v {
		e.u32(1)
	} else {
		e.u32(0)
	}
}

func (e *enc) opaque(p []byte) {
	e.u32(uint32(len(p)))
	e.p = append(e.p, p...)
	e.p = append(e.p, zeros[:pad(len(p))]...)
}

func (e *enc) name(s string) {
	e.u32(uint32(len(s)))
	e.p = append(e.p, s...)
	e.p = append(e.p, zeros[:pad(len(s))]...)
}
