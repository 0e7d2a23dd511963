package nfs

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// Server serves portals over NFSv3. New starts nothing; Serve and ServePortmap own goroutines and
// end them before they return. Several Serve may run at once.
type Server struct {
	cfg     Config
	portals fabric.Portals
	log     *slog.Logger
	mem     *memory
	files   *files
	mounts  mounts
	// requests keeps *request with its reply's memory, which MaxList bounds.
	requests sync.Pool

	mu      sync.Mutex // guards what follows
	clients map[netip.Addr]int
	total   int
}

// New makes a server of the given portals.
func New(cfg Config, portals fabric.Portals, log *slog.Logger) *Server {
	cfg = cfg.WithDefaults()
	return &Server{
		cfg: cfg, portals: portals, log: log,
		mem:      newMemory(cfg.MaxRecord, cfg.Memory),
		files:    newFiles(cfg.OpenFiles, cfg.IdleFile),
		clients:  map[netip.Addr]int{},
		requests: sync.Pool{New: func() any { return &request{out: enc{make([]byte, 0, 320)}} }},
	}
}

// Serve answers NFS and MOUNT on l until ctx ends or l fails; it closes l, waits for what runs,
// and returns nil if ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var done sync.WaitGroup
	done.Go(func() { s.files.run(ctx) })
	all := programs{programNFS: {3, 3, s.nfs}, programMount: {3, 3, s.mount}}
	err := s.listen(ctx, l, func(ctx context.Context, r *request, record []byte) bool { return r.run(ctx, record, all) })
	cancel()
	done.Wait()
	s.files.closeAll()
	return err
}

// answerer makes the reply to one record in r.out, whose first markSize bytes are left for the
// record mark; false if there is nobody to answer, which ends the connection.
type answerer func(ctx context.Context, r *request, record []byte) bool

// listen accepts connections and serves them.
func (s *Server) listen(ctx context.Context, l net.Listener, answer answerer) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	// ends is for connections. Accept's error is judged by ctx itself, which is over before l is
	// closed; a context made of it may be so only after.
	ends, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	for pause := time.Duration(0); ; {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			// Such as too many open files: it passes.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("nfs: accept", "error", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			continue
		}
		pause = 0
		from := addrOf(c.RemoteAddr())
		if !s.enter(from) {
			s.log.Warn("nfs: too many connections", "client", from)
			c.Close()
			continue
		}
		done.Go(func() {
			defer s.leave(from)
			s.serve(ends, c, from, answer)
		})
	}
}

func addrOf(a net.Addr) netip.Addr {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}

// enter counts a connection, or refuses it.
func (s *Server) enter(from netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= s.cfg.Connections || s.clients[from] >= s.cfg.PerClient {
		return false
	}
	s.total++
	s.clients[from]++
	return true
}

func (s *Server) leave(from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.clients[from]--; s.clients[from] == 0 {
		delete(s.clients, from)
	}
}

// conn is one connection.
type conn struct {
	s      *Server
	net    net.Conn
	from   netip.Addr
	answer answerer

	write sync.Mutex // one reply at a time; held across the write
}

// serve reads calls until the connection ends, and runs each on its own goroutine.
func (s *Server) serve(ctx context.Context, nc net.Conn, from netip.Addr, answer answerer) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	c := &conn{s: s, net: nc, from: from, answer: answer}
	slots := make(chan struct{}, s.cfg.Outstanding)
	var done sync.WaitGroup
	defer nc.Close()
	defer done.Wait()
	defer cancel()
	in := bufio.NewReaderSize(nc, 512) // what is larger is read past it
	records := newRecordReader(in, s.cfg)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		b, record, err := s.record(ctx, nc, in, records)
		if err != nil {
			if errors.Is(err, errRecordTooLong) || errors.Is(err, errFragments) || errors.Is(err, errRecordEmpty) {
				s.log.Warn("nfs: connection closed", "client", from, "error", err)
			}
			return
		}
		done.Go(func() {
			defer func() { <-slots }()
			defer s.mem.free(b)
			if err := c.call(ctx, record); err != nil {
				nc.Close() // the reader ends too
			}
		})
	}
}

// record waits for the next record and gives it in a block. A client may be silent for ever, but not
// within a record, and holds no memory while it is.
func (s *Server) record(ctx context.Context, nc net.Conn, in *bufio.Reader, records *recordReader) (*block, []byte, error) {
	nc.SetReadDeadline(time.Time{})
	mark, err := in.Peek(markSize)
	if err != nil {
		return nil, nil, err
	}
	nc.SetReadDeadline(time.Now().Add(s.cfg.RecordTime))
	record, err := records.next(s.mem.spare(int(binary.BigEndian.Uint32(mark) & 0x7fffffff)))
	if err != nil {
		return nil, nil, err
	}
	b, err := s.mem.adopt(ctx, record)
	return b, record, err
}

// call answers one record; an error ends the connection.
func (c *conn) call(ctx context.Context, record []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.Stuck)
	defer cancel()
	r := c.s.requests.Get().(*request)
	*r = request{s: c.s, from: c.from, out: enc{r.out.p[:0]}}
	defer c.s.requests.Put(r)
	if !c.answer(ctx, r, record) {
		return errNotCall
	}
	defer func() { c.s.mem.free(r.data) }()
	r.mark()
	c.write.Lock()
	defer c.write.Unlock()
	c.net.SetWriteDeadline(time.Now().Add(c.s.cfg.RecordTime))
	if r.payload == nil {
		_, err := c.net.Write(r.out.p)
		return err
	}
	// One system call: the header, the bytes as they were read, and the padding.
	bufs := net.Buffers{r.out.p, r.payload, zeros[:pad(len(r.payload))]}
	_, err := bufs.WriteTo(c.net)
	return err
}
