package wire

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/mem"
	"github.com/spokefs/spokefs/storage/storagetest"
)

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %#v\nwant %#v", what, got, want)
	}
}

func TestConnect(t *testing.T) {
	w := newWorld(t, Config{})
	old := namespace.Ticket{Session: fabric.SessionID{3}, Epoch: 2, Secret: [32]byte{4}}
	_, info, ticket, lease, err := w.client.Connect(t.Context(), testNamespace, old)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "info", info, w.hub.info)
	same(t, "ticket", ticket, w.hub.ticket)
	same(t, "lease", lease, w.hub.session.lease)
	same(t, "old", w.hub.old, old)
	same(t, "owner", w.hub.owner, "spiffe://example.org/spoke/branch/n1")
	if site, err := w.client.Site(t.Context()); err != nil || string(site) != `{"spoke":"branch"}` {
		t.Errorf("Site: %s, %v", site, err)
	}
	if _, _, _, _, err := w.client.Connect(t.Context(), "other", old); !errors.Is(err, fabric.Denied) {
		t.Errorf("another namespace: %v", err)
	}
	if s := w.client.Stats(); s.Sent == 0 || s.Received == 0 || s.Dials != 1 {
		t.Errorf("stats %+v", s)
	}
}

func testInode(ino fabric.Ino) namespace.Inode {
	return namespace.Inode{Attr: fabric.Attr{Ino: ino, Type: fabric.TypeFile, Mode: 0o644, Size: 3, Used: 3, Nlink: 1, Mtime: -5, Iver: 8},
		Content: namespace.Content{Size: 3, Used: 3, Inline: []byte("abc")}, Xattrs: []namespace.Xattr{{Name: "user.x", Value: []byte{0, 1}}}}
}

func TestCalls(t *testing.T) {
	w := newWorld(t, Config{})
	c, s, ctx := w.connect(t), w.hub.session, t.Context()
	s.grants = []rights.Grant{{Ino: 1 << 60, Right: rights.R | rights.W, Seq: 9, Epoch: 7, Term: 3}, {Ino: 4}}
	s.inodes = []namespace.Inode{testInode(1 << 60), {}}
	bad := "caf\xe9" // names are bytes
	s.found = []namespace.Found{{Inode: testInode(1)}, {Dir: 1, Name: bad, Cookie: 4, Inode: testInode(6),
		Blobs: []storage.Blob{{Ref: storage.Ref{Sum: [32]byte{1}, Len: 3}, Kind: storage.Chunk, Form: storage.Raw, Data: []byte("abc")}}}}
	s.page = []namespace.Dirent{{Name: bad, Cookie: 5, Inode: testInode(6)}}
	s.eof = true
	s.result = namespace.Result{Index: 77, Ops: []namespace.OpResult{{Code: fabric.Exist, Cookie: 3}}}
	s.usage = fabric.Usage{Bytes: 1, FreeBytes: 2, Inodes: 3, FreeInodes: 4}

	lease, err := c.Renew(ctx, 2, []fabric.Ino{5, 6})
	same(t, "Renew", []any{lease, err, s.asked}, []any{s.lease, nil, []any{"renew", fabric.Term(2), []fabric.Ino{5, 6}}})
	wants := []rights.Want{{Ino: 1 << 60, Right: rights.R | rights.W, Wait: true}, {Ino: 4, Right: rights.D}}
	g, n, err := c.Acquire(ctx, wants)
	same(t, "Acquire", []any{g, n, err, s.asked}, []any{s.grants, s.inodes, nil, []any{"acquire", wants}})
	g, found, err := c.Lookup(ctx, 1, []string{"a", bad}, 4096)
	same(t, "Lookup", []any{g, found, err, s.asked}, []any{s.grants, s.found, nil, []any{"lookup", fabric.Ino(1), []string{"a", bad}, 4096}})
	from := fabric.Pos{After: 4, ByName: true, At: bad}
	g, page, eof, err := c.List(ctx, 1, from, 100)
	same(t, "List", []any{g, page, eof, err, s.asked}, []any{s.grants, s.page, true, nil, []any{"list", fabric.Ino(1), from, 100}})
	n, err = c.Peek(ctx, []fabric.Ino{8})
	same(t, "Peek", []any{n, err, s.asked}, []any{s.inodes, nil, []any{"peek", []fabric.Ino{8}}})
	same(t, "Release", []any{c.Release(ctx, s.grants), s.asked}, []any{nil, []any{"release", s.grants}})
	acks := []rights.Ack{{Ino: 5, Seq: 6, Kept: rights.R, Open: true, Left: 1 << 40}}
	same(t, "Ack", []any{c.Ack(ctx, acks), s.asked}, []any{nil, []any{"ack", acks}})
	cmd := namespace.Command{From: namespace.Origin{Session: fabric.SessionID{1, 2}, Epoch: 7, Slot: 3, Seq: 4}, Wall: 11,
		Ops: []namespace.Op{&namespace.Link{Ino: 5, Dir: 1, Name: bad}}}
	g, res, err := c.Apply(ctx, cmd)
	same(t, "Apply", []any{g, res, err, s.asked}, []any{s.grants, s.result, nil, []any{"apply", cmd}})
	u, err := c.StatFS(ctx)
	same(t, "StatFS", []any{u, err}, []any{s.usage, nil})
	same(t, "Close", []any{c.Close(ctx), s.asked}, []any{nil, []any{"close"}})
}

