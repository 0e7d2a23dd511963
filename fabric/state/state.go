// Package state keeps a group's state machine on Pebble and applies what is committed. It knows
// nothing of what commands mean: an apply function does (fabric/namespace, fabric/system). It
// satisfies consensus.Machine.
//
// # Durability
//
// All commands of a call are one batch, and the applied index is in it. There is no write-ahead
// log: the Raft log is it. What is not flushed is lost with the process and applied again from
// the log, which is why Checkpoint flushes, and the log is truncated only after one.
//
// # Concurrency
//
// One goroutine applies; any number read through views, each a consistent snapshot. mu guards
// the database handle against Restore alone.
package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"iter"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/zeebo/blake3"

	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/storage/disk"
)

// Config of a Machine. WithDefaults fills zero fields.
type Config struct {
	// Cache is the size of the block cache in bytes. Default 64 MiB: a hub has a few groups.
	Cache int64
	// MemTable is how much is gathered in memory before it is written, in bytes. Default 32 MiB.
	MemTable uint64
	// Apply carries out one command and gives its result.
	Apply func(v kv.View, index uint64, cmd []byte) []byte
}

// WithDefaults returns c with its zero fields filled.
func (c Config) WithDefaults() Config {
	if c.Cache == 0 {
		c.Cache = 64 << 20
	}
	if c.MemTable == 0 {
		c.MemTable = 32 << 20
	}
	return c
}

// The user's keys are behind one byte, so that the machine's own cannot meet them.
var (
	prefix     = byte('k')
	appliedKey = []byte("applied")
)

// live is the name of the database's folder; checkpoints are beside it.
const live = "live"

// Machine is one group's state.
type Machine struct {
	cfg Config
	dir disk.Dir

	mu      sync.RWMutex // guards db
	db      *pebble.DB
	applied uint64 // written by the applying goroutine under mu
}

// Open opens the state in dir, or makes it.
func Open(cfg Config, dir disk.Dir) (*Machine, error) {
	m := &Machine{cfg: cfg.WithDefaults(), dir: dir}
	if err := m.open(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Machine) open() error {
	sub, err := m.dir.Dir(live)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	vfs, path := sub.VFS()
	cache := pebble.NewCache(m.cfg.Cache)
	defer cache.Unref()
	o := &pebble.Options{
		FS: vfs, Cache: cache, MemTableSize: m.cfg.MemTable, DisableWAL: true,
		FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{},
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.FastestCompression }
	}
	db, err := pebble.Open(path, o)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	p, closer, err := db.Get(appliedKey)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		m.applied = 0
	case err != nil:
		return errors.Join(fmt.Errorf("state: %w", err), db.Close())
	default:
		m.applied = binary.BigEndian.Uint64(p)
		closer.Close()
	}
	m.db = db
	return nil
}

// quiet drops Pebble's chatter; what fails comes back as an error.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

// Fatalf is called when Pebble cannot go on: neither can we (A28).
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf("state: "+format, args...)) }

// Applied is the index of the last command applied.
func (m *Machine) Applied() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.applied
}

