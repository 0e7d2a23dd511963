package wire

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// Session is one node's session with a namespace, as the hub has it: spoke.Hub says what the
// methods do.
type Session interface {
	Renew(ctx context.Context, dropped fabric.Term, open []fabric.Ino) (rights.Lease, error)
	Acquire(ctx context.Context, w []rights.Want) ([]rights.Grant, []namespace.Inode, error)
	Lookup(ctx context.Context, dir fabric.Ino, path []string, want int) ([]rights.Grant, []namespace.Found, error)
	List(ctx context.Context, dir fabric.Ino, from fabric.Pos, n int) ([]rights.Grant, []namespace.Dirent, bool, error)
	Peek(ctx context.Context, inos []fabric.Ino) ([]namespace.Inode, error)
	Release(ctx context.Context, g []rights.Grant) error
	Events(ctx context.Context) iter.Seq2[rights.Message, error]
	Ack(ctx context.Context, a []rights.Ack) error
	Apply(ctx context.Context, c namespace.Command) ([]rights.Grant, namespace.Result, error)
	StatFS(ctx context.Context) (fabric.Usage, error)
	Close(ctx context.Context) error
	// Blobs is the namespace's content as this session may use it.
	Blobs() storage.Blobs
}

// Deps is what a server asks of the hub. The peer is verified: what it may do is for Deps to say,
// with Denied. Calls overlap.
type Deps interface {
	// Join makes the certificate of a node whose token has this hash (identity.HashSecret). Denied:
	// no such token, used up, too old, or for another spoke.
	Join(ctx context.Context, secretHash [32]byte, spoke, node string, csr []byte) (cert, ca []byte, err error)
	// Site is what the peer's spoke may show, as JSON.
	Site(ctx context.Context, p identity.Peer) ([]byte, error)
	// Open starts a session of p with a namespace; old is as in spoke.Connector.
	Open(ctx context.Context, p identity.Peer, ns string, old namespace.Ticket) (Session, namespace.Ticket, namespace.Info, rights.Lease, error)
	// Resume gives the session of a ticket. Denied: the ticket is not p's, or not granted any more;
	// Fenced: the session has ended. It is asked at each renewal too, so a grant that was taken back
	// ends there at the latest.
	Resume(ctx context.Context, p identity.Peer, ns string, t namespace.Ticket) (Session, error)
}

// Server is the hub's end.
type Server struct {
	cfg  Config
	deps Deps
	grpc *grpc.Server

	mu    sync.Mutex // guards known
	known map[sessionKey]*known
}

type sessionKey struct {
	id    fabric.SessionID
	epoch uint64
}

// known is a session that Deps gave for that peer, namespace and secret.
type known struct {
	key     sessionKey
	peer    identity.Peer
	ns      string
	secret  [32]byte // hash
	session Session
	puts    chan struct{} // one per Put under way
	out     *turnstile
}

// NewServer makes a server that starts nothing. tlsConfig is identity.ServerTLS's, with clients
// without a certificate allowed if nodes shall join. It fails if the table has no entry for a
// method (A52).
func NewServer(cfg Config, tlsConfig *tls.Config, deps Deps) (*Server, error) {
	cfg = cfg.WithDefaults()
	s := &Server{cfg: cfg, deps: deps, known: map[sessionKey]*known{}}
	s.grpc = grpc.NewServer(
		grpc.Creds(newDoorman(credentials.NewTLS(tlsConfig), cfg.MaxStrangers)),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream),
		grpc.StaticStreamWindowSize(cfg.Window), grpc.StaticConnWindowSize(cfg.Window),
		grpc.ReadBufferSize(cfg.Buffer), grpc.WriteBufferSize(cfg.Buffer),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(cfg.Handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: cfg.Keepalive, Timeout: cfg.Keepalive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: cfg.Keepalive / 2, PermitWithoutStream: true}),
	)
	pb.RegisterFabricServer(s.grpc, fabricServer{s: s})
	pb.RegisterChunksServer(s.grpc, chunksServer{s: s})
	if err := covered(s.grpc.GetServiceInfo(), methods); err != nil {
		return nil, err
	}
	return s, nil
}