func TestEvents(t *testing.T) {
	w := newWorld(t, Config{})
	c, s := w.connect(t), w.hub.session
	s.events = []rights.Message{&rights.Recall{Ino: 5, Kind: rights.Shared, Seq: 6, Term: 3, Name: "x\xff"}, &rights.Waiting{Ino: 7}, &rights.Push{Ino: 8}}
	var got []rights.Message
	for m, err := range c.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, m); len(got) == len(s.events) {
			break
		}
	}
	same(t, "events", got, s.events)
}

func TestCodesCrossTheWire(t *testing.T) {
	w := newWorld(t, Config{})
	c, s := w.connect(t), w.hub.session
	for code := fabric.Code(1); int(code) < fabric.Codes; code++ {
		want := code
		if code == fabric.Canceled {
			want = fabric.Unavailable // we did not give up
		}
		for _, err := range []error{code, &fabric.Error{Op: "x", Ino: 3, Code: code, Err: errors.New("why")}} {
			s.err = err
			if _, err := c.StatFS(t.Context()); fabric.CodeOf(err) != want {
				t.Errorf("%v came as %v", code, err)
			}
			for _, err := range c.Events(t.Context()) {
				if fabric.CodeOf(err) != want {
					t.Errorf("%v came as %v in a stream", code, err)
				}
			}
		}
	}
	for _, e := range errStorage {
		err, broken := fromBlobs(t.Context(), toStatus(fmt.Errorf("layer: %w", e), true))
		if !errors.Is(err, e) || broken {
			t.Errorf("%v came as %v, broken %v", e, err, broken)
		}
	}
}

func TestBlobs(t *testing.T) {
	w := newWorld(t, Config{MaxBatch: 4 << 10})
	c := w.connect(t)
	storagetest.Blobs(t, func(t *testing.T, h *chunk.Hasher) storage.Blobs {
		w.hub.session.blobs = mem.New(h)
		return c.Blobs()
	})
	if s := w.client.Stats(); s.BlobsIn == 0 || s.BlobsOut == 0 || s.RawIn < s.StoredIn || s.Dials != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestLargestBlob(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t)
	raw := make([]byte, storage.MaxRaw)
	x := uint32(1)
	for i := range raw { // nothing to compress
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		raw[i] = byte(x)
	}
	b := w.hasher.Seal(storage.Chunk, raw, nil)
	if err := c.Blobs().Put(t.Context(), storage.Upload, []storage.Blob{b}); err != nil {
		t.Fatal(err)
	}
	for got, err := range c.Blobs().Fetch(t.Context(), storage.Demand, []storage.Ref{b.Ref}) {
		if err != nil || len(got.Data) != len(b.Data) {
			t.Errorf("%d bytes, %v", len(got.Data), err)
		}
	}
}

func TestPagesFitMessages(t *testing.T) {
	w := newWorld(t, Config{})
	c, s := w.connect(t), w.hub.session
	s.eof = true
	for i := range 3000 {
		n := testInode(fabric.Ino(i + 10))
		n.Target = strings.Repeat("t", fabric.MaxTarget)
		s.page = append(s.page, namespace.Dirent{Name: fmt.Sprintf("%0255d", i), Cookie: fabric.Cookie(i + 3), Inode: n})
	}
	_, page, eof, err := c.List(t.Context(), 1, fabric.Pos{}, 3000)
	if err != nil || eof || len(page) == 0 || len(page) == 3000 {
		t.Errorf("%d entries, eof %v, %v", len(page), eof, err)
	}
}

