package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/hub"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
	"github.com/spokefs/spokefs/storage/pack"
)

// Hub is a hub node: the system group, and a group with its engine per namespace.
type Hub struct {
	cfg    HubConfig
	dir    disk.Dir
	unlock func() error
	bucket storage.Bucket
	slog   *slog.Logger
	system *group
	ca     *identity.CA

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex // guards served
	served map[string]*served
}

// served is one namespace at work.
type served struct {
	info   namespace.Info
	group  *group
	packs  *pack.Store
	engine *hub.Namespace
}

// OpenHub opens a hub's data and starts its groups. Close ends it.
func OpenHub(ctx context.Context, cfg HubConfig, log *slog.Logger) (*Hub, error) {
	h := &Hub{cfg: cfg, slog: log, served: map[string]*served{}}
	var err error
	if h.dir, h.unlock, err = claim(cfg.Data, log); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if err := h.open(ctx); err != nil {
		h.Close()
		return nil, fmt.Errorf("hub: %w", err)
	}
	return h, nil
}

func (h *Hub) open(ctx context.Context) error {
	var err error
	if h.bucket, err = openBucket(ctx, h.cfg.Bucket); err != nil {
		return err
	}
	id, err := h.clusterID()
	if err != nil {
		return err
	}
	if err := pack.Own(ctx, h.bucket, "", id); err != nil {
		return err
	}
	caDir, err := h.dir.Dir("ca")
	if err != nil {
		return err
	}
	if h.ca, err = identity.OpenCA(caDir, h.cfg.Domain); err != nil {
		return err
	}
	dir, err := h.dir.Dir("system")
	if err != nil {
		return err
	}
	if h.system, err = openGroup(dir, "system", h.cfg.Name, system.Apply, h.fatal, h.slog); err != nil {
		return err
	}
	if err := h.system.lead(ctx); err != nil {
		return err
	}
	v, done := h.system.state.View()
	var infos []namespace.Info
	for n := range system.Namespaces(v) {
		infos = append(infos, n.Info)
	}
	done()
	for _, info := range infos {
		if err := h.serve(ctx, info); err != nil {
			return fmt.Errorf("namespace %s: %w", info.Name, err)
		}
	}
	return nil
}

// clusterID is the name under which this hub owns its bucket's prefix, made at the first start.
func (h *Hub) clusterID() (string, error) {
	p, err := readFile(h.dir, "cluster")
	if err != nil || len(p) > 0 {
		return string(p), err
	}
	var id [16]byte
	rand.Read(id[:])
	p = []byte(hex.EncodeToString(id[:]))
	return string(p), writeFile(h.dir, "cluster", p)
}

// fatal ends the process: what the log says happened could not be written (A28).
func (h *Hub) fatal(err error) {
	h.slog.Error("the hub cannot go on", "err", err)
	panic(err)
}

// applyNamespace applies one command of a namespace's log.
func applyNamespace(v kv.View, index uint64, cmd []byte) []byte {
	c, err := namespace.DecodeCommand(cmd)
	if err != nil {
		return namespace.AppendResult(nil, &namespace.Result{Verdict: namespace.Refused, Index: index})
	}
	res := namespace.Apply(v, index, c)
	return namespace.AppendResult(nil, &res)
}

// packs gives hub.Packs its form.
type packs struct{ *pack.Store }

// Put implements hub.Packs.
func (p packs) Put(ctx context.Context, c storage.Class, owner fabric.SessionID, blobs []storage.Blob) error {
	return p.PutFor(ctx, c, pack.Owner(owner), blobs)
}

// Fetch implements hub.Packs.
func (p packs) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	return p.Store.Fetch(ctx, c, refs)
}