// Serve answers calls until ctx ends, which ends those under way too; it returns nil then. A server
// serves once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, s.grpc.Stop)
	defer stop()
	err := s.grpc.Serve(netutil.LimitListener(l, s.cfg.MaxConns))
	if ctx.Err() != nil || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	s.grpc.Stop()
	return err
}

// role says who may call a method.
type role uint8

const (
	anyone role = iota + 1 // also without a certificate
	node                   // a spoke node
	owner                  // a spoke node with the ticket of one of its sessions
)

// methods is the table of A52.
var methods = map[string]role{
	pb.Fabric_Hello_FullMethodName:      anyone,
	pb.Fabric_Join_FullMethodName:       anyone,
	pb.Fabric_Site_FullMethodName:       node,
	pb.Fabric_Connect_FullMethodName:    node,
	pb.Fabric_Resume_FullMethodName:     owner,
	pb.Fabric_Renew_FullMethodName:      owner,
	pb.Fabric_Acquire_FullMethodName:    owner,
	pb.Fabric_Lookup_FullMethodName:     owner,
	pb.Fabric_List_FullMethodName:       owner,
	pb.Fabric_Peek_FullMethodName:       owner,
	pb.Fabric_Release_FullMethodName:    owner,
	pb.Fabric_Events_FullMethodName:     owner,
	pb.Fabric_Ack_FullMethodName:        owner,
	pb.Fabric_Apply_FullMethodName:      owner,
	pb.Fabric_StatFS_FullMethodName:     owner,
	pb.Fabric_Close_FullMethodName:      owner,
	pb.Chunks_Fetch_FullMethodName:      owner,
	pb.Chunks_FetchRange_FullMethodName: owner,
	pb.Chunks_Put_FullMethodName:        owner,
	pb.Chunks_Missing_FullMethodName:    owner,
}

// covered says whether the table has an entry for each registered method.
func covered(services map[string]grpc.ServiceInfo, table map[string]role) error {
	for name, info := range services {
		for _, m := range info.Methods {
			if table["/"+name+"/"+m.Name] == 0 {
				return &fabric.Error{Op: "wire", Code: fabric.Internal, Err: fmt.Errorf("no rule says who may call /%s/%s", name, m.Name)}
			}
		}
	}
	return nil
}

// caller is who makes a call, and with which session; the interceptors put it in the context.
type caller struct {
	peer    identity.Peer
	key     sessionKey
	session Session
	puts    chan struct{} // of known
	out     *turnstile    // of known
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// admit applies the table.
func (s *Server) admit(ctx context.Context, method string) (context.Context, error) {
	role := methods[method]
	if role == anyone {
		return ctx, nil
	}
	if role == 0 {
		return nil, fabric.Denied
	}
	p, err := peerOf(ctx)
	if err != nil {
		return nil, err
	}
	c := caller{peer: p}
	if role == owner {
		// A renewal asks anew whether the node is still granted this.
		k, err := s.session(ctx, p, method == pb.Fabric_Renew_FullMethodName)
		if err != nil {
			return nil, err
		}
		c.key, c.session, c.puts, c.out = k.key, k.session, k.puts, k.out
	}
	return context.WithValue(ctx, callerKey{}, c), nil
}

// peerOf is the spoke node at the other end, whose certificate is valid now.
func peerOf(ctx context.Context) (identity.Peer, error) {
	denied := func(err error) (identity.Peer, error) {
		return identity.Peer{}, &fabric.Error{Op: "call", Code: fabric.Denied, Err: err}
	}
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return denied(errors.New("no peer"))
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return denied(errors.New("no TLS"))
	}
	who, err := identity.PeerOf(info.State)
	if err != nil {
		return denied(err)
	}
	if time.Now().After(info.State.PeerCertificates[0].NotAfter) { // connections live long
		return denied(errors.New("the certificate has expired"))
	}
	return who, nil
}

