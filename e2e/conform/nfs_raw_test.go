package conform

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/spokefs/spokefs/fabric/system"
)

// rawNFS sends what it is told to, right or wrong.
type rawNFS struct {
	t   *testing.T
	c   net.Conn
	xid uint32
	uid uint32
}

func (s *nfsSite) raw(t *testing.T, uid uint32) *rawNFS {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &rawNFS{t: t, c: c, uid: uid}
}

// x encodes words and opaques: uint32 and int as a word, uint64 as two, []byte and string with
// length and padding, [n]raw as they are.
func x(vs ...any) (p []byte) {
	for _, v := range vs {
		switch v := v.(type) {
		case int:
			p = binary.BigEndian.AppendUint32(p, uint32(v))
		case uint32:
			p = binary.BigEndian.AppendUint32(p, v)
		case uint64:
			p = binary.BigEndian.AppendUint64(p, v)
		case string:
			p = append(p, x([]byte(v))...)
		case []byte:
			p = binary.BigEndian.AppendUint32(p, uint32(len(v)))
			p = append(append(p, v...), make([]byte, -len(v)&3)...)
		case raw:
			p = append(p, v...)
		default:
			panic(fmt.Sprintf("%T", v))
		}
	}
	return p
}

type raw []byte

// noAttrs is a sattr3 that sets nothing.
var noAttrs = raw(make([]byte, 24))

func (r *rawNFS) sys() []byte { return x(0, "host", r.uid, r.uid, 0) }

func (r *rawNFS) send(record []byte) {
	r.t.Helper()
	if _, err := r.c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(record))|1<<31), record...)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rawNFS) recv() ([]byte, error) {
	var mark [4]byte
	if _, err := io.ReadFull(r.c, mark[:]); err != nil {
		return nil, err
	}
	p := make([]byte, binary.BigEndian.Uint32(mark[:])&0x7fffffff)
	_, err := io.ReadFull(r.c, p)
	return p, err
}

// call gives the accept state and the result.
func (r *rawNFS) call(prog, proc int, args ...any) (uint32, []byte) {
	r.t.Helper()
	r.xid++
	r.send(x(r.xid, 0, 2, prog, 3, proc, 1, r.sys(), 0, 0, raw(x(args...))))
	p, err := r.recv()
	if err != nil {
		r.t.Fatal(err)
	}
	if len(p) < 24 || !bytes.Equal(p[:12], x(r.xid, 1, 0)) {
		r.t.Fatalf("reply % x", p)
	}
	return binary.BigEndian.Uint32(p[20:]), p[24:]
}

// nfs makes an NFS call that must be accepted, and gives its status and the rest.
func (r *rawNFS) nfs(proc int, args ...any) (uint32, []byte) {
	r.t.Helper()
	st, p := r.call(100003, proc, args...)
	if st != 0 {
		r.t.Fatalf("procedure %d: accept state %d", proc, st)
	}
	return binary.BigEndian.Uint32(p), p[4:]
}

func (r *rawNFS) want(status uint32, proc int, args ...any) []byte {
	r.t.Helper()
	got, p := r.nfs(proc, args...)
	if got != status {
		r.t.Fatalf("procedure %d: status %d, want %d", proc, got, status)
	}
	return p
}

// mnt gives the root handle of an export.
func (r *rawNFS) mnt(export string) []byte {
	r.t.Helper()
	st, p := r.call(100005, 1, export)
	if st != 0 || binary.BigEndian.Uint32(p) != 0 || binary.BigEndian.Uint32(p[4:]) != 48 {
		r.t.Fatalf("mount %s: %d, % x", export, st, p)
	}
	return p[8:56]
}

// D1, D2 and D4: what is no record, and who is nobody.
func TestNFSBadRecords(t *testing.T) {
	s := newNFS(t)
	closed := func(r *rawNFS) {
		t.Helper()
		if p, err := r.recv(); err == nil {
			t.Errorf("answered % x", p)
		}
	}
	// D1: lengths that cannot be, fragments without end.
	for _, mark := range []uint32{0xffffffff, 0x7fffffff, 1 << 31, 1<<20 + 8<<10 + 1} {
		r := s.raw(t, 0)
		r.c.Write(x(mark))
		closed(r)
	}
	r := s.raw(t, 0)
	for range 64 {
		r.c.Write(x(4, 0)) // the server may close before all are sent
	}
	closed(r)
	// D2: credentials over 400 bytes, and over the record.
	for _, cred := range [][]byte{x(1, make([]byte, 404)), x(1, 1<<20), x(1, 0xffffffff)} {
		r := s.raw(t, 0)
		r.send(x(1, 0, 2, 100003, 3, 0, raw(cred), 0, 0))
		closed(r)
	}
	// D4: too many groups.
	for _, n := range []any{17, 0x80000000, 0xffffffff} {
		r := s.raw(t, 0)
		r.send(x(1, 0, 2, 100003, 3, 0, 1, x(0, "h", 0, 0, n, raw(make([]byte, 68))), 0, 0))
		if p, err := r.recv(); err != nil || !bytes.Equal(p, x(1, 1, 1, 1, 1)) {
			t.Errorf("%v groups: % x, %v", n, p, err)
		}
	}
}