// serve starts a namespace: its group, its packs, its engine.
func (h *Hub) serve(ctx context.Context, info namespace.Info) error {
	all, err := h.dir.Dir("namespaces")
	if err != nil {
		return err
	}
	dir, err := all.Dir(info.Name)
	if err != nil {
		return err
	}
	s := &served{info: info}
	if s.group, err = openGroup(dir, "ns-"+info.Name, h.cfg.Name, applyNamespace, h.fatal, h.slog); err != nil {
		return err
	}
	// Init answers Exist from the second time on.
	init := namespace.Command{Wall: wall(), Ops: []namespace.Op{&namespace.Init{Info: info, Mode: 0o755}}}
	if _, err := s.group.propose(ctx, namespace.AppendCommand(nil, &init)); err != nil {
		s.group.close()
		return err
	}
	var incarnation [8]byte
	rand.Read(incarnation[:])
	s.packs = pack.New(pack.Config{
		Namespace: fmt.Sprintf("%s-%016x", info.Name, info.ID), Incarnation: hex.EncodeToString(incarnation[:]),
	}, pack.Deps{
		Bucket: h.bucket, Index: hub.NewIndex(s.group.log, s.group.state, time.Now),
		Hasher: chunk.New(info.DigestKey), Wall: time.Now, Rand: rand.Reader,
	})
	s.engine = hub.New(hub.Config{Rights: rights.Config{Lease: h.cfg.Lease.Duration}}, hub.Deps{
		Log: s.group.log, State: s.group.state, Packs: packs{s.packs},
		Boot: boot, Wall: time.Now, Rand: rand.Reader, Slog: h.slog.With("namespace", info.Name),
	})
	h.done.Go(func() { s.packs.Run(h.ctx) })
	h.done.Go(func() { s.engine.Run(h.ctx) })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.served[info.Name] = s
	return nil
}

func wall() fabric.Time { return fabric.Time(time.Now().UnixNano()) }

// namespace gives a namespace at work, or NotExist.
func (h *Hub) namespace(name string) (*served, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.served[name]; s != nil {
		return s, nil
	}
	return nil, &fabric.Error{Op: "namespace " + name, Code: fabric.NotExist}
}

// change proposes a command of the system group.
func (h *Hub) change(ctx context.Context, op string, c system.Command) (system.Result, error) {
	c.Wall = wall()
	p, err := h.system.propose(ctx, c.Encode())
	if err != nil {
		return system.Result{}, err
	}
	r, err := system.DecodeResult(p)
	if err == nil {
		err = r.Err(op)
	}
	return r, err
}

// CreateNamespace makes an empty namespace and serves it.
func (h *Hub) CreateNamespace(ctx context.Context, name string) error {
	var seed [80]byte
	rand.Read(seed[:])
	p := chunk.Default()
	info := namespace.Info{
		ID: binary.BigEndian.Uint64(seed[64:]) | 1, Name: name, History: binary.BigEndian.Uint64(seed[72:]) | 1,
		DigestKey: [32]byte(seed[:32]), HandleKey: [32]byte(seed[32:64]),
		Chunking: namespace.Chunking{Algorithm: p.Algorithm, Min: p.Min, Mean: p.Mean, Max: p.Max},
	}
	if _, err := h.change(ctx, "create namespace", system.Command{CreateNamespace: &system.Namespace{Info: info}}); err != nil {
		return err
	}
	return h.serve(ctx, info)
}

// view reads the system group's state after all that was proposed before the call.
func (h *Hub) view(ctx context.Context) (kv.View, func(), error) {
	if err := h.system.lead(ctx); err != nil {
		return nil, nil, err
	}
	v, done := h.system.state.View()
	return v, done, nil
}

// Close stops all groups and gives the data folder back. It can be opened again at once.
func (h *Hub) Close() error {
	h.cancel()
	h.done.Wait()
	var errs []error
	h.mu.Lock()
	for _, s := range h.served {
		errs = append(errs, s.group.close())
	}
	h.mu.Unlock()
	if h.system != nil {
		errs = append(errs, h.system.close())
	}
	return errors.Join(append(errs, h.unlock())...)
}

// readFile reads a small file of a node's folder; empty if it is not there.
func readFile(dir disk.Dir, name string) ([]byte, error) {
	f, err := dir.Open(name, disk.Create)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil || n == 0 {
		return nil, err
	}
	p := make([]byte, min(n, 64<<10))
	_, err = f.ReadAt(p, 0)
	return p, err
}

// writeFile replaces a small file of a node's folder, durably.
func writeFile(dir disk.Dir, name string, p []byte) error {
	tmp := name + ".new"
	if _, err := dir.Stat(tmp); err == nil {
		if err := dir.Remove(tmp); err != nil {
			return err
		}
	}
	f, err := dir.Open(tmp, disk.CreateNew)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(dir.Rename(tmp, name), dir.Sync())
}
