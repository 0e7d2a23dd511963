package wire

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
)

// rawPeer speaks HTTP/2 by hand, with a node's certificate and its session's ticket.
type rawPeer struct {
	*http2.Framer
	conn   net.Conn
	next   uint32 // stream
	head   bytes.Buffer
	enc    *hpack.Encoder
	ticket string
}

func (w *world) raw(t *testing.T) *rawPeer {
	t.Helper()
	tlsConfig := identity.ClientTLS(w.id)
	tlsConfig.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", w.addr, tlsConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &rawPeer{Framer: http2.NewFramer(conn, conn), conn: conn, next: 1,
		ticket: base64.RawStdEncoding.EncodeToString(namespace.AppendTicket(nil, &w.hub.ticket))}
	p.enc = hpack.NewEncoder(&p.head)
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return p
}

// block encodes the headers of a call, and more.
func (p *rawPeer) block(path string, more ...hpack.HeaderField) []byte {
	p.head.Reset()
	for _, f := range append([]hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"},
		{Name: ":path", Value: path}, {Name: ":authority", Value: "hub"}, {Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"}, {Name: ticketKey, Value: p.ticket},
		{Name: namespaceKey, Value: base64.RawStdEncoding.EncodeToString([]byte(testNamespace))}}, more...) {
		p.enc.WriteField(f)
	}
	return p.head.Bytes()
}

// open sends the headers of a call; the error is the connection's.
func (p *rawPeer) open(path string, more ...hpack.HeaderField) (stream uint32, err error) {
	stream = p.next
	p.next += 2
	return stream, p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.block(path, more...), EndHeaders: true})
}

// outcome reads until a stream ends and says how: its gRPC or HTTP status, "reset", or "closed" if
// the connection ended.
func (p *rawPeer) outcome(stream uint32) string {
	status := ""
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" || (h.Name == ":status" && h.Value != "200") {
					status = h.Name + " " + h.Value
				}
			}
			if f.StreamID == stream && f.StreamEnded() {
				return status
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return "reset"
			}
		}
	}
}

// call makes one call with a message as it is.
func (p *rawPeer) call(path string, message []byte) string {
	stream, err := p.open(path)
	if err != nil {
		return "closed"
	}
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	for part := range slices.Chunk(body, 16<<10) {
		body = body[len(part):]
		if p.WriteData(stream, len(body) == 0, part) != nil {
			return "closed"
		}
	}
	return p.outcome(stream)
}

// untouched runs an attack: the session is asked nothing, and the server serves others on.
func untouched(t *testing.T, attack func(t *testing.T, w *world)) {
	t.Helper()
	w := newWorld(t, Config{})
	c := w.connect(t)
	attack(t, w)
	w.hub.session.mu.Lock()
	if w.hub.session.calls != 0 {
		t.Errorf("the session was asked %v", w.hub.session.asked)
	}
	w.hub.session.mu.Unlock()
	if _, err := c.StatFS(t.Context()); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
	if got := w.raw(t).call(pb.Fabric_StatFS_FullMethodName, nil); got != "grpc-status 0" {
		t.Errorf("a good call by hand: %q", got)
	}
}

// TestPaths (D38): only the one spelling of a method is one.
func TestPaths(t *testing.T) {
	untouched(t, func(t *testing.T, w *world) {
		good := pb.Fabric_StatFS_FullMethodName
		for _, path := range []string{good[1:], "/" + good, good + "/", strings.ToLower(good), strings.ToUpper(good),
			strings.Replace(good, "/StatFS", "//StatFS", 1), good + "?x=1", "/x/.." + good, strings.Replace(good, "S", "%53", 1), "", "/", "*"} {
			if got := w.raw(t).call(path, nil); got == "" || got == "grpc-status 0" {
				t.Errorf("%q: %q", path, got)
			}
		}
	})
}

