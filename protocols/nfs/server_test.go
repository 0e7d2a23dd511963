package nfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// fake is a portal of one directory, 1, and files from 10 on, which all have the same bytes. A READ
// of file 11 waits for gate.
type fake struct {
	fabric.FS
	policy   fabric.Policy
	verifier atomic.Uint64
	opened   atomic.Int64
	closed   atomic.Int64
	running  atomic.Int64
	gate     chan struct{}
	big      bool // files are as long as any READ
	who      atomic.Pointer[fabric.Cred]
}

func newFake() *fake { return &fake{gate: make(chan struct{})} }

func (f *fake) Portal(name string) (fabric.Portal, error) {
	if name != "fake" {
		return nil, fabric.NotExist
	}
	return f, nil
}
func (f *fake) Names() []string                                { return []string{"fake"} }
func (f *fake) Name() string                                   { return "fake" }
func (f *fake) Policy() fabric.Policy                          { return f.policy }
func (f *fake) Watch(fabric.Observer) (fabric.Watcher, func()) { return 0, func() {} }
func (f *fake) Verifier() uint64                               { return f.verifier.Load() }
func (f *fake) ID() uint64                                     { return 7 }
func (f *fake) Root() fabric.Ino                               { return 1 }
func (f *fake) As(who fabric.Cred) fabric.FS                   { f.who.Store(&who); return f }
func (f *fake) Handle(ino fabric.Ino) (h fabric.Handle) {
	binary.BigEndian.PutUint64(h[:], uint64(ino))
	return h
}
func (f *fake) StatFS(context.Context) (u fabric.Usage, err error)   { return u, nil }
func (f *fake) ReadLink(context.Context, fabric.Ino) (string, error) { return "", fabric.Invalid }
func (f *fake) Sync(context.Context, fabric.Ino) error               { return nil }

// fakePortals resolves to the one portal; Portal's own Resolve has another shape.
type fakePortals struct{ *fake }

func (f *fake) Resolve(h []byte) (fabric.Ino, error) {
	if len(h) != fabric.HandleLen {
		return 0, fabric.BadHandle
	}
	return fabric.Ino(binary.BigEndian.Uint64(h)), nil
}

func (p fakePortals) Resolve(h []byte) (fabric.Portal, fabric.Ino, error) {
	ino, err := p.fake.Resolve(h)
	return p.fake, ino, err
}

func (f *fake) attr(ino fabric.Ino) (a fabric.Attr, err error) {
	switch {
	case ino == 1:
		return fabric.Attr{Ino: 1, Type: fabric.TypeDir, Mode: 0o777, Nlink: 2, Parent: 1}, nil
	case ino >= 10:
		return fabric.Attr{Ino: ino, Type: fabric.TypeFile, Mode: 0o666, Nlink: 1, Size: 6}, nil
	}
	return a, fabric.Stale
}

func (f *fake) Stat(_ context.Context, ino fabric.Ino) (fabric.Attr, error) { return f.attr(ino) }
func (f *fake) Access(_ context.Context, _ fabric.Ino, want fabric.Perm) (fabric.Perm, error) {
	return want, nil
}
func (f *fake) Lookup(_ context.Context, _ fabric.Ino, name string) (fabric.Attr, error) {
	if name == ".." {
		return f.attr(1)
	}
	return f.attr(10)
}
func (f *fake) SetAttr(_ context.Context, ino fabric.Ino, _ fabric.SetAttr) (c fabric.Change, err error) {
	c.After, err = f.attr(ino)
	return c, err
}
func (f *fake) Make(_ context.Context, dir fabric.Ino, _ string, _ fabric.NodeSpec) (a fabric.Attr, c fabric.Change, err error) {
	a, err = f.attr(10)
	return a, c, err
}
func (f *fake) Link(context.Context, fabric.Ino, fabric.Ino, string) (a fabric.Attr, c fabric.Change, err error) {
	return a, c, fabric.Exist
}
func (f *fake) Rename(context.Context, fabric.Ino, string, fabric.Ino, string, fabric.RenameMode) (a, b fabric.Change, err error) {
	return a, b, fabric.NotExist
}
func (f *fake) Remove(context.Context, fabric.Ino, string, fabric.RemoveKind, fabric.Cond) (c fabric.Change, err error) {
	return c, fabric.NotExist
}
func (f *fake) ReadDir(context.Context, fabric.Ino, fabric.Pos) iter.Seq2[fabric.Entry, error] {
	return func(yield func(fabric.Entry, error) bool) { yield(fabric.Entry{Name: "x", Cookie: 3}, nil) }
}
func (f *fake) Open(_ context.Context, ino fabric.Ino, _ fabric.OpenMode) (fabric.File, error) {
	if ino < 10 {
		return nil, fabric.IsDir
	}
	f.opened.Add(1)
	return &fakeFile{f: f, ino: ino}, nil
}

type fakeFile struct {
	fabric.File
	f   *fake
	ino fabric.Ino
}

