package consensus

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// fsm feeds a Machine. raft calls it from one goroutine.
type fsm struct {
	machine Machine
	indexes []uint64
	cmds    [][]byte
	counts  []int
	names   []string // checkpoints, oldest first
}

// keepCheckpoints is the number raft's snapshot store keeps, too.
const keepCheckpoints = 2

// ApplyBatch implements raft.BatchingFSM: all commands of all entries are one batch of the
// machine. An entry that does not decode passed a checksum when it was written: the log is
// damaged, and going on would split the replicas, so it stops the process.
func (f *fsm) ApplyBatch(entries []*raft.Log) []any {
	f.indexes, f.cmds, f.counts = f.indexes[:0], f.cmds[:0], f.counts[:0]
	for _, e := range entries {
		before := len(f.cmds)
		if e.Type == raft.LogCommand {
			var err error
			if f.cmds, err = decodeEntry(e.Data, f.cmds); err != nil {
				panic(fmt.Sprintf("consensus: entry %d of the raft log: %v", e.Index, err))
			}
		}
		n := len(f.cmds) - before
		for range n {
			f.indexes = append(f.indexes, e.Index)
		}
		f.counts = append(f.counts, n)
	}
	results := make([][]byte, 0)
	if len(f.cmds) > 0 {
		results = f.machine.Apply(f.indexes, f.cmds)
	}
	out := make([]any, len(entries))
	for i, n := range f.counts {
		out[i], results = results[:n:n], results[n:]
	}
	return out
}

// Apply implements raft.FSM.
func (f *fsm) Apply(e *raft.Log) any { return f.ApplyBatch([]*raft.Log{e})[0] }

// snapshot is what raft's snapshot file holds: which checkpoint of the machine it stands for.
type snapshot struct {
	Version    int    `json:"version"`
	Checkpoint string `json:"checkpoint"`
	Applied    uint64 `json:"applied"`
}

// Snapshot implements raft.FSM. Apply does not run meanwhile; a checkpoint takes milliseconds.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	s := &snapshot{Version: 1, Applied: f.machine.Applied()}
	s.Checkpoint = fmt.Sprintf("checkpoint-%016x", s.Applied)
	if err := f.machine.Checkpoint(s.Checkpoint); err != nil {
		return nil, err
	}
	f.names = append(f.names, s.Checkpoint)
	for len(f.names) > keepCheckpoints {
		if f.names[0] != s.Checkpoint {
			if err := f.machine.Forget(f.names[0]); err != nil {
				return nil, err
			}
		}
		f.names = f.names[1:]
	}
	return s, nil
}

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := json.NewEncoder(sink).Encode(s); err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s *snapshot) Release() {}

// Restore implements raft.FSM. The checkpoint must be on this machine: a node that lags so far
// that it needs another's is filled by the hub-cluster work, not by this stream.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	var s snapshot
	if err := json.NewDecoder(io.LimitReader(r, 64<<10)).Decode(&s); err != nil {
		return fmt.Errorf("consensus: snapshot: %w", err)
	}
	if s.Version != 1 {
		return fmt.Errorf("consensus: snapshot version %d is not known", s.Version)
	}
	return f.machine.Restore(s.Checkpoint)
}