func TestContentThatDoesNotFitIsLeftOut(t *testing.T) {
	w := newWorld(t, Config{})
	c, s := w.connect(t), w.hub.session
	blob := storage.Blob{Ref: storage.Ref{Len: storage.MaxRaw}, Kind: storage.Chunk, Form: storage.Raw, Data: make([]byte, storage.MaxRaw)}
	s.found = []namespace.Found{{Inode: testInode(1)}, {Dir: 1, Name: "x", Inode: testInode(2), Blobs: []storage.Blob{blob, blob}}}
	_, found, err := c.Lookup(t.Context(), 1, []string{"x"}, 1)
	if err != nil || len(found) != 2 || len(found[1].Blobs) != 0 || found[1].Inode.Ino != 2 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestPutsOfASessionAreBounded(t *testing.T) {
	w := newWorld(t, Config{MaxPuts: 2})
	c := w.connect(t)
	g := &gauge{Blobs: w.hub.session.blobs, two: make(chan struct{})}
	w.hub.session.blobs = g
	var wg sync.WaitGroup
	for i := range 12 {
		b := w.hasher.Seal(storage.Chunk, []byte{byte(i)}, nil)
		wg.Go(func() {
			if err := c.Blobs().Put(t.Context(), storage.Upload, []storage.Blob{b}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := g.most.Load(); n != 2 {
		t.Errorf("%d at a time", n)
	}
}

// gauge counts the Puts under way; the first waits until there is a second.
type gauge struct {
	storage.Blobs
	now, most atomic.Int64
	two       chan struct{}
	once      sync.Once
}

func (g *gauge) Put(ctx context.Context, c storage.Class, blobs []storage.Blob) error {
	n := g.now.Add(1)
	defer g.now.Add(-1)
	for {
		old := g.most.Load()
		if old >= n || g.most.CompareAndSwap(old, n) {
			break
		}
	}
	if n == 2 {
		g.once.Do(func() { close(g.two) })
	}
	<-g.two
	return g.Blobs.Put(ctx, c, blobs)
}

// echoes gives an inode of the largest kind for each it is asked for.
type echoes struct{ fakeSession }

func (e *echoes) inode(ino fabric.Ino) namespace.Inode {
	n := testInode(ino)
	n.Xattrs = []namespace.Xattr{{Name: "user.big", Value: make([]byte, fabric.MaxXattrValue-8)}}
	return n
}

func (e *echoes) Acquire(_ context.Context, w []rights.Want) (g []rights.Grant, n []namespace.Inode, err error) {
	for _, w := range w {
		g, n = append(g, rights.Grant{Ino: w.Ino, Right: w.Right}), append(n, e.inode(w.Ino))
	}
	return g, n, nil
}

func (e *echoes) Peek(_ context.Context, inos []fabric.Ino) (n []namespace.Inode, err error) {
	for _, ino := range inos {
		n = append(n, e.inode(ino))
	}
	return n, nil
}

func TestManyLargeInodes(t *testing.T) {
	w := newWorld(t, Config{})
	w.hub.other = &echoes{}
	c := w.connect(t)
	var wants []rights.Want
	var inos []fabric.Ino
	for i := range fabric.Ino(200) {
		wants, inos = append(wants, rights.Want{Ino: i + 1, Right: rights.R}), append(inos, i+1)
	}
	var g []rights.Grant
	var n []namespace.Inode
	for calls := 0; len(n) < len(wants); calls++ {
		g1, n1, err := c.Acquire(t.Context(), wants[len(n):])
		if err != nil || len(n1) == 0 || len(g1) != len(n1) || calls > 5 {
			t.Fatalf("Acquire: %d, %d, %v", len(g1), len(n1), err)
		}
		g, n = append(g, g1...), append(n, n1...)
	}
	peeked, err := c.Peek(t.Context(), inos)
	if err != nil || len(peeked) != 200 {
		t.Fatalf("Peek: %d, %v", len(peeked), err)
	}
	for i := range n {
		if g[i].Ino != inos[i] || n[i].Ino != inos[i] || peeked[i].Ino != inos[i] {
			t.Fatalf("inode %d is out of order", i)
		}
	}
}

func TestMethodsWithoutARuleAreFound(t *testing.T) {
	info := map[string]grpc.ServiceInfo{pb.Fabric_ServiceDesc.ServiceName: {Methods: []grpc.MethodInfo{{Name: "Hello"}, {Name: "Forgotten"}}}}
	if err := covered(info, methods); err == nil || !strings.Contains(err.Error(), "Forgotten") {
		t.Errorf("%v", err)
	}
}

// TestAcquireAnswersWhatItHas: a failure after some wants were granted takes nothing from them.
func TestAcquireAnswersWhatItHas(t *testing.T) {
	w := newWorld(t, Config{})
	e := &stopping{left: 2 * acquireBatch}
	w.hub.other = e
	c := w.connect(t)
	wants := make([]rights.Want, 3*acquireBatch)
	for i := range wants {
		wants[i] = rights.Want{Ino: fabric.Ino(i + 1), Right: rights.R}
	}
	g, n, err := c.Acquire(t.Context(), wants)
	if err != nil || len(g) != 2*acquireBatch || len(n) != len(g) || g[len(g)-1].Ino != 2*acquireBatch {
		t.Fatalf("%d, %d, %v", len(g), len(n), err)
	}
	if _, _, err := c.Acquire(t.Context(), wants[len(n):]); !errors.Is(err, fabric.ReadOnly) {
		t.Errorf("the rest: %v", err)
	}
}

// stopping grants so many wants, of small inodes, and then none.
type stopping struct {
	fakeSession
	left int
}

func (s *stopping) Acquire(_ context.Context, w []rights.Want) (g []rights.Grant, n []namespace.Inode, err error) {
	if s.left < len(w) {
		return nil, nil, fabric.ReadOnly
	}
	s.left -= len(w)
	for _, w := range w {
		g, n = append(g, rights.Grant{Ino: w.Ino, Right: w.Right}), append(n, testInode(w.Ino))
	}
	return g, n, nil
}

// chain is a session in which every directory has one entry; inodes are of the largest kind.
type chain struct {
	echoes
	calls, gone int // Lookups; the one that finds its directory gone
}

func (c *chain) Lookup(_ context.Context, dir fabric.Ino, path []string, want int) (g []rights.Grant, found []namespace.Found, err error) {
	if c.calls++; c.calls == c.gone {
		return nil, []namespace.Found{{}}, nil
	}
	at := func(ino fabric.Ino) namespace.Inode {
		n := c.inode(ino)
		n.Type, n.Content = fabric.TypeDir, namespace.Content{}
		g = append(g, rights.Grant{Ino: ino, Right: rights.R | rights.D, Seq: uint64(c.calls)})
		return n
	}
	found = []namespace.Found{{Inode: at(dir)}}
	for i, name := range path {
		found = append(found, namespace.Found{Dir: dir + fabric.Ino(i), Name: name, Inode: at(dir + fabric.Ino(i) + 1)})
	}
	last := &found[len(found)-1]
	last.Blobs = []storage.Blob{{Ref: storage.Ref{Len: 3}, Kind: storage.Chunk, Form: storage.Raw, Data: make([]byte, min(want, 3))}}
	return g, found, nil
}

// TestLongPathsOfLargeDirectories: a lookup whose reply does not fit in a message goes on from
// where it was cut, and grants no right on what it did not bring.
func TestLongPathsOfLargeDirectories(t *testing.T) {
	w := newWorld(t, Config{})
	h := &chain{}
	w.hub.other = h
	c := w.connect(t)
	path := make([]string, 200)
	for i := range path {
		path[i] = fmt.Sprint(i)
	}
	g, found, err := c.Lookup(t.Context(), 1, path, 3)
	if err != nil || len(found) != 201 || h.calls < 3 || h.calls > 8 {
		t.Fatalf("%d steps in %d calls, %v", len(found), h.calls, err)
	}
	for i, f := range found {
		if f.Inode.Ino != fabric.Ino(i+1) || (i > 0 && (f.Name != path[i-1] || f.Dir != fabric.Ino(i))) {
			t.Fatalf("step %d: inode %d, %q in %d", i, f.Inode.Ino, f.Name, f.Dir)
		}
	}
	if len(found[200].Blobs) != 1 {
		t.Error("the first bytes are missing")
	}
	if len(g) != 201+h.calls-1 { // the directory where a reply was cut is in two
		t.Errorf("%d grants in %d calls", len(g), h.calls)
	}
	h.calls, h.gone = 0, 2
	if _, _, err := c.Lookup(t.Context(), 1, path, 3); !errors.Is(err, fabric.Unavailable) {
		t.Errorf("a directory went away between: %v", err)
	}
}
