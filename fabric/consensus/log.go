package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage/disk"
)

// Machine applies what is committed. One goroutine at a time calls it.
type Machine interface {
	// Apply carries out committed commands, several of which may share an index, as one batch with
	// the last index in it, and returns a result each. Indexes up to Applied()'s value at the call
	// were carried out before: they get a nil result.
	Apply(indexes []uint64, cmds [][]byte) [][]byte
	// Applied is the index of the last command carried out and flushed or not.
	Applied() uint64
	// Checkpoint makes all that is applied durable, and a copy of it under that name.
	Checkpoint(name string) error
	// Restore replaces the state by a checkpoint.
	Restore(name string) error
	// Forget removes a checkpoint; a missing one is success.
	Forget(name string) error
}

// Voter is one member of the group.
type Voter struct {
	ID   string // the hub node's name
	Addr string // where its peers reach it
}

// Config of one group's log. WithDefaults fills zero fields.
type Config struct {
	// Group names the group on the shared listener.
	Group string
	// Node is this hub node's name.
	Node string
	// Voters is the first configuration, used if there is no log yet.
	Voters []Voter
	// Election is how long a follower waits for its leader; failover is about twice that.
	// Default 500ms: three of them are within the 3 s of figure F13.
	Election time.Duration
	// MaxEntry bounds the bytes of one coalesced entry. Default 1 MiB, a command's own limit.
	MaxEntry int
	// MaxQueue bounds the proposals waiting; more wait at the door. Default 4096.
	MaxQueue int
	// MaxInFlight bounds the entries proposed and not committed. Default 4: while they are written
	// the next gathers commands.
	MaxInFlight int
	// SnapshotEvery is the number of entries between snapshots. Default 50,000.
	SnapshotEvery uint64
	// Trailing is the number of entries kept after a snapshot for followers that lag. Default 100,000.
	Trailing uint64
}

// WithDefaults returns c with its zero fields filled.
func (c Config) WithDefaults() Config {
	if c.Election == 0 {
		c.Election = 500 * time.Millisecond
	}
	if c.MaxEntry == 0 {
		c.MaxEntry = 1 << 20
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = 4096
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 4
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = 50_000
	}
	if c.Trailing == 0 {
		c.Trailing = 100_000
	}
	return c
}

// Deps are the edges of a Log.
type Deps struct {
	// Disk holds the Raft log. It must have a path: raft-wal opens its own files.
	Disk disk.Dir
	// Stream reaches the group's other nodes; Mux makes one from a shared listener.
	Stream raft.StreamLayer
	// Fatal is called when the log cannot be written; it must not return.
	Fatal func(error)
	Slog  *slog.Logger
}

// Log is one group's log on this node. It implements hub.Log.
type Log struct {
	cfg       Config
	raft      *raft.Raft
	wal       *wal.WAL
	transport *raft.NetworkTransport
	proposals chan *proposal
	inFlight  chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc
	done      sync.WaitGroup

	mu       sync.Mutex // guards the standing below
	ours     bool
	standing chan struct{} // closed when ours or the term changes
}

// proposal waits in the queue. A nil cmd is a barrier.
type proposal struct {
	cmd    []byte
	answer chan answer // has room for one
}

type answer struct {
	result []byte
	err    error
}

// New opens the log, or makes it, and starts taking part in the group.
func New(cfg Config, m Machine, deps Deps) (*Log, error) {
	cfg = cfg.WithDefaults()
	if deps.Disk.Path() == "" {
		return nil, fmt.Errorf("consensus: the disk of group %s has no path", cfg.Group)
	}
	logger := newLogger(deps.Slog)
	w, err := wal.Open(deps.Disk.Path(), wal.WithLogger(logger), wal.WithSegmentSize(16<<20))
	if err != nil {
		return nil, fmt.Errorf("consensus: group %s: %w", cfg.Group, err)
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(filepath.Join(deps.Disk.Path(), "snapshots"), 2, logger)
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("consensus: group %s: %w", cfg.Group, err)
	}
	transport := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: deps.Stream, MaxPool: 4, MaxRPCsInFlight: 16, Timeout: 10 * time.Second, Logger: logger,
	})
	l := &Log{
		cfg: cfg, wal: w, transport: transport,
		proposals: make(chan *proposal, cfg.MaxQueue),
		inFlight:  make(chan struct{}, cfg.MaxInFlight),
		standing:  make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if err := l.start(m, durable{w, deps.Fatal}, snaps, logger); err != nil {
		transport.Close()
		w.Close()
		return nil, fmt.Errorf("consensus: group %s: %w", cfg.Group, err)
	}
	return l, nil
}

// start bootstraps a group that has no log yet and starts raft, the proposer and the watcher.
func (l *Log) start(m Machine, store durable, snaps raft.SnapshotStore, logger hclogger) error {
	led := make(chan bool, 16)
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(l.cfg.Node)
	conf.HeartbeatTimeout, conf.ElectionTimeout = l.cfg.Election, l.cfg.Election
	conf.LeaderLeaseTimeout = l.cfg.Election / 2
	conf.BatchApplyCh, conf.MaxAppendEntries = true, 512
	conf.SnapshotThreshold, conf.TrailingLogs = l.cfg.SnapshotEvery, l.cfg.Trailing
	conf.SnapshotInterval = 30 * time.Second
	conf.NoSnapshotRestoreOnStart = true // the machine's own store is at least as new
	conf.NotifyCh, conf.Logger = led, logger

	exists, err := raft.HasExistingState(store, store, snaps)
	if err != nil {
		return err
	}
	if !exists {
		var first raft.Configuration
		for _, v := range l.cfg.Voters {
			first.Servers = append(first.Servers, raft.Server{ID: raft.ServerID(v.ID), Address: raft.ServerAddress(v.Addr)})
		}
		if err := raft.BootstrapCluster(conf, store, store, snaps, l.transport, first); err != nil {
			return err
		}
	}
	r, err := raft.NewRaft(conf, &fsm{machine: m}, store, store, snaps, l.transport)
	if err != nil {
		return err
	}
	l.raft = r
	l.done.Go(l.propose)
	l.done.Go(func() { l.watch(led) })
	return nil
}

