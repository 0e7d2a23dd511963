package consensus

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

func TestEntryGolden(t *testing.T) {
	got := appendEntry(nil, [][]byte{[]byte("one"), nil, []byte("three")})
	want, err := os.ReadFile("testdata/entry-v1.golden")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("encoding changed: %x, golden %x", got, want)
	}
	cmds, err := decodeEntry(want, nil)
	if err != nil || len(cmds) != 3 || string(cmds[0]) != "one" || len(cmds[1]) != 0 || string(cmds[2]) != "three" {
		t.Fatalf("decoded %q, %v", cmds, err)
	}
}

func TestEntryRefusesDamage(t *testing.T) {
	good := appendEntry(nil, [][]byte{[]byte("one"), []byte("two")})
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		if _, err := decodeEntry(bad, nil); !errors.Is(err, fabric.Corrupt) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		if _, err := decodeEntry(good[:i], nil); !errors.Is(err, fabric.Corrupt) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	if _, err := decodeEntry(append(bytes.Clone(good), 0), nil); !errors.Is(err, fabric.Corrupt) {
		t.Errorf("a byte more: %v", err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(appendEntry(nil, nil))
	f.Add(appendEntry(nil, [][]byte{[]byte("one")}))
	f.Fuzz(func(t *testing.T, p []byte) {
		cmds, err := decodeEntry(p, nil)
		if err != nil {
			return
		}
		if again := appendEntry(nil, cmds); len(again) > len(p) {
			t.Fatalf("%x decodes to a longer %x", p, again)
		}
	})
}
