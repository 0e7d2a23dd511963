package chunk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/spokefs/spokefs/storage"
)

func TestSealAndVerify(t *testing.T) {
	h := New(testKey)
	for _, raw := range [][]byte{{0}, []byte("short"), text(1, 31), text(1, 300), text(1, 70_000), noise(1, 70_000),
		make([]byte, storage.MaxRaw), noise(2, storage.MaxRaw), text(3, storage.MaxRaw)} {
		for _, k := range []storage.Kind{storage.Chunk, storage.Node} {
			b := h.Seal(k, raw, nil)
			got, err := h.Verify(b, nil)
			if err != nil || !bytes.Equal(got, raw) {
				t.Fatalf("kind %d, %d bytes, form %d: %v", k, len(raw), b.Form, err)
			}
			if b.Form == storage.Zstd && !worth(len(b.Data), len(raw)) {
				t.Fatalf("%d bytes kept as %d", len(raw), len(b.Data))
			}
		}
	}
}

func TestNamesDependOnKeyAndKind(t *testing.T) {
	raw := []byte("content")
	a, b := New(testKey), New([32]byte{7})
	if a.Chunk(raw) == a.Node(raw) || a.Chunk(raw) == b.Chunk(raw) || a.Node(raw) == b.Node(raw) {
		t.Fatal("names meet")
	}
	if !a.Chunk(nil).IsZero() || a.Chunk(raw) != a.Ref(storage.Chunk, raw) || a.Node(raw) != a.Ref(storage.Node, raw) {
		t.Fatal("Ref is not Chunk or Node")
	}
}

// frames that decode, but are not the one form allowed, and frames that do not (D49).
func badFrames(t testing.TB, raw []byte) map[string][]byte {
	enc := func(o ...zstd.EOption) []byte {
		w, err := zstd.NewWriter(nil, o...)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(raw, nil)
	}
	good := New(testKey).Seal(storage.Chunk, raw, nil).Data
	skippable := binary.LittleEndian.AppendUint32(nil, 0x184D2A50)
	skippable = append(binary.LittleEndian.AppendUint32(skippable, 4), "skip"...)
	huge := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}
	huge = binary.LittleEndian.AppendUint64(huge, 1<<63)
	flip := bytes.Clone(good)
	flip[len(flip)/2] ^= 0x40
	dict := enc(zstd.WithEncoderDictRaw(77, text(9, 4096)), zstd.WithSingleSegment(true))
	// 128 KiB of one repeated byte in a block of four bytes, many times over.
	bomb := append(bytes.Clone(huge[:5]), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint64(bomb[5:], uint64(len(raw)))
	for range 2000 {
		bomb = append(bomb, 0x02, 0x00, 0x10, 'x')
	}
	bomb = append(bomb, 0x03, 0x00, 0x10, 'x')
	return map[string][]byte{
		"empty":             {},
		"no header":         good[:3],
		"cut":               good[:len(good)-1],
		"half":              good[:len(good)/2],
		"trailing byte":     append(bytes.Clone(good), 0),
		"second frame":      append(bytes.Clone(good), good...),
		"skippable first":   append(bytes.Clone(skippable), good...),
		"skippable last":    append(bytes.Clone(good), skippable...),
		"only skippable":    skippable,
		"claims 8 EiB":      append(huge, good[9:]...),
		"unknown dict":      dict,
		"windowed":          enc(zstd.WithSingleSegment(false), zstd.WithWindowSize(8<<20)),
		"flipped":           flip,
		"bomb in one frame": bomb,
	}
}