// TestBadMessages (D45): what is not the message is refused with gRPC's reason.
func TestBadMessages(t *testing.T) {
	nested := bytes.Repeat(protowire.AppendTag(nil, 15, protowire.StartGroupType), 11000)
	twice := append(mustMarshal(t, &pb.ConnectRequest{Namespace: "other"}), mustMarshal(t, &pb.ConnectRequest{Namespace: "other"})...)
	huge := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), 1<<31-1)
	const internal, problem = "grpc-status 13", "grpc-status 2"
	untouched(t, func(t *testing.T, w *world) {
		for name, c := range map[string]struct {
			path, want string
			message    []byte
		}{
			"deep":             {pb.Fabric_Acquire_FullMethodName, internal, nested},
			"2 GiB of a field": {pb.Fabric_Acquire_FullMethodName, internal, huge},
			"invalid UTF-8":    {pb.Fabric_Connect_FullMethodName, internal, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "\xff\xfe")},
			"a cut field":      {pb.Fabric_Apply_FullMethodName, internal, []byte{0x0a, 9, 1}},
			"field 0":          {pb.Fabric_Apply_FullMethodName, internal, []byte{2, 0}},
			"a long varint":    {pb.Fabric_List_FullMethodName, internal, bytes.Repeat([]byte{0xff}, 20)},
			"doubled":          {pb.Fabric_Connect_FullMethodName, "grpc-status 7", twice}, // the last counts
			"not a command":    {pb.Fabric_Apply_FullMethodName, problem, mustMarshal(t, &pb.ApplyRequest{Command: random(99)})},
			"refs cut":         {pb.Chunks_Missing_FullMethodName, problem, mustMarshal(t, &pb.MissingRequest{Refs: random(35)})},
			"too many names":   {pb.Fabric_Lookup_FullMethodName, problem, mustMarshal(t, &pb.LookupRequest{Path: make([][]byte, 65537)})},
			"no class":         {pb.Chunks_Fetch_FullMethodName, problem, mustMarshal(t, &pb.FetchRequest{Class: 5})},
			"frames":           {pb.Chunks_Fetch_FullMethodName, internal, nested},
		} {
			if got := w.raw(t).call(c.path, c.message); got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
		// A message that says it has 2 GiB, or is packed though nothing says how.
		for name, c := range map[string]struct {
			head []byte
			want string
		}{"2 GiB": {[]byte{0, 0x80, 0, 0, 0}, "grpc-status 8"}, "packed": {[]byte{1, 0, 0, 0, 0}, internal}} {
			p := w.raw(t)
			stream, err := p.open(pb.Fabric_StatFS_FullMethodName)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.WriteData(stream, true, c.head); err != nil {
				t.Fatal(err)
			}
			if got := p.outcome(stream); got != c.want {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	p, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestUnknownFields (D45): a newer node may say more.
func TestUnknownFields(t *testing.T) {
	w := newWorld(t, Config{})
	w.connect(t)
	m := protowire.AppendString(protowire.AppendTag(mustMarshal(t, &pb.ListRequest{Dir: 1, N: 7}), 99, protowire.BytesType), "new")
	if got := w.raw(t).call(pb.Fabric_List_FullMethodName, m); got != "grpc-status 0" || w.hub.session.calls != 1 {
		t.Errorf("%q, %d calls", got, w.hub.session.calls)
	}
}

// TestBytewise (D44): a message in pieces of one byte is one.
func TestBytewise(t *testing.T) {
	w := newWorld(t, Config{})
	w.connect(t)
	p := w.raw(t)
	stream, err := p.open(pb.Fabric_Lookup_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	m := mustMarshal(t, &pb.LookupRequest{Dir: 1, Path: [][]byte{random(2000)}})
	m = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
	for i := range m {
		if err := p.WriteData(stream, i == len(m)-1, m[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.outcome(stream); got != "grpc-status 0" || w.hub.session.calls != 1 {
		t.Errorf("%q, %d calls", got, w.hub.session.calls)
	}
}

// TestFloods (D44): each ends its own connection, or costs nothing.
func TestFloods(t *testing.T) {
	for name, flood := range map[string]func(p *rawPeer) error{
		"headers without end": func(p *rawPeer) error {
			block := p.block(pb.Fabric_StatFS_FullMethodName)
			if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block}); err != nil {
				return err
			}
			for i := range 1 << 20 {
				p.head.Reset()
				p.enc.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: strings.Repeat("v", 1000), Sensitive: true})
				if err := p.WriteContinuation(1, false, p.head.Bytes()); err != nil {
					return err
				}
			}
			return nil
		},
		"pings": func(p *rawPeer) error {
			for range 1_000_000 {
				if err := p.WritePing(false, [8]byte{1}); err != nil {
					return err
				}
			}
			return nil
		},
		"frames that are too long": func(p *rawPeer) error {
			for {
				if err := p.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			untouched(t, func(t *testing.T, w *world) {
				p := w.raw(t)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for {
						if _, err := p.ReadFrame(); err != nil {
							return
						}
					}
				}()
				err := flood(p)
				<-ended // by the server; it may give us a second to read why
				t.Log(err)
			})
		})
	}
}

// TestHeaderBomb (D44): few bytes that mean many headers.
func TestHeaderBomb(t *testing.T) {
	untouched(t, func(t *testing.T, w *world) {
		for _, n := range []int{10, 4000} { // after the first of them, one byte each
			p := w.raw(t)
			bomb := make([]hpack.HeaderField, n)
			for i := range bomb {
				bomb[i] = hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("b", 2000)}
			}
			stream, err := p.open(pb.Fabric_StatFS_FullMethodName, bomb...)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.WriteData(stream, true, make([]byte, 5)); err != nil {
				continue // the connection is over
			}
			if got := p.outcome(stream); got == "grpc-status 0" || got == "" {
				t.Errorf("%d: %q", n, got)
			}
		}
	})
}

// TestRapidReset (D44): calls that are taken back at once.
func TestRapidReset(t *testing.T) {
	untouched(t, func(t *testing.T, w *world) {
		p := w.raw(t)
		go func() {
			for {
				if _, err := p.ReadFrame(); err != nil {
					return
				}
			}
		}()
		for range 20_000 {
			stream, err := p.open(pb.Fabric_StatFS_FullMethodName)
			if err != nil {
				return // the server has ended it
			}
			if p.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
				return
			}
		}
	})
}

// TestSlowHandshakes: who does not get on with the handshake is cut off, and holds nobody up.
func TestSlowHandshakes(t *testing.T) {
	untouched(t, func(t *testing.T, w *world) {
		for range 50 {
			c, err := net.Dial("tcp", w.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte{22, 3, 1}); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.raw(t).call(pb.Fabric_Hello_FullMethodName, mustMarshal(t, &pb.HelloRequest{Min: 1, Max: 9})); got != "grpc-status 0" {
			t.Errorf("another caller meanwhile: %q", got)
		}
	})
}

// TestStalledHandshake: it ends, and so does the connection.
func TestStalledHandshake(t *testing.T) {
	hub, _ := newHub(t)
	addr, _ := serve(t, Config{Handshake: 50 * time.Millisecond}, hub, "127.0.0.1:0")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, _ := io.Copy(io.Discard, c); n != 0 { // until the server ends it
		t.Errorf("%d bytes", n)
	}
}
