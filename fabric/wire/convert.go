package wire

import (
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// each converts a list.
func each[A, B any](list []A, f func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// encodeAll and decodeAll carry a list of values that package namespace encodes.
func encodeAll[T any](list []T, f func([]byte, *T) []byte) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = f(nil, &list[i])
	}
	return out
}

func decodeAll[T any](list [][]byte, f func([]byte) (T, error)) ([]T, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]T, len(list))
	for i, p := range list {
		v, err := f(p)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func putGrant(g rights.Grant) *pb.Grant {
	return &pb.Grant{Ino: uint64(g.Ino), Right: uint32(g.Right), Seq: g.Seq, Epoch: g.Epoch, Term: uint64(g.Term)}
}

func getGrant(g *pb.Grant) rights.Grant {
	return rights.Grant{Ino: fabric.Ino(g.GetIno()), Right: getRight(g.GetRight()), Seq: g.GetSeq(),
		Epoch: g.GetEpoch(), Term: fabric.Term(g.GetTerm())}
}

// getRight drops bits that mean nothing here: a right we do not know is none.
func getRight(r uint32) rights.Right { return rights.Right(r) & (rights.R | rights.D | rights.W) }

func putWant(w rights.Want) *pb.Want {
	return &pb.Want{Ino: uint64(w.Ino), Right: uint32(w.Right), Wait: w.Wait}
}

func getWant(w *pb.Want) rights.Want {
	return rights.Want{Ino: fabric.Ino(w.GetIno()), Right: getRight(w.GetRight()), Wait: w.GetWait()}
}

func putAck(a rights.Ack) *pb.Ack {
	return &pb.Ack{Ino: uint64(a.Ino), Seq: a.Seq, Kept: uint32(a.Kept), Open: a.Open, Left: a.Left}
}

func getAck(a *pb.Ack) rights.Ack {
	return rights.Ack{Ino: fabric.Ino(a.GetIno()), Seq: a.GetSeq(), Kept: getRight(a.GetKept()), Open: a.GetOpen(), Left: a.GetLeft()}
}

func putLease(l rights.Lease) *pb.Lease {
	return &pb.Lease{Epoch: l.Epoch, Term: uint64(l.Term), Length: int64(l.Length), Wall: int64(l.Wall)}
}

func getLease(l *pb.Lease) rights.Lease {
	return rights.Lease{Epoch: l.GetEpoch(), Term: fabric.Term(l.GetTerm()), Length: time.Duration(l.GetLength()), Wall: fabric.Time(l.GetWall())}
}

func putIno(i fabric.Ino) uint64 { return uint64(i) }
func getIno(i uint64) fabric.Ino { return fabric.Ino(i) }

func putMessage(m rights.Message) *pb.Event {
	switch m := m.(type) {
	case *rights.Recall:
		return &pb.Event{Message: &pb.Event_Recall{Recall: &pb.Recall{Ino: uint64(m.Ino), Kind: uint32(m.Kind),
			Seq: m.Seq, Term: uint64(m.Term), Name: []byte(m.Name)}}}
	case *rights.Waiting:
		return &pb.Event{Message: &pb.Event_Waiting{Waiting: uint64(m.Ino)}}
	case *rights.Push:
		return &pb.Event{Message: &pb.Event_Push{Push: uint64(m.Ino)}}
	}
	return nil
}

// getMessage is the reverse; nil for what this version does not know. A recall of a kind that is
// not known is a Take, which keeps nothing and is always right.
func getMessage(e *pb.Event) rights.Message {
	switch m := e.GetMessage().(type) {
	case *pb.Event_Recall:
		r := &rights.Recall{Ino: fabric.Ino(m.Recall.GetIno()), Seq: m.Recall.GetSeq(), Term: fabric.Term(m.Recall.GetTerm()),
			Name: string(m.Recall.GetName())}
		if k := m.Recall.GetKind(); k <= uint32(rights.RecallPublish) {
			r.Kind = rights.RecallKind(k)
		}
		return r
	case *pb.Event_Waiting:
		return &rights.Waiting{Ino: fabric.Ino(m.Waiting)}
	case *pb.Event_Push:
		return &rights.Push{Ino: fabric.Ino(m.Push)}
	}
	return nil
}

func putRefs(refs []storage.Ref) []byte {
	p := make([]byte, 0, len(refs)*storage.RefLen)
	for _, r := range refs {
		p = r.Append(p)
	}
	return p
}

// getRefs is the reverse; ErrInvalid for anything else, and for more than MaxBatch.
func getRefs(p []byte) ([]storage.Ref, error) {
	if len(p)%storage.RefLen != 0 || len(p) > storage.MaxBatch*storage.RefLen {
		return nil, storage.ErrInvalid
	}
	refs := make([]storage.Ref, 0, len(p)/storage.RefLen)
	for len(p) > 0 {
		r, _ := storage.DecodeRef(p)
		refs, p = append(refs, r), p[storage.RefLen:]
	}
	return refs, nil
}

func putBlob(b *storage.Blob) *pb.Frame {
	return &pb.Frame{Ref: b.Ref.Append(make([]byte, 0, storage.RefLen)), Kind: uint32(b.Kind), Form: uint32(b.Form), Data: b.Data}
}

// getBlob is the reverse; ErrInvalid for anything else. That the bytes are what the name says is
// checked by those who use them.
func getBlob(f *pb.Frame) (b storage.Blob, err error) {
	ref, ok := storage.DecodeRef(f.GetRef())
	if !ok || len(f.GetRef()) != storage.RefLen || f.GetKind() > 255 || f.GetForm() > 255 {
		return b, storage.ErrInvalid
	}
	b = storage.Blob{Ref: ref, Kind: storage.Kind(f.GetKind()), Form: storage.Form(f.GetForm()), Data: f.GetData()}
	return b, nil
}

func getClass(c uint32) (storage.Class, error) {
	if c >= storage.Classes {
		return 0, storage.ErrInvalid
	}
	return storage.Class(c), nil
}

// fitPage leaves out entries at the end of a page that would make it too long for a message.
func fitPage(page []namespace.Dirent) (out [][]byte, cut bool) {
	size := 0
	for i := range page {
		p := namespace.AppendDirent(nil, &page[i])
		if size += len(p) + 8; size > maxPage && i > 0 {
			return out, true
		}
		out = append(out, p)
	}
	return out, false
}

// fitFound leaves out what would make the reply too long for a message: the content at the end of
// the path, which saves a fetch and no more; then the last steps, down to one, which the caller looks
// up from the directory where the reply ends.
func fitFound(found []namespace.Found) [][]byte {
	out := encodeAll(found, namespace.AppendFound)
	last := len(found) - 1
	if last >= 0 && len(found[last].Blobs) > 0 && sizeOf(out) > maxPage {
		f := found[last]
		f.Blobs = nil
		out[last] = namespace.AppendFound(nil, &f)
	}
	for len(out) > 2 && sizeOf(out) > maxPage {
		out = out[:len(out)-1]
	}
	return out
}

func sizeOf(list [][]byte) (size int) {
	for _, p := range list {
		size += len(p) + 8
	}
	return size
}
