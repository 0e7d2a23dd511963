package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigErrorsNameTheLine(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a\nb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, text, want string }{
		{"unknown key", "[hub]\ndata = \"/d\"\ncolour = 1\n", "f.toml:3: unknown key \"hub.colour\""},
		{"unknown table", "[hub]\ndata = \"/d\"\n[hbu]\nx = 1\n", "f.toml:3: unknown key \"hbu\""},
		{"two unknown keys", "[hub]\na = 1\ndata = \"/d\"\nb = 1\n", "f.toml:4: unknown key \"hub.b\""},
		{"size without unit", "[spoke]\ndata = \"/d\"\ncache = \"10\"\n", "f.toml:3:"},
		{"size as number", "[spoke]\ndata = \"/d\"\ncache = 10\n", "f.toml:3:"},
		{"duration without unit", "[hub]\ndata = \"/d\"\nlease = \"15\"\n", "f.toml:3:"},
		{"syntax", "[hub\n", "f.toml:1:"},
		{"doubled", "[hub]\ndata = \"/d\"\ndata = \"/e\"\n", "f.toml:3"},
		{"no data", "[hub]\n", "hub.data"},
		{"lease too long", "[hub]\ndata = \"/d\"\nlease = \"2m\"\n", "hub.lease"},
		{"unknown bucket", "[hub]\ndata = \"/d\"\n[hub.bucket]\nkind = \"tape\"\n", "hub.bucket.kind"},
		{"secret for all to read", "[hub]\ndata = \"/d\"\n[hub.bucket]\nkind = \"s3\"\nbucket = \"abc\"\ncredentials = \"" + secret + "\"\n", "chmod 600"},
		{"mount without dir", "[spoke]\ndata = \"/d\"\n[[spoke.fuse]]\nportal = \"main\"\n", "spoke.fuse[0]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f.toml", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "f.toml") {
				t.Fatalf("error %q does not say %q", err, c.want)
			}
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := Parse("f.toml", []byte("[hub]\ndata = \"/d\"\n[spoke]\ndata = \"/s\"\ncache = \"2GiB\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.Hub.Listen, "127.0.0.1:") {
		t.Errorf("the hub listens on %s without being told", c.Hub.Listen)
	}
	if c.Spoke.Cache.Bytes != 2<<30 || c.Spoke.NFS.Listen != "" || !*c.Spoke.Prefetch {
		t.Errorf("spoke is %+v", c.Spoke)
	}
}
