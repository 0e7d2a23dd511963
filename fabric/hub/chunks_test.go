package hub_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/consensus/model"
	"github.com/spokefs/spokefs/fabric/hub"
	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// file cuts content into one chunk and its tree: what to Put, and what to publish.
func file(t *testing.T, h *chunk.Hasher, p []byte) ([]storage.Blob, namespace.Content) {
	t.Helper()
	c := h.Seal(storage.Chunk, p, nil)
	tree, err := manifest.Build(h, int64(len(p)), []manifest.Extent{{Len: int64(len(p)), Ref: c.Ref}})
	if err != nil {
		t.Fatal(err)
	}
	return append([]storage.Blob{c}, tree.Nodes...), namespace.Content{Size: tree.Size, Used: tree.Used, Root: tree.Root}
}

func fetch(ctx context.Context, b storage.Blobs, refs ...storage.Ref) (n int, last error) {
	for _, err := range b.Fetch(ctx, storage.Demand, refs) {
		if last = err; err == nil {
			n++
		}
	}
	return n, last
}

// TestBadPublishes is D41 with real packs: only what is stored, pinned by this session, a node, and
// as long as it says becomes a file's content.
func TestBadPublishes(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a, b := w.open("a", nil), w.open("b", nil)
		_, f := a.make(fabric.RootIno, "f", true)
		blobs, content := file(t, w.hasher, bytes.Repeat([]byte("spoke"), 9000))
		publish := func(c namespace.Content) fabric.Code {
			_, r, err := a.do(&namespace.Publish{Ino: f.Attr.Ino, Content: c})
			if err != nil {
				t.Fatal(err)
			}
			return r.Code
		}
		if c := publish(content); c != fabric.Invalid {
			t.Error("root that is not stored:", c)
		}
		if err := a.Blobs().Put(w.ctx, storage.Upload, blobs[1:]); !errors.Is(err, storage.ErrInvalid) {
			t.Error("node before its chunk:", err)
		}
		if err := b.Blobs().Put(w.ctx, storage.Upload, blobs); err != nil {
			t.Fatal(err)
		}
		if c := publish(content); c != fabric.Invalid {
			t.Error("root pinned by another session:", c)
		}
		if m, err := a.Blobs().Missing(w.ctx, []storage.Ref{content.Root, {Len: 1}}, nil); err != nil || len(m) != 1 {
			t.Error("missing", m, err)
		}
		wrong := content
		wrong.Size++
		if c := publish(wrong); c != fabric.Invalid {
			t.Error("size that is not the root's:", c)
		}
		wrong = content
		wrong.Root = blobs[0].Ref
		if c := publish(wrong); c != fabric.Invalid {
			t.Error("chunk for a node:", c)
		}
		if c := publish(content); c != fabric.OK {
			t.Error("pinned by Missing:", c)
		}
		// Another session finds it with its first bytes, and fetches the rest.
		_, found, err := b.Lookup(w.ctx, fabric.RootIno, []string{"f"}, 4096)
		if err != nil || len(found) != 2 || len(found[1].Blobs) != 2 {
			t.Fatal("lookup with first bytes", len(found), err)
		}
		if n, err := fetch(w.ctx, b.Blobs(), blobs[0].Ref, content.Root); n != 2 || err != nil {
			t.Error("fetch", n, err)
		}
		if _, err := fetch(w.ctx, b.Blobs(), storage.Ref{Len: 5}); !errors.Is(err, storage.ErrNotExist) {
			t.Error("unknown blob:", err)
		}
		if err := b.Close(w.ctx); err != nil {
			t.Error(err)
		}
		if _, err := fetch(w.ctx, b.Blobs(), content.Root); !errors.Is(err, storage.ErrDenied) {
			t.Error("after the session:", err)
		}
	})
}

// TestForgedBlobs: what is not what its name says is refused, and nothing of it is indexed.
func TestForgedBlobs(t *testing.T) {
	run(t, model.Config{}, func(w *world) {
		a := w.open("a", nil)
		blobs, _ := file(t, w.hasher, []byte("content of a small file"))
		forged := blobs[0]
		forged.Data = append([]byte(nil), forged.Data...)
		forged.Data[0] ^= 1
		kind := blobs[0]
		kind.Kind = storage.Node
		for name, b := range map[string]storage.Blob{"bytes": forged, "kind": kind, "no form": {Ref: blobs[0].Ref, Kind: storage.Chunk}} {
			if err := a.Blobs().Put(w.ctx, storage.Upload, []storage.Blob{b}); err == nil {
				t.Error(name, "was taken")
			}
			if m, err := a.Blobs().Missing(w.ctx, []storage.Ref{b.Ref}, nil); err != nil || len(m) != 1 {
				t.Error(name, "is there", err)
			}
		}
	})
}

// TestIndexNeedsALeader: what cannot be logged may be tried again.
func TestIndexNeedsALeader(t *testing.T) {
	st := &state{}
	log := model.New(model.Config{}, st.apply)
	x := hub.NewIndex(log, st, time.Now)
	log.Depose()
	if err := x.Begin(context.Background(), "k"); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
	log.Elect()
	for range 2 {
		if err := x.Begin(context.Background(), "k"); err != nil {
			t.Error(err)
		}
	}
}