// durable makes a failed write of the log the end of the process (A28).
type durable struct {
	*wal.WAL
	fatal func(error)
}

// StoreLog implements raft.LogStore.
func (d durable) StoreLog(e *raft.Log) error { return d.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore.
func (d durable) StoreLogs(e []*raft.Log) error {
	err := d.WAL.StoreLogs(e)
	if err != nil && !errors.Is(err, wal.ErrClosed) {
		d.fatal(fmt.Errorf("raft log: %w", err))
	}
	return err
}

// watch keeps the standing: whether we lead.
func (l *Log) watch(led <-chan bool) {
	for {
		select {
		case ours := <-led:
			l.mu.Lock()
			l.ours = ours
			close(l.standing)
			l.standing = make(chan struct{})
			l.mu.Unlock()
		case <-l.ctx.Done():
			return
		}
	}
}

// Leading implements hub.Log: the term, whether we lead it, and a channel closed when that changes.
func (l *Log) Leading() (t fabric.Term, ours bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fabric.Term(l.raft.CurrentTerm()), l.ours && l.raft.State() == raft.Leader, l.standing
}

// Leader is the address of the node that leads, "" if none is known.
func (l *Log) Leader() string {
	addr, _ := l.raft.LeaderWithID()
	return string(addr)
}

// Propose implements hub.Log: it returns the result of cmd, applied here. Unavailable: it was not
// proposed. Unknown: it may have been; send the same bytes again.
func (l *Log) Propose(ctx context.Context, cmd []byte) ([]byte, error) {
	if len(cmd) == 0 || len(cmd) > l.cfg.MaxEntry {
		return nil, &fabric.Error{Op: "propose", Code: fabric.Invalid, Err: fmt.Errorf("command of %d bytes", len(cmd))}
	}
	return l.enqueue(ctx, &proposal{cmd: cmd, answer: make(chan answer, 1)})
}

// Barrier implements hub.Log: it returns once an entry proposed after the call is applied here.
func (l *Log) Barrier(ctx context.Context) error {
	_, err := l.enqueue(ctx, &proposal{answer: make(chan answer, 1)})
	return err
}

func (l *Log) enqueue(ctx context.Context, p *proposal) ([]byte, error) {
	select {
	case l.proposals <- p:
	case <-ctx.Done():
		return nil, &fabric.Error{Op: "propose", Code: fabric.Canceled, Err: ctx.Err()}
	case <-l.ctx.Done():
		return nil, &fabric.Error{Op: "propose", Code: fabric.Unavailable}
	}
	select {
	case a := <-p.answer:
		return a.result, a.err
	case <-ctx.Done():
		return nil, &fabric.Error{Op: "propose", Code: fabric.Unknown, Err: ctx.Err()}
	case <-l.ctx.Done():
		return nil, &fabric.Error{Op: "propose", Code: fabric.Unknown}
	}
}

// propose gathers what waits into entries. The place in flight is taken first, so that commands
// gather while the log is busy and go out one by one while it is not.
func (l *Log) propose() {
	for {
		select {
		case l.inFlight <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		batch := l.gather()
		if batch == nil {
			return
		}
		future := l.raft.Apply(encodeBatch(batch), l.cfg.Election)
		l.done.Go(func() {
			settle(batch, future)
			<-l.inFlight
		})
	}
}

// gather waits for a proposal and takes all others then waiting that fit; nil at the end.
func (l *Log) gather() []*proposal {
	var batch []*proposal
	size := 0
	for {
		var p *proposal
		if batch == nil {
			select {
			case p = <-l.proposals:
			case <-l.ctx.Done():
				return nil
			}
		} else {
			select {
			case p = <-l.proposals:
			default:
				return batch
			}
		}
		batch = append(batch, p)
		// A command has at most MaxEntry bytes, so an entry has less than twice that.
		if size += len(p.cmd); size >= l.cfg.MaxEntry || len(batch) >= l.cfg.MaxQueue {
			return batch
		}
	}
}

func encodeBatch(batch []*proposal) []byte {
	cmds := make([][]byte, 0, len(batch))
	size := 16
	for _, p := range batch {
		if p.cmd != nil {
			cmds = append(cmds, p.cmd)
			size += len(p.cmd) + 5
		}
	}
	return appendEntry(make([]byte, 0, size), cmds)
}

// settle answers a batch when its entry is applied, or its fate known not to be known.
func settle(batch []*proposal, future raft.ApplyFuture) {
	err := future.Error()
	if err != nil {
		code := fabric.Unknown
		if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout) || errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			code = fabric.Unavailable
		}
		err = &fabric.Error{Op: "propose", Code: code, Err: err}
	}
	var results [][]byte
	if err == nil {
		results = future.Response().([][]byte)
	}
	for _, p := range batch {
		a := answer{err: err}
		if err == nil && p.cmd != nil {
			a.result, results = results[0], results[1:]
		}
		p.answer <- a
	}
}

// Snapshot takes a snapshot now and lets raft truncate its log.
func (l *Log) Snapshot() error {
	err := l.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// Close leaves the group and releases the files. Proposals in flight answer Unknown.
func (l *Log) Close() error {
	err := l.raft.Shutdown().Error()
	l.cancel()
	l.done.Wait()
	return errors.Join(err, l.transport.Close(), l.wal.Close())
}