// D3 and D5 to D7: what cannot be decoded, is not a handle, or is not served.
func TestNFSBadInput(t *testing.T) {
	s := newNFS(t)
	r := s.raw(t, 1000)
	h := r.mnt("/main")
	// D3: an opaque longer than the record; arguments that end early; handles too long.
	for _, args := range [][]byte{x(0xffffffff, raw(make([]byte, 10))), x(48), nil, x(make([]byte, 65))} {
		if st, _ := r.call(100003, 1, raw(args)); st != 4 {
			t.Errorf("GETATTR with % x: accept state %d", args, st)
		}
	}
	for name, args := range map[string][]byte{
		"write: count over data": x(h, uint64(0), 100, 0, "short"),
		"write: stable 3":        x(h, uint64(0), 4, 3, "data"),
		"write: data over limit": x(h, uint64(0), 1<<20+4, 0, make([]byte, 1<<20+4)),
	} {
		if st, _ := r.call(100003, 7, raw(args)); st != 4 {
			t.Errorf("%s: accept state %d", name, st)
		}
	}
	// D5, D6: handles of other lengths, altered ones, of a removed file.
	for _, n := range []int{0, 1, 47, 49, 64} {
		r.want(10001, 1, append(bytes.Clone(h), make([]byte, 64)...)[:n])
	}
	for i := range h {
		bad := bytes.Clone(h)
		bad[i] ^= 1
		if st, _ := r.nfs(1, bad); st != 10001 && st != 70 {
			t.Errorf("byte %d flipped: status %d", i, st)
		}
	}
	p := r.want(0, 8, h, "gone", 1, noAttrs)
	gone := p[8:56]
	r.want(0, 12, h, "gone")
	r.want(70, 1, gone)
	r.want(70, 6, gone, uint64(0), 1)
	r.want(70, 7, gone, uint64(0), 1, 0, "x")
	// D7: other versions, programs and procedures; NULL with a body.
	r.send(x(7, 0, 3, 100003, 3, 0, 0, 0, 0, 0))
	if p, err := r.recv(); err != nil || !bytes.Equal(p, x(7, 1, 1, 0, 2, 2)) {
		t.Errorf("RPC version 3: % x, %v", p, err)
	}
	r.send(x(8, 0, 2, 100003, 4, 0, 0, 0, 0, 0))
	if p, err := r.recv(); err != nil || !bytes.Equal(p, x(8, 1, 0, 0, 0, 2, 3, 3)) {
		t.Errorf("NFS version 4: % x, %v", p, err)
	}
	for _, c := range []struct{ prog, proc, want int }{{100227, 0, 1}, {100003, 22, 3}, {100005, 6, 3}, {100003, 0, 0}} {
		if st, _ := r.call(c.prog, c.proc, make([]byte, 100)); st != uint32(c.want) {
			t.Errorf("program %d procedure %d: accept state %d, want %d", c.prog, c.proc, st, c.want)
		}
	}
	for name, want := range map[string]uint32{"": 22, ".": 22, "a/b": 22, string(make([]byte, 256)): 63} {
		r.want(want, 8, h, name, 1, noAttrs)
	}
	r.want(0, 1, h) // it still serves
}