func (o *fakeFile) Stat(context.Context) (fabric.Attr, error) { return o.f.attr(o.ino) }
func (o *fakeFile) Sync(context.Context) error                { return nil }
func (o *fakeFile) Close(context.Context) error               { o.f.closed.Add(1); return nil }
func (o *fakeFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	o.f.running.Add(1)
	defer o.f.running.Add(-1)
	if o.ino == 11 {
		select {
		case <-o.f.gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if o.f.big {
		return len(p), nil
	}
	return copy(p, "abcdef"[min(off, 6):]), nil
}
func (o *fakeFile) WriteAt(_ context.Context, p []byte, _ int64) (n int, c fabric.Change, err error) {
	c.After, err = o.f.attr(o.ino)
	return len(p), c, err
}

// handleOf is a handle of the fake, as an XDR opaque.
func handleOf(ino fabric.Ino) []byte {
	h := (*fake)(nil).Handle(ino)
	return append(be(48), h[:]...)
}

// callOf is a record without its mark.
func callOf(xid, prog, proc uint32, args ...[]byte) []byte {
	p := append(be(xid, 0, 2, prog, 3, proc), sys(be(0, 0, 5, 5, 0))...)
	p = append(p, be(0, 0)...)
	return append(p, bytes.Join(args, nil)...)
}

// pipe serves one connection, whose other end it gives.
func pipe(t *testing.T, cfg Config, f *fake) net.Conn {
	s := New(cfg, fakePortals{f}, slog.New(slog.DiscardHandler))
	a, b := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	all := programs{programNFS: {3, 3, s.nfs}, programMount: {3, 3, s.mount}}
	done.Go(func() {
		s.serve(ctx, b, netip.MustParseAddr("127.0.0.1"), func(ctx context.Context, r *request, record []byte) bool {
			return r.run(ctx, record, all)
		})
	})
	done.Go(func() { s.files.run(ctx) })
	t.Cleanup(func() { cancel(); a.Close(); done.Wait() })
	return a
}

func sendTo(c net.Conn, record []byte) { c.Write(append(be(uint32(len(record))|1<<31), record...)) }

// recvFrom gives a reply's xid and its results.
func recvFrom(t *testing.T, c net.Conn) (xid uint32, results []byte) {
	t.Helper()
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, binary.BigEndian.Uint32(mark[:])&0x7fffffff)
	if _, err := io.ReadFull(c, p); err != nil {
		t.Fatal(err)
	}
	if len(p) < 28 || len(p)%4 != 0 {
		t.Fatalf("a reply of %d bytes", len(p))
	}
	return binary.BigEndian.Uint32(p), p[24:]
}

func readOf(xid uint32, ino fabric.Ino) []byte {
	return callOf(xid, programNFS, 6, handleOf(ino), be(0, 0, 100))
}

// Case N3: a call that waits does not hold up others of its connection.
func TestSlowReadsDoNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := pipe(t, Config{}, f)
		sendTo(c, readOf(1, 11))
		synctest.Wait()
		sendTo(c, readOf(2, 10))
		xid, p := recvFrom(t, c)
		if want := append(be(6, 1, 6), "abcdef\x00\x00"...); xid != 2 || !bytes.Equal(p[92:], want) {
			t.Fatalf("reply %d: % x", xid, p)
		}
		close(f.gate)
		if xid, p = recvFrom(t, c); xid != 1 || binary.BigEndian.Uint32(p) != 0 {
			t.Fatalf("reply %d: % x", xid, p)
		}
	})
}

func TestStuckCallsAreJukebox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipe(t, Config{}, newFake())
		start := time.Now()
		sendTo(c, readOf(1, 11))
		_, p := recvFrom(t, c)
		if st := binary.BigEndian.Uint32(p); st != 10008 || time.Since(start) != fabric.Stuck {
			t.Fatalf("status %d after %v", st, time.Since(start))
		}
	})
}

func TestOutstandingCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := pipe(t, Config{Outstanding: 3}, f)
		go func() {
			for i := range 10 {
				sendTo(c, readOf(uint32(i), 11))
			}
		}()
		synctest.Wait()
		if n := f.running.Load(); n != 3 {
			t.Errorf("%d calls run at once", n)
		}
		close(f.gate)
		for range 10 {
			recvFrom(t, c)
		}
	})
}

func TestFilesStayOpenForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := pipe(t, Config{OpenFiles: 2}, f)
		write := func(ino fabric.Ino) {
			t.Helper()
			sendTo(c, callOf(1, programNFS, 7, handleOf(ino), be(0, 0, 4, 0, 4), []byte("data")))
			if _, p := recvFrom(t, c); binary.BigEndian.Uint32(p) != 0 {
				t.Fatalf("write: % x", p)
			}
			synctest.Wait()
		}
		want := func(opened, closed int64) {
			t.Helper()
			if o, c := f.opened.Load(), f.closed.Load(); o != opened || c != closed {
				t.Fatalf("%d opened, %d closed; want %d, %d", o, c, opened, closed)
			}
		}
		for range 5 {
			write(20)
			time.Sleep(2 * time.Second) // within a bubble: no time passes
		}
		want(1, 0)
		write(21)
		write(22) // the limit: the longest idle goes
		want(3, 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want(3, 3)
	})
}

