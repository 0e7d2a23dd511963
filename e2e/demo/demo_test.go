package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/spokefs/spokefs/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// small makes a tree with files of every kind of size: empty, inline, one chunk, several chunks, and
// twice the same content.
func small(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	r := rand.NewChaCha8([32]byte{1})
	sizes := []int{0, 1, 100, 4000, 16 << 10, 16<<10 + 1, 70_000, 300_000, 2 << 20}
	for i := range 120 {
		sub := filepath.Join(dir, fmt.Sprint("d", i%7), fmt.Sprint("e", i%3))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, sizes[i%len(sizes)])
		if i%5 != 0 {
			r.Read(p)
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprint("f", i)), p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The whole path, as processes, over a shaped link: every byte by every protocol, both ways.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and takes a while")
	}
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = Run(t.Context(), Config{Dir: small(t), Wan: "10ms,500mbit", JSON: true, Out: &out, Progress: t.Output(), Binary: bin})
	if err != nil {
		t.Fatal(err)
	}
	var table Table
	if err := json.Unmarshal(out.Bytes(), &table); err != nil {
		t.Fatal(err)
	}
	if table.Files != 120 || len(table.Passes) < 3 || table.Edits == 0 || table.Received == 0 {
		t.Errorf("the table is %+v", table)
	}
	if cold, warm := table.Passes[0], table.Passes[len(table.Passes)-1]; warm.Wan*10 > cold.Wan {
		t.Errorf("the warm pass brought %d bytes over the WAN, the cold one %d", warm.Wan, cold.Wan)
	}
}
