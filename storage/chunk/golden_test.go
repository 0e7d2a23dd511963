package chunk

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/spokefs/spokefs/storage"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestGolden holds docs/formats/chunk.md: cuts, names and frames that exist must stay readable,
// and cuts and names must stay the same.
func TestGolden(t *testing.T) {
	h := New(testKey)
	var out bytes.Buffer
	for _, p := range []Params{small, {FastCDC, 1000, 3000, 10_000}} {
		fmt.Fprintf(&out, "params %d %d %d %d\n", p.Algorithm, p.Min, p.Mean, p.Max)
		for _, c := range cut(h.Cutter(p), append(noise(1, 20_000), text(1, 5000)...), whole) {
			fmt.Fprintf(&out, "chunk %d %x\n", len(c), h.Chunk(c).Sum)
		}
	}
	fmt.Fprintf(&out, "node %x\n", h.Node([]byte("a node")).Sum)
	golden(t, "testdata/golden.txt", out.Bytes())

	raw := bytes.Repeat([]byte("a frame that stays readable\n"), 20)
	const frame = "testdata/frame.zst"
	if *rewrite {
		golden(t, frame, h.Seal(storage.Chunk, raw, nil).Data)
	}
	data, err := os.ReadFile(frame)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Verify(storage.Blob{Ref: h.Chunk(raw), Kind: storage.Chunk, Form: storage.Zstd, Data: data}, nil)
	if err != nil || !bytes.Equal(got, raw) {
		t.Fatal(err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if the format changed on purpose, it needs a new version:\n%s", name, got)
	}
}
