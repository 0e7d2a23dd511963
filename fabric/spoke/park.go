package spoke

import (
	"context"
	"errors"
	"fmt"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// park sets a file's dirty content aside under another name, since the file itself is another's
// by now (A27), and lets go of the original.
func (s *Spoke) park(ctx context.Context, f *file) error {
	v := f.snapshot()
	name := fmt.Sprintf("%x-%x-%d", uint64(f.ino), f.iver, s.deps.Wall().UnixNano())
	dir, err := s.parkDir(ctx)
	if err != nil {
		return err
	}
	content, err := s.upload(ctx, &v)
	if err != nil {
		return err
	}
	res, err := s.run(ctx, &namespace.Make{Dir: dir, Name: name, Spec: fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o600}, Who: fabric.Root(), WantW: true}, 0)
	if err != nil {
		return err
	}
	ss, err := s.session(ctx)
	if err != nil {
		return err
	}
	pub, err := s.publishOp(ss, res.Attr.Ino, &namespace.Publish{Ino: res.Attr.Ino, Base: res.Attr.Iver, Content: content, Mtime: f.mtime, DropW: true})
	if err == nil && pub.Code != fabric.OK {
		err = pub.Code
	}
	if err != nil {
		return fmt.Errorf("spoke: park %#x: %w", uint64(f.ino), err)
	}
	s.mu.Lock()
	s.parked++
	s.verifier++
	delete(s.dirty, f.ino)
	if n := s.inodes[f.ino]; n != nil {
		n.known, n.file = false, nil
	}
	ss.held.Step(s.deps.Boot(), rights.Given{Ino: res.Attr.Ino, Right: rights.W}, nil)
	s.mu.Unlock()
	f.abandon()
	s.deps.Slog.Warn("unflushed data of a file that another changed is parked", "ino", f.ino, "as", parkName+"/"+name)
	return nil
}

// parkName is the directory in the root for parked files.
const parkName = ".spokefs-parked"

func (s *Spoke) parkDir(ctx context.Context) (fabric.Ino, error) {
	a, err := s.lookup(ctx, fabric.RootIno, parkName)
	if err == nil {
		return a.Ino, nil
	}
	res, err := s.run(ctx, &namespace.Make{Dir: fabric.RootIno, Name: parkName, Spec: fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o700}, Who: fabric.Root()}, 0)
	if errors.Is(err, fabric.Exist) {
		a, err = s.lookup(ctx, fabric.RootIno, parkName)
		return a.Ino, err
	}
	return res.Attr.Ino, err
}