func TestNFSProcedures(t *testing.T) {
	s := newNFS(t)
	r := s.raw(t, 1000)
	h := r.mnt("/main")

	// EXCLUSIVE: the same verifier twice is one file, another is refused (case N5).
	p := r.want(0, 8, h, "excl", 2, uint64(77))
	first := bytes.Clone(p[8:56])
	if p = r.want(0, 8, h, "excl", 2, uint64(77)); !bytes.Equal(p[8:56], first) {
		t.Error("the same exclusive create made another file")
	}
	r.want(17, 8, h, "excl", 2, uint64(78))
	r.want(17, 8, h, "excl", 1, noAttrs)
	if p = r.want(0, 8, h, "excl", 0, noAttrs); !bytes.Equal(p[8:56], first) {
		t.Error("an unchecked create made another file")
	}

	// An UNSTABLE write and its COMMIT have one verifier; the bytes are there at once.
	p = r.want(0, 7, first, uint64(0), 5, 0, "hello")
	wrote := p[len(p)-8:]
	if n, how := binary.BigEndian.Uint32(p[len(p)-16:]), binary.BigEndian.Uint32(p[len(p)-12:]); n != 5 || how != 0 {
		t.Errorf("wrote %d, committed %d", n, how)
	}
	if p = r.want(0, 6, first, uint64(1), 100); !bytes.Equal(p[88:], x(4, 1, "ello")) {
		t.Errorf("read % x", p[88:])
	}
	if p = r.want(0, 21, first, uint64(0), 0); !bytes.Equal(p[len(p)-8:], wrote) {
		t.Errorf("verifier %x, then %x", wrote, p[len(p)-8:])
	}
	if p = r.want(0, 6, first, uint64(1)<<63, 100); !bytes.Equal(p[88:], x(0, 1, 0)) {
		t.Errorf("read past all ends: % x", p[88:])
	}
	r.want(27, 7, first, ^uint64(0)-2, 5, 0, "hello")

	// LINK, and what has three names' worth of attributes.
	p = r.want(0, 15, first, h, "second")
	if nlink := binary.BigEndian.Uint32(p[4+8:]); nlink != 2 {
		t.Errorf("%d names after LINK", nlink)
	}
	r.want(17, 15, first, h, "second")

	// The guard of SETATTR: the ctime that GETATTR gave, or nothing happens.
	p = r.want(0, 1, first)
	ctime := p[76:84]
	mode := raw(append(x(1, 0o600), make([]byte, 20)...))
	r.want(10002, 2, first, mode, 1, uint64(5))
	p = r.want(0, 2, first, mode, 1, raw(ctime))
	if !bytes.Equal(p[:4], x(1)) || !bytes.Equal(p[20:28], ctime[:0:0]) && !bytes.Equal(p[20:28], ctime) {
		t.Errorf("attributes before: % x, ctime was % x", p[:28], ctime)
	}
	r.want(10002, 2, first, mode, 1, raw(ctime))

}

func TestNFSNodesAndFailures(t *testing.T) {
	s := newNFS(t)
	r := s.raw(t, 1000)
	h := r.mnt("/main")
	r.want(0, 8, h, "second", 1, noAttrs)
	// MKNOD: a fifo; a directory is none of its types. SYMLINK and READLINK.
	r.want(0, 11, h, "fifo", 7, noAttrs)
	r.want(10007, 11, h, "dir", 2, noAttrs)
	p := r.want(0, 10, h, "sym", noAttrs, "to/there")
	if p = r.want(0, 5, bytes.Clone(p[8:56])); !bytes.Equal(p[88:], x("to/there")) {
		t.Errorf("readlink % x", p[88:])
	}
	// Every failure carries attributes of before and after (case N8).
	for proc, args := range map[int][]any{
		12: {h, "none"}, 13: {h, "second"}, 9: {h, "second", noAttrs}, 8: {h, "second", 1, noAttrs},
	} {
		st, p := r.nfs(proc, args...)
		if st == 0 || len(p) != 4+24+4+84 || !bytes.Equal(p[:4], x(1)) {
			t.Errorf("procedure %d: status %d, % x", proc, st, p)
		}
	}
	for _, proc := range []int{18, 19, 20} {
		r.want(0, proc, h)
	}
	// Case N14: the owner reads and writes a file of mode 0 by its handle, and ACCESS shows the mode.
	p = r.want(0, 8, h, "closed", 1, raw(append(x(1, 0), make([]byte, 20)...)))
	closed := bytes.Clone(p[8:56])
	r.want(0, 7, closed, uint64(0), 4, 0, "mine")
	r.want(0, 6, closed, uint64(0), 4)
	if p = r.want(0, 4, closed, 0x3f); !bytes.Equal(p[88:], x(0)) {
		t.Errorf("access to a file of mode 0: % x", p[88:])
	}
	two := s.raw(t, 1001)
	two.want(13, 7, closed, uint64(0), 4, 0, "none")
	two.want(13, 6, closed, uint64(0), 4)
}