// Apply carries out committed commands as one batch. Commands of indexes that were applied before
// the call are skipped, with a nil result; several commands may share an index. A failure to
// write ends the process: the log says it happened, and the state could not.
func (m *Machine) Apply(indexes []uint64, cmds [][]byte) [][]byte {
	m.mu.RLock()
	db, before := m.db, m.applied
	m.mu.RUnlock()
	v := &view{r: db.NewIndexedBatch()}
	v.w = v.r.(*pebble.Batch)
	out := make([][]byte, len(cmds))
	last := before
	for i, c := range cmds {
		if indexes[i] <= before {
			continue
		}
		out[i] = m.cfg.Apply(v, indexes[i], c)
		last = indexes[i]
		if v.err != nil {
			panic(fmt.Sprintf("state: read at index %d: %v", indexes[i], v.err))
		}
	}
	if last == before {
		v.w.Close()
		return out
	}
	v.w.Set(appliedKey, binary.BigEndian.AppendUint64(nil, last), nil)
	if err := v.w.Commit(pebble.NoSync); err != nil {
		panic(fmt.Sprintf("state: write at index %d: %v", last, err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = last
	return out
}

// View is a consistent view of what is applied now; it must not be written. done frees it.
func (m *Machine) View() (kv.View, func()) {
	m.mu.RLock()
	s := m.db.NewSnapshot()
	m.mu.RUnlock()
	return &view{r: s}, func() { s.Close() }
}

// view is a kv.View on a batch or a snapshot.
type view struct {
	r   pebble.Reader
	w   *pebble.Batch // nil for a snapshot
	err error         // the first failed read sticks
	buf []byte
}

func (v *view) key(k []byte) []byte {
	v.buf = append(append(v.buf[:0], prefix), k...)
	return v.buf
}

func (v *view) failed(err error) {
	if v.err == nil {
		v.err = err
	}
	if v.w == nil { // a reader of a snapshot has nobody who looks at err
		panic(fmt.Sprintf("state: read: %v", err))
	}
}

// Get implements kv.View.
func (v *view) Get(k []byte) ([]byte, bool) {
	p, closer, err := v.r.Get(v.key(k))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false
	}
	if err != nil {
		v.failed(err)
		return nil, false
	}
	out := slices.Clone(p)
	closer.Close()
	return out, true
}

// Scan implements kv.View.
func (v *view) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		o := &pebble.IterOptions{LowerBound: append([]byte{prefix}, from...), UpperBound: []byte{prefix + 1}}
		if to != nil {
			o.UpperBound = append([]byte{prefix}, to...)
		}
		it, err := v.r.NewIter(o)
		if err != nil {
			v.failed(err)
			return
		}
		defer func() {
			if err := it.Close(); err != nil {
				v.failed(err)
			}
		}()
		for ok := it.First(); ok; ok = it.Next() {
			if !yield(it.Key()[1:], it.Value()) {
				return
			}
		}
	}
}

// Set implements kv.View.
func (v *view) Set(k, value []byte) { v.wrote(v.w.Set(v.key(k), value, nil)) }

// Delete implements kv.View.
func (v *view) Delete(k []byte) { v.wrote(v.w.Delete(v.key(k), nil)) }

// DeleteRange implements kv.View.
func (v *view) DeleteRange(from, to []byte) {
	end := []byte{prefix + 1}
	if to != nil {
		end = append([]byte{prefix}, to...)
	}
	v.wrote(v.w.DeleteRange(append([]byte{prefix}, from...), end, nil))
}

func (v *view) wrote(err error) {
	if err != nil {
		v.failed(err)
	}
}

// Checkpoint makes all that is applied durable, and a copy of it under that name.
func (m *Machine) Checkpoint(name string) error {
	if err := m.Forget(name); err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.db.Flush(); err != nil {
		return fmt.Errorf("state: flush: %w", err)
	}
	vfs, path := m.dir.VFS()
	if err := m.db.Checkpoint(vfs.PathJoin(path, name)); err != nil {
		return fmt.Errorf("state: checkpoint: %w", err)
	}
	return m.dir.Sync()
}

// Restore replaces the state by a checkpoint, which stays.
func (m *Machine) Restore(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.dir.Stat(name); err != nil {
		return fmt.Errorf("state: restore: %w", err)
	}
	if err := m.db.Close(); err != nil {
		return fmt.Errorf("state: restore: %w", err)
	}
	if err := m.dir.RemoveAll(live); err != nil {
		return fmt.Errorf("state: restore: %w", err)
	}
	if err := m.dir.Rename(name, live); err != nil {
		return fmt.Errorf("state: restore: %w", err)
	}
	if err := m.open(); err != nil {
		return err
	}
	vfs, path := m.dir.VFS()
	return m.db.Checkpoint(vfs.PathJoin(path, name))
}

// Forget removes a checkpoint; a missing one is success.
func (m *Machine) Forget(name string) error {
	if _, err := m.dir.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return m.dir.RemoveAll(name)
}

// Hash digests the whole state: equal on all replicas at equal index (I8). It reads everything.
func (m *Machine) Hash() [32]byte {
	v, done := m.View()
	defer done()
	h := blake3.New()
	for k, p := range v.Scan(nil, nil) {
		field(h, k)
		field(h, p)
	}
	return [32]byte(h.Sum(nil))
}

func field(h hash.Hash, p []byte) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
	h.Write(p)
}

// Close flushes and closes the state.
func (m *Machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.db.Flush(), m.db.Close())
}
