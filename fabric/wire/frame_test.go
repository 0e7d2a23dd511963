package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"iter"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

func encodeFrame(t testing.TB, m any) []byte {
	t.Helper()
	p, err := encoding.GetCodecV2(chunkCodec).Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	return p.Materialize()
}

func decodeFrame(p []byte, m any) error {
	return encoding.GetCodecV2(chunkCodec).Unmarshal(mem.BufferSlice{mem.SliceBuffer(p)}, m)
}

// goldenFrame and goldenPut are the bytes of docs/protocols/wire.md, of version 2.
const (
	goldenFrame = "01020000" + "0a0b00000000000000000000000000000000000000000000000000000000000c" + "03000000" + "616263"
	goldenPut   = "02000000" + "05010000" + goldenFrame
)

func TestGoldenFrames(t *testing.T) {
	blob := storage.Blob{Ref: storage.Ref{Sum: [32]byte{0: 10, 1: 11, 31: 12}, Len: 3}, Kind: 1, Form: 2, Data: []byte("abc")}
	put := &pb.PutFrame{Class: 2, Count: 261, Blob: putBlob(&blob)}
	if got := hex.EncodeToString(encodeFrame(t, putBlob(&blob))); got != goldenFrame {
		t.Errorf("Frame\n got %s\nwant %s", got, goldenFrame)
	}
	if got := hex.EncodeToString(encodeFrame(t, put)); got != goldenPut {
		t.Errorf("PutFrame\n got %s\nwant %s", got, goldenPut)
	}
	raw, err := hex.DecodeString(goldenPut)
	if err != nil {
		t.Fatal(err)
	}
	var f pb.PutFrame
	if err := decodeFrame(raw, &f); err != nil || !proto.Equal(&f, put) {
		t.Errorf("%v, %v", &f, err)
	}
	// What has no data says why.
	missing := &pb.Frame{Ref: blob.Ref.Append(nil), Error: 1}
	var g pb.Frame
	if err := decodeFrame(encodeFrame(t, missing), &g); err != nil || g.Error != 1 || len(g.Data) != 0 {
		t.Errorf("%v, %v", &g, err)
	}
}

func TestFramesThatAreNone(t *testing.T) {
	good, err := hex.DecodeString(goldenPut)
	if err != nil {
		t.Fatal(err)
	}
	for n := range putHead + frameHead {
		if decodeFrame(good[:n], &pb.PutFrame{}) == nil {
			t.Errorf("%d bytes are a frame", n)
		}
	}
	for _, i := range []int{1, 2, 3, putHead + 3} { // bytes that are 0
		bad := bytes.Clone(good)
		bad[i] = 1
		if decodeFrame(bad, &pb.PutFrame{}) == nil {
			t.Errorf("byte %d may be anything", i)
		}
	}
	ref := storage.Ref{Len: 1}.Append(nil)
	for name, m := range map[string]any{
		"no ref":      &pb.Frame{},
		"large kind":  &pb.Frame{Ref: ref, Kind: 256},
		"large form":  &pb.Frame{Ref: ref, Form: 256},
		"large error": &pb.Frame{Ref: ref, Error: 256},
		"large class": &pb.PutFrame{Class: 256, Blob: &pb.Frame{Ref: ref}},
		"no blob":     &pb.PutFrame{},
	} {
		if _, err := encoding.GetCodecV2(chunkCodec).Marshal(m); err == nil {
			t.Errorf("%s was sent", name)
		}
	}
}

// FuzzFrames: a frame is refused, or is sent on as it came.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{goldenFrame, goldenPut} {
		p, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var frame pb.Frame
		if decodeFrame(bytes.Clone(p), &frame) == nil && !bytes.Equal(encodeFrame(t, &frame), p) {
			t.Error("a Frame changed")
		}
		var put pb.PutFrame
		if decodeFrame(bytes.Clone(p), &put) == nil && !bytes.Equal(encodeFrame(t, &put), p) {
			t.Error("a PutFrame changed")
		}
	})
}

// seen is a store that tells as what a transfer's messages came.
type seen struct {
	storage.Blobs
	types chan []string
}

func (s seen) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	md, _ := metadata.FromIncomingContext(ctx)
	s.types <- md.Get("content-type")
	return s.Blobs.Fetch(ctx, c, refs)
}

func (s seen) Put(ctx context.Context, c storage.Class, blobs []storage.Blob) error {
	md, _ := metadata.FromIncomingContext(ctx)
	s.types <- md.Get("content-type")
	return s.Blobs.Put(ctx, c, blobs)
}

func TestTransfersAreRaw(t *testing.T) {
	w := newWorld(t, Config{})
	s := seen{w.hub.session.blobs, make(chan []string, 2)}
	w.hub.session.blobs = s
	c := w.connect(t)
	refs := noise(t, w, c, 1, 100)
	if err := drain(c.Blobs().Fetch(t.Context(), storage.Demand, refs)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		same(t, "content-type", <-s.types, []string{"application/grpc+chunk"})
	}
}