// page is one READDIR or READDIRPLUS.
func (r *rawNFS) page(plus bool, h []byte, cookie uint64, count int) (names []string, cookies []uint64, eof bool) {
	r.t.Helper()
	var p []byte
	if plus {
		p = r.want(0, 17, h, cookie, uint64(0), count, count)
	} else {
		p = r.want(0, 16, h, cookie, uint64(0), count)
	}
	if len(p)+4 > count {
		r.t.Fatalf("a reply of %d bytes, asked for %d", len(p)+4, count)
	}
	word := func() uint32 { v := binary.BigEndian.Uint32(p); p = p[4:]; return v }
	p = p[88+8:]
	for word() == 1 {
		p = p[8:]
		n := int(word())
		names = append(names, string(p[:n]))
		p = p[n+(-n&3):]
		cookies = append(cookies, binary.BigEndian.Uint64(p))
		if p = p[8:]; plus {
			if word() == 1 {
				p = p[84:]
			}
			if word() == 1 {
				p = p[4+48:]
			}
		}
	}
	return names, cookies, word() == 1
}

func TestNFSCookies(t *testing.T) {
	s := newNFS(t)
	r := s.raw(t, 1000)
	h := r.mnt("/main")
	for i := range 100 {
		r.want(0, 8, h, fmt.Sprint("n", i), 1, noAttrs)
	}
	for _, plus := range []bool{false, true} {
		seen := map[string]int{}
		var all []uint64
		for cookie, eof := uint64(0), false; !eof; {
			var names []string
			var cookies []uint64
			names, cookies, eof = r.page(plus, h, cookie, 800)
			for _, n := range names {
				seen[n]++
			}
			all = append(all, cookies...)
			if len(cookies) > 0 {
				cookie = cookies[len(cookies)-1]
			}
		}
		if len(seen) != 102 || seen["."] != 1 || seen[".."] != 1 || len(all) != 102 || all[0] != 1 || all[1] != 2 {
			t.Fatalf("plus %v: %d names in %d entries, cookies %v", plus, len(seen), len(all), all[:2])
		}
		// A page can be asked for again after its first entry is gone (case N4).
		again, _, _ := r.page(plus, h, all[50], 800)
		r.want(0, 12, h, again[0])
		later, _, _ := r.page(plus, h, all[50], 800)
		if later[0] != again[1] {
			t.Errorf("plus %v: after a removal the page starts at %s, want %s", plus, later[0], again[1])
		}
		r.want(0, 8, h, again[0], 1, noAttrs)
	}
	st, _ := r.nfs(17, h, uint64(0), uint64(0), 100, 100)
	if st != 10005 {
		t.Errorf("a page that holds nothing: status %d", st)
	}
}

func TestNFSHandlesOfOnePortalOnly(t *testing.T) {
	s := newNFS(t,
		system.Portal{Name: "main", Namespace: "main", Path: "/"},
		system.Portal{Name: "other", Namespace: "main", Path: "/"},
	)
	r := s.raw(t, 1000)
	a, b := r.mnt("/main"), r.mnt("/other")
	r.want(0, 8, a, "x", 1, noAttrs)
	r.want(18, 14, a, "x", b, "y") // RENAME between portals
	s.site.Spoke.Show([]system.Portal{{Name: "main", Namespace: "main", Path: "/"}})
	r.want(70, 1, b) // its portal is gone
	r.want(0, 1, a)
}

func TestNFSMountAndPortmapTell(t *testing.T) {
	s := newNFS(t)
	r := s.raw(t, 1000)
	r.mnt("/main")
	if st, p := r.call(100005, 2); st != 0 || !bytes.Equal(p, x(1, "127.0.0.1", "/main", 0)) {
		t.Errorf("DUMP % x", p)
	}
	if st, p := r.call(100005, 5); st != 0 || !bytes.Equal(p, x(1, "/main", 1, "127.0.0.0/8", 1, "::1/128", 0, 0)) {
		t.Errorf("EXPORT % x", p)
	}
	r.call(100005, 3, "/main")
	if st, p := r.call(100005, 2); st != 0 || !bytes.Equal(p, x(0)) {
		t.Errorf("DUMP after UMNT % x", p)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.srv.ServePortmap(ctx, l, u, 2049) }()
	getport := x(9, 0, 2, 100000, 2, 3, 0, 0, 0, 0, 100005, 3, 6, 0)
	want := x(9, 1, 0, 0, 0, 0, 2049)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pm := &rawNFS{t: t, c: c}
	pm.send(getport)
	if p, err := pm.recv(); err != nil || !bytes.Equal(p, want) {
		t.Errorf("GETPORT over TCP: % x, %v", p, err)
	}
	d, err := net.Dial("udp", u.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Write(getport)
	buf := make([]byte, 100)
	if n, err := d.Read(buf); err != nil || !bytes.Equal(buf[:n], want) {
		t.Errorf("GETPORT over UDP: % x, %v", buf[:n], err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("portmap: %v", err)
	}
}
