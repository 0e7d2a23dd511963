package nfs

import (
	"bytes"
	"slices"
	"testing"
)

func pmap(program, version, procedure uint32, args ...uint32) []byte {
	return slices.Concat(be(9, 0, 2, program, version, procedure, 0, 0, 0, 0), be(args...))
}

func accepted(state uint32, rest ...uint32) []byte {
	return slices.Concat(be(9, 1, 0, 0, 0, state), be(rest...))
}

func TestPortmap(t *testing.T) {
	p := Ports{NFS: 2049, Mount: 20048}
	for _, c := range []struct {
		name     string
		in, want []byte
	}{
		{"null", pmap(100000, 2, 0), accepted(0)},
		{"null with a body", pmap(100000, 2, 0, 1, 2), accepted(0)},
		{"nfs", pmap(100000, 2, 3, 100003, 3, 6, 0), accepted(0, 2049)},
		{"mount", pmap(100000, 2, 3, 100005, 3, 6, 0), accepted(0, 20048)},
		{"nfs 4", pmap(100000, 2, 3, 100003, 4, 6, 0), accepted(0, 0)},
		{"nfs by udp", pmap(100000, 2, 3, 100003, 3, 17, 0), accepted(0, 0)},
		{"nlm", pmap(100000, 2, 3, 100021, 3, 6, 0), accepted(0, 0)},
		{"short getport", pmap(100000, 2, 3, 100003, 3, 6), accepted(4)},
		{"dump", pmap(100000, 2, 4), accepted(0, 1, 100003, 3, 6, 2049, 1, 100005, 3, 6, 20048, 0)},
		{"set", pmap(100000, 2, 1, 100003, 3, 6, 1), accepted(3)},
		{"callit", pmap(100000, 2, 5), accepted(3)},
		{"version 3", pmap(100000, 3, 0), accepted(2, 2, 2)},
		{"version 4", pmap(100000, 4, 3), accepted(2, 2, 2)},
		{"other program", pmap(100227, 3, 0), accepted(1)},
		{"RPC 3", be(9, 0, 3, 100000, 2, 0), be(9, 1, 1, 0, 2, 2)},
		{"bad cred", be(9, 0, 2, 100000, 2, 0, 6, 0, 0, 0), be(9, 1, 1, 1, 1)},
		{"a reply", be(9, 1, 0, 0, 0, 0), nil},
		{"short", be(9), nil},
	} {
		got, ok := p.appendPortmap(nil, c.in)
		if ok != (c.want != nil) || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x, %v; want %x", c.name, got, ok, c.want)
		}
	}
	if got, _ := (Ports{}).appendPortmap(nil, pmap(100000, 2, 4)); !bytes.Equal(got, accepted(0, 0)) {
		t.Errorf("dump of nothing: %x", got)
	}
}
