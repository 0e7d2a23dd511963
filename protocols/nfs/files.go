package nfs

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// fileKey names an open file: a caller's, in one direction.
type fileKey struct {
	portal string
	ino    fabric.Ino
	who    uint64 // a hash of the credentials, under a seed of this process
	mode   fabric.OpenMode
}

// openFile is a fabric.File in use or kept for the next call.
type openFile struct {
	key   fileKey
	file  fabric.File
	ready chan struct{} // closed when file or err is set
	err   error

	refs int       // calls that use it; guarded by files.mu
	kept bool      // it is in the set; guarded by files.mu
	last time.Time // of the last call's end; guarded by files.mu
}

// files keeps files open between calls, so that a stream of WRITEs is one open file. It is bounded;
// what does not fit is opened for one call.
type files struct {
	limit int
	idle  time.Duration
	seed  maphash.Seed

	mu  sync.Mutex // guards set, and fields of its members
	set map[fileKey]*openFile
}

func newFiles(limit int, idle time.Duration) *files {
	return &files{limit: limit, idle: idle, seed: maphash.MakeSeed(), set: map[fileKey]*openFile{}}
}

func (f *files) key(portal string, ino fabric.Ino, who *fabric.Cred, mode fabric.OpenMode) fileKey {
	buf := make([]byte, 0, 8+4*fabric.MaxGroups)
	buf = binary.BigEndian.AppendUint32(buf, who.UID)
	buf = binary.BigEndian.AppendUint32(buf, who.GID)
	for _, g := range who.Groups {
		buf = binary.BigEndian.AppendUint32(buf, g)
	}
	return fileKey{portal: portal, ino: ino, who: maphash.Bytes(f.seed, buf), mode: mode}
}

// get gives the open file of a key, opening it by open if needed. The caller calls put.
func (f *files) get(ctx context.Context, key fileKey, open func() (fabric.File, error)) (o *openFile, fresh bool, err error) {
	f.mu.Lock()
	if o := f.set[key]; o != nil {
		o.refs++
		f.mu.Unlock()
		select {
		case <-o.ready:
		case <-ctx.Done():
			f.put(o)
			return nil, false, fabric.Unavailable
		}
		if o.err != nil {
			f.put(o)
			return nil, false, o.err
		}
		return o, false, nil
	}
	o = &openFile{key: key, ready: make(chan struct{}), refs: 1}
	var out *openFile
	if len(f.set) >= f.limit {
		out = f.longestIdle()
	}
	if len(f.set) < f.limit {
		f.set[key], o.kept = o, true
	}
	f.mu.Unlock()
	if out != nil {
		out.file.Close(context.WithoutCancel(ctx))
	}
	o.file, o.err = open()
	close(o.ready)
	if o.err != nil {
		f.put(o)
		return nil, false, o.err
	}
	return o, true, nil
}

// longestIdle takes the file that has been idle for longest out of the set; nil if all are in use.
// mu is held.
func (f *files) longestIdle() (out *openFile) {
	for _, o := range f.set {
		if o.refs == 0 && (out == nil || o.last.Before(out.last)) {
			out = o
		}
	}
	if out != nil {
		delete(f.set, out.key)
		out.kept = false
	}
	return out
}

// put ends a call's use.
func (f *files) put(o *openFile) {
	f.mu.Lock()
	o.refs--
	o.last = time.Now()
	if o.kept && o.err != nil {
		delete(f.set, o.key)
		o.kept = false
	}
	dead := o.refs == 0 && !o.kept && o.err == nil
	f.mu.Unlock()
	if dead {
		o.file.Close(context.Background())
	}
}

// run closes what is idle, until ctx ends.
func (f *files) run(ctx context.Context) {
	t := time.NewTicker(max(f.idle/3, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			f.sweep(now.Add(-f.idle))
		}
	}
}

// sweep closes what has been idle since before a time. Closing may wait (a portal can make it do
// so); it happens with no lock held.
func (f *files) sweep(before time.Time) {
	var out []*openFile
	f.mu.Lock()
	for key, o := range f.set {
		if o.refs == 0 && !o.last.After(before) {
			o.kept = false
			delete(f.set, key)
			out = append(out, o)
		}
	}
	f.mu.Unlock()
	for _, o := range out {
		// Its errors show at COMMIT, by the verifier; nobody waits for this.
		o.file.Close(context.Background())
	}
}

// closeAll closes what no call uses; of the others the last call does it.
func (f *files) closeAll() {
	f.sweep(time.Now().Add(time.Hour))
}