// session finds the session of the ticket in a call's metadata; anew: it asks Deps in any case.
func (s *Server) session(ctx context.Context, p identity.Peer, anew bool) (*known, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	ticket, ns := md.Get(ticketKey), md.Get(namespaceKey)
	if len(ticket) != 1 || len(ns) != 1 {
		return nil, &fabric.Error{Op: "session", Code: fabric.Denied, Err: errors.New("no ticket")}
	}
	t, err := namespace.DecodeTicket([]byte(ticket[0]))
	if err != nil {
		return nil, err
	}
	want := s.newKnown(p, ns[0], t, nil)
	s.mu.Lock()
	k := s.known[want.key]
	s.mu.Unlock()
	if k != nil {
		if k.peer != p || k.ns != want.ns || subtle.ConstantTimeCompare(k.secret[:], want.secret[:]) != 1 {
			return nil, &fabric.Error{Op: "session", Code: fabric.Denied, Err: errors.New("not the caller's session")}
		}
		if !anew {
			return k, nil
		}
		want.puts, want.out = k.puts, k.out
	}
	if want.session, err = s.deps.Resume(ctx, p, want.ns, t); err != nil {
		if k != nil {
			s.forget(k.key)
		}
		return nil, err
	}
	s.remember(want)
	return want, nil
}

func (s *Server) newKnown(p identity.Peer, ns string, t namespace.Ticket, session Session) *known {
	return &known{key: sessionKey{t.Session, t.Epoch}, peer: p, ns: ns, secret: sha256.Sum256(t.Secret[:]),
		session: session, puts: make(chan struct{}, s.cfg.MaxPuts), out: newTurnstile()}
}

// remember keeps a session at hand; when there are too many another is dropped, which Deps gives
// again when it is asked for.
func (s *Server) remember(k *known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[k.key] == nil && len(s.known) >= s.cfg.MaxSessions {
		for other := range s.known { // any one
			delete(s.known, other)
			break
		}
	}
	s.known[k.key] = k
}

func (s *Server) forget(key sessionKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

// after drops a session that has ended, or belongs to a term that has: Deps says what is so now.
func (s *Server) after(ctx context.Context, err error) {
	if err == nil {
		return
	}
	c := callerOf(ctx)
	if c.session == nil {
		return
	}
	if errors.Is(err, fabric.Unavailable) || errors.Is(err, fabric.Fenced) ||
		errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrDenied) {
		s.forget(c.key)
	}
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	blobs := info.FullMethod == pb.Chunks_Missing_FullMethodName
	ctx, err := s.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, toStatus(err, blobs)
	}
	res, err := h(ctx, req)
	if err != nil {
		s.after(ctx, err)
		return nil, toStatus(err, blobs)
	}
	compressReply(ctx, info.FullMethod, res)
	return res, nil
}

func (s *Server) stream(_ any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	blobs := info.FullMethod != pb.Fabric_Events_FullMethodName
	ctx, err := s.admit(ss.Context(), info.FullMethod)
	if err != nil {
		return toStatus(err, blobs)
	}
	err = h(s.serviceOf(info.FullMethod), &admitted{ServerStream: ss, ctx: ctx})
	s.after(ctx, err)
	return toStatus(err, blobs)
}

// serviceOf is what implements a stream's method.
func (s *Server) serviceOf(method string) any {
	if method == pb.Fabric_Events_FullMethodName {
		return fabricServer{s: s}
	}
	return chunksServer{s: s}
}

// admitted is a stream whose context knows the caller.
type admitted struct {
	grpc.ServerStream
	ctx context.Context
}

func (a *admitted) Context() context.Context { return a.ctx }
