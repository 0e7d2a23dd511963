package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// meter is a link that counts what crosses it.
type meter struct{ sent, received atomic.Int64 }

type metered struct {
	net.Conn
	m *meter
}

func (m *meter) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	return &metered{c, m}, err
}

func (c *metered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.m.received.Add(int64(n))
	return n, err
}

func (c *metered) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.m.sent.Add(int64(n))
	return n, err
}

// prose is n bytes that compress well, others for each seed.
func prose(seed, n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "func (s *session%d) step%d(ctx context.Context) error {\n\treturn s.next(ctx, %d)\n}\n", seed, i, i*seed)
	}
	return b.Bytes()[:n]
}

func TestMetadataIsCompressed(t *testing.T) {
	w := newWorld(t, Config{})
	var link meter
	w.client = w.dial(t, Config{Dialer: link.dial}, w.id)
	c, s := w.connect(t), w.hub.session
	raw := 0
	for i := range 100 {
		n := testInode(fabric.Ino(i + 10))
		n.Content.Inline = prose(i, 8<<10)
		raw += len(n.Content.Inline)
		s.page = append(s.page, namespace.Dirent{Name: fmt.Sprint(i), Cookie: fabric.Cookie(i + 3), Inode: n})
	}
	s.found = []namespace.Found{{Inode: s.page[0].Inode}}
	s.inodes = []namespace.Inode{s.page[0].Inode, s.page[1].Inode}
	moved := func(what string, raw int, n *atomic.Int64, call func() error) {
		t.Helper()
		before := n.Load()
		if err := call(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := n.Load() - before; got > int64(raw)/3 {
			t.Errorf("%s: %d bytes for %d", what, got, raw)
		}
	}
	moved("List", raw, &link.received, func() error {
		_, page, _, err := c.List(t.Context(), 1, fabric.Pos{}, 100)
		same(t, "List", page, s.page)
		return err
	})
	moved("Lookup", 8<<10, &link.received, func() error {
		_, found, err := c.Lookup(t.Context(), 1, nil, 0)
		same(t, "Lookup", found, s.found)
		return err
	})
	moved("Peek", 16<<10, &link.received, func() error {
		n, err := c.Peek(t.Context(), []fabric.Ino{10, 11})
		same(t, "Peek", n, s.inodes)
		return err
	})
	cmd := namespace.Command{From: namespace.Origin{Session: fabric.SessionID{1, 2}, Epoch: 7, Slot: 3, Seq: 4},
		Ops: []namespace.Op{&namespace.SetXattr{Ino: 5, Name: "user.x", Value: prose(7, 4000)}}}
	moved("Apply", 4000, &link.sent, func() error {
		_, _, err := c.Apply(t.Context(), cmd)
		same(t, "Apply", s.asked, []any{"apply", cmd})
		return err
	})
	if st := w.client.Stats(); st.Received != link.received.Load() || st.Sent != link.sent.Load() {
		t.Errorf("counted %d, %d; the link had %d, %d", st.Sent, st.Received, link.sent.Load(), link.received.Load())
	}
}

// TestWhatIsNotCompressed: small messages, and content, which has its stored form.
func TestWhatIsNotCompressed(t *testing.T) {
	small, large := &pb.ListReply{Page: [][]byte{make([]byte, minCompress-10)}}, &pb.ListReply{Page: [][]byte{make([]byte, minCompress)}}
	if worthwhile(pb.Fabric_List_FullMethodName, small) || !worthwhile(pb.Fabric_List_FullMethodName, large) {
		t.Error("the limit is another")
	}
	if worthwhile(pb.Chunks_Missing_FullMethodName, &pb.MissingReply{Refs: make([]byte, 1<<20)}) {
		t.Error("digests are compressed")
	}
	w := newWorld(t, Config{})
	c := w.connect(t)
	b := storage.Blob{Kind: storage.Chunk, Form: storage.Raw, Data: make([]byte, 1<<20)}
	b.Ref = w.hasher.Seal(storage.Chunk, b.Data, nil).Ref
	before := w.client.Stats().Sent
	if err := c.Blobs().Put(t.Context(), storage.Upload, []storage.Blob{b}); err != nil {
		t.Fatal(err)
	}
	if n := w.client.Stats().Sent - before; n < 1<<20 {
		t.Errorf("a blob of 1 MiB went as %d bytes", n)
	}
}

// stuffed is a compressor of a client's that sends a frame of its own instead of the message.
type stuffed struct{ frame []byte }

func (s stuffed) Type() string { return compressor }

func (s stuffed) Do(w io.Writer, _ []byte) error {
	_, err := w.Write(s.frame)
	return err
}

// badFrames are compressed messages that are refused, and what gRPC calls that.
func badFrames(t *testing.T) map[string]struct {
	frame []byte
	code  codes.Code
} {
	enc := func(n int, o ...zstd.EOption) []byte {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, o...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(z, endless{}, int64(n)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	bomb := e.EncodeAll(make([]byte, 64<<20), nil)
	short := e.EncodeAll(make([]byte, 4<<10), nil)
	claims := bytes.Clone(short) // says that it is one byte, and is more
	var h zstd.Header
	if err := h.Decode(claims); err != nil || h.FrameContentSize != 4<<10 {
		t.Fatalf("%+v, %v", h, err)
	}
	claims[h.HeaderSize-2], claims[h.HeaderSize-1] = 1, 0
	type bad = struct {
		frame []byte
		code  codes.Code
	}
	return map[string]bad{
		"a bomb":                {bomb, codes.ResourceExhausted},
		"8 EiB":                 {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 0}, codes.ResourceExhausted},
		"no length":             {enc(9 << 20), codes.Internal},
		"more than it says":     {claims, codes.Internal},
		"a second frame":        {append(bytes.Clone(short), short...), codes.Internal},
		"cut":                   {short[:len(short)-1], codes.Internal},
		"a skippable frame":     {append([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9}, short...), codes.Internal},
		"an unknown dictionary": {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 1, 9, 0, 0, 1}, codes.Internal},
		"nothing":               {[]byte{}, codes.Internal},
		"garbage":               {[]byte(strings.Repeat("x", 99)), codes.Internal},
	}
}

func TestBadCompression(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t)
	calls := w.hub.session.calls
	good := encoding.GetCompressor(compressor)
	for name, bad := range badFrames(t) {
		// By itself, as a client does with what a server sends.
		r, err := good.Decompress(bytes.NewReader(bad.frame))
		if bad.code == codes.Internal && err == nil {
			t.Errorf("%s: %T", name, r)
		}
		if _, long := r.(endless); bad.code == codes.ResourceExhausted && !long {
			t.Errorf("%s: %T, %v", name, r, err)
		}
		// Through a call. The server gives the caller its reason, and serves on.
		cc, err := grpc.NewClient("passthrough:///"+w.addr, grpc.WithTransportCredentials(credentials.NewTLS(identity.ClientTLS(w.id))),
			//lint:ignore SA1019 the only way to send what no compressor makes
			grpc.WithCompressor(stuffed{bad.frame}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = pb.NewFabricClient(cc).Apply(c.with(t.Context()), &pb.ApplyRequest{Command: make([]byte, 99)})
		if status.Code(err) != bad.code {
			t.Errorf("%s: %v", name, err)
		}
		cc.Close()
	}
	if w.hub.session.calls != calls {
		t.Errorf("the session was asked %v", w.hub.session.asked)
	}
	if _, err := c.StatFS(t.Context()); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
}