func TestSquash(t *testing.T) {
	groups := []uint32{0, 9}
	for _, c := range []struct {
		name   string
		claim  fabric.Cred
		policy fabric.Policy
		uid    uint32
		gid    uint32
		groups []uint32
	}{
		{"a user", fabric.Cred{UID: 5, GID: 6, Groups: []uint32{7}}, fabric.Policy{}, 5, 6, []uint32{7}},
		{"root", fabric.Cred{Groups: groups}, fabric.Policy{}, nobody, nobody, nil},
		{"root, squashed to another", fabric.Cred{}, fabric.Policy{SquashUID: 3, SquashGID: 4}, 3, 4, nil},
		{"root, let be", fabric.Cred{Groups: groups}, fabric.Policy{NoRootSquash: true}, 0, 0, groups},
		{"root's groups", fabric.Cred{UID: 5, Groups: groups}, fabric.Policy{}, 5, nobody, []uint32{nobody, 9}},
		{"nobody is whom the policy names", fabric.Cred{UID: nobody, GID: nobody}, fabric.Policy{SquashUID: 3, SquashGID: 4, NoRootSquash: true}, 3, 4, nil},
	} {
		got := under(c.claim, &c.policy)
		if got.UID != c.uid || got.GID != c.gid || !equal(got.Groups, c.groups) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if groups[0] != 0 {
		t.Error("the claim was changed")
	}
}

func equal(a, b []uint32) bool {
	return bytes.Equal(be(a...), be(b...))
}

func TestAdmits(t *testing.T) {
	net10 := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		policy fabric.Policy
		from   string
		want   bool
	}{
		{fabric.Policy{}, "127.0.0.1", true},
		{fabric.Policy{}, "::1", true},
		{fabric.Policy{}, "10.1.2.3", false},
		{fabric.Policy{Clients: net10}, "10.1.2.3", true},
		{fabric.Policy{Clients: net10}, "127.0.0.1", false},
		{fabric.Policy{Clients: net10, Protocols: []string{"s3"}}, "10.1.2.3", false},
		{fabric.Policy{Protocols: []string{"s3", "nfs"}}, "127.0.0.1", true},
	} {
		if got := admits(&c.policy, netip.MustParseAddr(c.from)); got != c.want {
			t.Errorf("%+v from %s: %v", c.policy, c.from, got)
		}
	}
}

func TestConnectionsPerClient(t *testing.T) {
	s := New(Config{PerClient: 2, Connections: 3}, fakePortals{newFake()}, slog.New(slog.DiscardHandler))
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	var got []bool
	for _, peer := range []netip.Addr{a, a, a, b, b} {
		got = append(got, s.enter(peer))
	}
	if !slices.Equal(got, []bool{true, true, false, true, false}) {
		t.Fatalf("entered: %v", got)
	}
	s.leave(a)
	if !s.enter(b) || len(s.clients) != 2 {
		t.Fatal("a place was not given back")
	}
}

// FuzzArguments gives every procedure any bytes. Replies must be whole words, and of a known state.
func FuzzArguments(f *testing.F) {
	h := handleOf(10)
	for proc := range uint32(len(procedures)) {
		f.Add(proc, append(bytes.Clone(h), make([]byte, 100)...))
		f.Add(proc, append(append(append(bytes.Clone(h), be(1)...), "x\x00\x00\x00"...), append(bytes.Clone(h), be(1, 0x78000000, 0, 0, 0, 0, 0, 0, 0)...)...))
		f.Add(proc, be(0xffffffff))
	}
	fk := newFake()
	close(fk.gate)
	s := New(Config{}, fakePortals{fk}, slog.New(slog.DiscardHandler))
	all := programs{programNFS: {3, 3, s.nfs}, programMount: {3, 3, s.mount}}
	f.Fuzz(func(t *testing.T, proc uint32, args []byte) {
		for _, prog := range []uint32{programNFS, programMount} {
			r := request{s: s, from: netip.MustParseAddr("127.0.0.1")}
			if !r.run(t.Context(), callOf(1, prog, proc, args), all) {
				t.Fatal("no answer to a whole call")
			}
			if n := len(r.out.p); n < 28 || n%4 != 0 || binary.BigEndian.Uint32(r.out.p[24:]) > 4 {
				t.Fatalf("program %d procedure %d: % x", prog, proc, r.out.p)
			}
			s.mem.free(r.data)
		}
		s.files.closeAll()
		if fk.opened.Load() != fk.closed.Load() {
			t.Fatal("a file stays open")
		}
	})
}
