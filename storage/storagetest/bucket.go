package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/storage"
)

// Bucket holds a storage.Bucket to its contract. open gives an empty one.
func Bucket(t *testing.T, open func(t *testing.T) storage.Bucket) {
	t.Run("put and get", func(t *testing.T) {
		b := open(t)
		body := bytes.Repeat([]byte("0123456789"), 10_000)
		if err := b.Put(t.Context(), "ns/ab/one", body); err != nil {
			t.Fatal(err)
		}
		for _, r := range [][2]int{{0, len(body)}, {5, 10}, {len(body) - 1, 1}} {
			p := make([]byte, r[1])
			if err := b.Get(t.Context(), "ns/ab/one", int64(r[0]), p); err != nil || !bytes.Equal(p, body[r[0]:r[0]+r[1]]) {
				t.Errorf("range %v: %v", r, err)
			}
		}
		if n, err := b.Size(t.Context(), "ns/ab/one"); err != nil || n != int64(len(body)) {
			t.Errorf("size %d, %v", n, err)
		}
		if err := b.Get(t.Context(), "ns/ab/one", int64(len(body)-5), make([]byte, 10)); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("beyond the end: %v", err)
		}
	})
	t.Run("written once", func(t *testing.T) {
		b := open(t)
		if err := b.Put(t.Context(), "k", []byte("first")); err != nil {
			t.Fatal(err)
		}
		if err := b.Put(t.Context(), "k", []byte("first")); err != nil {
			t.Errorf("the same again: %v", err)
		}
		for _, other := range []string{"other", "second body"} {
			if err := b.Put(t.Context(), "k", []byte(other)); !errors.Is(err, storage.ErrExist) {
				t.Errorf("other bytes: %v", err)
			}
		}
		p := make([]byte, 5)
		if err := b.Get(t.Context(), "k", 0, p); err != nil || string(p) != "first" {
			t.Errorf("it has %q, %v", p, err)
		}
	})
	t.Run("one of many writers", func(t *testing.T) {
		b := open(t)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []int
		for i := range 8 {
			wg.Go(func() {
				if b.Put(t.Context(), "race", fmt.Append(nil, "writer ", i)) == nil {
					mu.Lock()
					won = append(won, i)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("writers %v won", won)
		}
		p := make([]byte, 8)
		if err := b.Get(t.Context(), "race", 0, p); err != nil || string(p) != fmt.Sprint("writer ", won[0]) {
			t.Errorf("it has %q, %v", p, err)
		}
	})
	t.Run("missing and deleted", func(t *testing.T) {
		b := open(t)
		if err := b.Get(t.Context(), "no", 0, make([]byte, 1)); !errors.Is(err, storage.ErrNotExist) {
			t.Errorf("get: %v", err)
		}
		if _, err := b.Size(t.Context(), "no"); !errors.Is(err, storage.ErrNotExist) {
			t.Errorf("size: %v", err)
		}
		if err := b.Delete(t.Context(), "no"); err != nil {
			t.Errorf("delete: %v", err)
		}
		if err := errors.Join(b.Put(t.Context(), "yes", []byte("x")), b.Delete(t.Context(), "yes")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Size(t.Context(), "yes"); !errors.Is(err, storage.ErrNotExist) {
			t.Errorf("after delete: %v", err)
		}
	})
	t.Run("list", func(t *testing.T) {
		b := open(t)
		want := []string{"OWNER", "n/a/1", "n/a/2", "n/b/1", "nn/x"}
		for _, k := range want {
			if err := b.Put(t.Context(), k, []byte(k)); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			prefix, after string
			want          []string
		}{{"", "", want}, {"n/", "", want[1:4]}, {"n/", "n/a/1", want[2:4]}, {"zz", "", nil}} {
			var got []string
			for o, err := range b.List(t.Context(), c.prefix, c.after) {
				if err != nil {
					t.Fatal(err)
				}
				if o.Size != int64(len(o.Key)) {
					t.Errorf("%s has size %d", o.Key, o.Size)
				}
				got = append(got, o.Key)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("list %q after %q: %q, want %q", c.prefix, c.after, got, c.want)
			}
		}
	})
	t.Run("bad keys", func(t *testing.T) {
		b := open(t)
		for _, k := range []string{"", strings.Repeat("k", storage.MaxKeyLen+1)} {
			if err := b.Put(t.Context(), k, []byte("x")); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("key of %d bytes: %v", len(k), err)
			}
		}
	})
}