func TestVerifyRefusesBadFrames(t *testing.T) {
	h := New(testKey)
	raw := text(4, 40_000)
	ref := h.Chunk(raw)
	for name, data := range badFrames(t, raw) {
		_, err := h.Verify(storage.Blob{Ref: ref, Kind: storage.Chunk, Form: storage.Zstd, Data: data}, nil)
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerifyRefusesWhatIsNotNamed(t *testing.T) {
	h := New(testKey)
	raw := text(5, 5000)
	good := h.Seal(storage.Chunk, raw, nil)
	with := func(f func(*storage.Blob)) storage.Blob {
		b := good
		f(&b)
		return b
	}
	bad := map[string]storage.Blob{
		"zero":              {},
		"empty":             {Ref: storage.Ref{Sum: good.Ref.Sum}, Kind: storage.Chunk, Form: storage.Raw},
		"node as chunk":     with(func(b *storage.Blob) { b.Kind = storage.Node }),
		"no kind":           with(func(b *storage.Blob) { b.Kind = 0 }),
		"kind 3":            with(func(b *storage.Blob) { b.Kind = 3 }),
		"no form":           with(func(b *storage.Blob) { b.Form = 0 }),
		"form 3":            with(func(b *storage.Blob) { b.Form = 3 }),
		"zstd called raw":   with(func(b *storage.Blob) { b.Form = storage.Raw }),
		"raw called zstd":   with(func(b *storage.Blob) { b.Data = raw }),
		"length - 1 (D50)":  with(func(b *storage.Blob) { b.Ref.Len-- }),
		"length + 1 (D50)":  with(func(b *storage.Blob) { b.Ref.Len++ }),
		"length 4 GiB":      with(func(b *storage.Blob) { b.Ref.Len = 1<<32 - 1 }),
		"other digest":      with(func(b *storage.Blob) { b.Ref.Sum[0] ^= 1 }),
		"over 4 MiB":        {Ref: storage.Ref{Len: storage.MaxRaw + 1}, Kind: storage.Chunk, Form: storage.Raw, Data: make([]byte, storage.MaxRaw+1)},
		"raw, other digest": {Ref: good.Ref, Kind: storage.Chunk, Form: storage.Raw, Data: text(6, 5000)},
	}
	for name, b := range bad {
		if _, err := h.Verify(b, nil); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.Verify(good, nil); err != nil {
		t.Error(err)
	}
}

func FuzzVerify(f *testing.F) {
	raw := text(7, 3000)
	h := New(testKey)
	good := h.Seal(storage.Chunk, raw, nil)
	f.Add(good.Data, uint8(storage.Zstd), good.Ref.Len)
	f.Add(raw, uint8(storage.Raw), uint32(len(raw)))
	for _, data := range badFrames(f, raw) {
		f.Add(data, uint8(storage.Zstd), uint32(len(raw)))
	}
	f.Fuzz(func(t *testing.T, data []byte, form uint8, n uint32) {
		b := storage.Blob{Ref: storage.Ref{Len: n}, Kind: storage.Chunk, Form: storage.Form(form), Data: data}
		raw, err := h.codec.Decompress(b, nil)
		if err == nil && len(raw) != int(n) {
			t.Fatalf("%d bytes for %d", len(raw), n)
		}
		if _, err := h.Verify(b, nil); err == nil {
			t.Fatal("the zero digest was matched")
		}
	})
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	if raced {
		t.Skip("allocations are counted without the race detector")
	}
	h := New(testKey)
	raw, dst := text(8, 100_000), make([]byte, 0, 110_000)
	blob := h.Seal(storage.Chunk, raw, nil)
	out := make([]byte, 0, len(raw))
	c := h.Cutter(small)
	for name, f := range map[string]func(){
		"Chunk":  func() { h.Chunk(raw) },
		"Node":   func() { h.Node(raw) },
		"Next":   func() { c.Next(raw) },
		"Seal":   func() { h.Seal(storage.Chunk, raw, dst) },
		"Verify": func() { _, _ = h.Verify(blob, out) },
	} {
		if n := testing.AllocsPerRun(50, f); n >= 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	h := New(testKey)
	for name, raw := range map[string][]byte{"text": text(1, 128<<10), "noise": noise(1, 128<<10)} {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, 140<<10)
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				h.Seal(storage.Chunk, raw, dst)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	h := New(testKey)
	for name, raw := range map[string][]byte{"text": text(1, 128<<10), "noise": noise(1, 128<<10)} {
		b.Run(name, func(b *testing.B) {
			blob, dst := h.Seal(storage.Chunk, raw, nil), make([]byte, 0, len(raw))
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := h.Verify(blob, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
