package system

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func do(t *testing.T, v kv.View, c Command) Result {
	t.Helper()
	r, err := DecodeResult(Apply(v, 1, c.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func want(t *testing.T, r Result, code fabric.Code) {
	t.Helper()
	if r.Code != code {
		t.Fatalf("%v (%s), want %v", r.Code, r.Why, code)
	}
}

func data() *Namespace {
	return &Namespace{Info: namespace.Info{
		ID: 7, Name: "data", History: 9,
		Chunking: namespace.Chunking{Algorithm: 1, Min: 1, Mean: 2, Max: 3},
	}}
}

func seeded(t *testing.T) *kv.Mem {
	v := &kv.Mem{}
	want(t, do(t, v, Command{CreateNamespace: data()}), fabric.OK)
	want(t, do(t, v, Command{SetSpoke: &Spoke{Name: "west", Grants: []Grant{{Namespace: "data"}}}}), fabric.OK)
	return v
}

func TestNamespaceIsMadeOnce(t *testing.T) {
	v := seeded(t)
	want(t, do(t, v, Command{CreateNamespace: data()}), fabric.OK)
	other := data()
	other.Info.History = 10
	want(t, do(t, v, Command{CreateNamespace: other}), fabric.Exist)
	other = data()
	other.Info.Name = "data2"
	want(t, do(t, v, Command{CreateNamespace: other}), fabric.Exist)
	if n, ok := GetNamespace(v, "data"); !ok || n != *data() {
		t.Fatalf("namespace is %+v", n)
	}
}

func TestRefusalsChangeNothing(t *testing.T) {
	cases := map[string]struct {
		c    Command
		code fabric.Code
	}{
		"empty":                {Command{}, fabric.Invalid},
		"name with slash":      {Command{SetPortal: &Portal{Name: "a/b", Namespace: "data", Path: "/"}}, fabric.Invalid},
		"name of two":          {Command{SetPortal: &Portal{Name: "ab", Namespace: "data", Path: "/"}}, fabric.Invalid},
		"name too long":        {Command{SetSpoke: &Spoke{Name: string(bytes.Repeat([]byte("a"), 64))}}, fabric.NameTooLong},
		"no namespace":         {Command{SetPortal: &Portal{Name: "abc", Namespace: "other", Path: "/"}}, fabric.NotExist},
		"path with dots":       {Command{SetPortal: &Portal{Name: "abc", Namespace: "data", Path: "/a/../b"}}, fabric.Invalid},
		"relative path":        {Command{SetPortal: &Portal{Name: "abc", Namespace: "data", Path: "a"}}, fabric.Invalid},
		"unknown protocol":     {Command{SetPortal: &Portal{Name: "abc", Namespace: "data", Path: "/", Protocols: []string{"ftp"}}}, fabric.Invalid},
		"grant of nothing":     {Command{SetSpoke: &Spoke{Name: "east", Grants: []Grant{{Namespace: "other"}}}}, fabric.NotExist},
		"token of nobody":      {Command{CreateToken: &Token{Spoke: "east", Uses: 1, Expires: 5}}, fabric.NotExist},
		"token without time":   {Command{Wall: 5, CreateToken: &Token{Spoke: "west", Uses: 1, Expires: 5}}, fabric.Invalid},
		"short secret":         {Command{SetKey: &Key{Access: "abc", Secret: "short"}}, fabric.Invalid},
		"token nobody issued":  {Command{RedeemToken: &Redeem{Spoke: "west"}}, fabric.Denied},
		"namespace without id": {Command{CreateNamespace: &Namespace{Info: namespace.Info{Name: "zero"}}}, fabric.Invalid},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := seeded(t)
			before := dump(v)
			want(t, do(t, v, c.c), c.code)
			if after := dump(v); !bytes.Equal(before, after) {
				t.Fatalf("state changed from %s to %s", before, after)
			}
		})
	}
}

func TestForeignBytesAreRefused(t *testing.T) {
	v := seeded(t)
	before := dump(v)
	for _, p := range []string{"", "x", "{}", `{"Version":2,"RemoveKey":"abc"}`, `{"Version":1,"Unheard":1}`, `{"Version":1,"RemoveKey":"abc"} x`} {
		r, err := DecodeResult(Apply(v, 1, []byte(p)))
		if err != nil || r.Code == fabric.OK {
			t.Errorf("%q: %+v, %v", p, r, err)
		}
	}
	if !bytes.Equal(before, dump(v)) {
		t.Fatal("state changed")
	}
}

func TestTokenWorksAsOftenAsSaid(t *testing.T) {
	v := seeded(t)
	hash := [32]byte{1}
	want(t, do(t, v, Command{Wall: 10, CreateToken: &Token{Hash: hash, Spoke: "west", Uses: 2, Expires: 100}}), fabric.OK)
	want(t, do(t, v, Command{Wall: 20, RedeemToken: &Redeem{Hash: hash, Spoke: "east"}}), fabric.Denied)
	r := do(t, v, Command{Wall: 20, RedeemToken: &Redeem{Hash: hash, Spoke: "west"}})
	want(t, r, fabric.OK)
	if _, ok := r.Spoke.Granted("data"); !ok {
		t.Fatal("the grant did not come with it")
	}
	want(t, do(t, v, Command{Wall: 100, RedeemToken: &Redeem{Hash: hash, Spoke: "west"}}), fabric.Denied)
	want(t, do(t, v, Command{Wall: 99, RedeemToken: &Redeem{Hash: hash, Spoke: "west"}}), fabric.OK)
	want(t, do(t, v, Command{Wall: 99, RedeemToken: &Redeem{Hash: hash, Spoke: "west"}}), fabric.Denied)
}

func TestRevokedSpokeHasNoGrant(t *testing.T) {
	v := seeded(t)
	want(t, do(t, v, Command{SetSpoke: &Spoke{Name: "west", Grants: []Grant{{Namespace: "data"}}, Revoked: true}}), fabric.OK)
	s, _ := GetSpoke(v, "west")
	if _, ok := s.Granted("data"); ok {
		t.Fatal("a revoked spoke has a grant")
	}
}

func TestCommandGolden(t *testing.T) {
	got := Command{Wall: 3, CreateNamespace: data()}.Encode()
	const file = "testdata/command-v1.golden"
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, golden) {
		t.Fatalf("encoding changed: %s", got)
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"Version":1,"RemoveKey":"abc"}`))
	f.Add(Command{CreateNamespace: data()}.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		if _, err := DecodeResult(Apply(&kv.Mem{}, 1, p)); err != nil {
			t.Fatal(err)
		}
	})
}

func dump(v kv.View) []byte {
	var out []byte
	for k, p := range v.Scan(nil, nil) {
		out = append(append(append(out, k...), '='), p...)
		out = append(out, '\n')
	}
	return out
}
