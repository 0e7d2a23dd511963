package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Size is a number of bytes, written with its unit: "512MiB", "10GB", "4096B".
type Size struct{ Bytes int64 }

var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(p []byte) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(string(p), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			return fmt.Errorf("%q is not a size", p)
		}
		s.Bytes = n * u.bytes
		return nil
	}
	return fmt.Errorf("%q is a size without a unit, such as \"512MiB\"", p)
}

// Duration is a time span, written with its unit: "15s", "40ms".
type Duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(p []byte) (err error) {
	if d.Duration, err = time.ParseDuration(string(p)); err != nil || d.Duration < 0 {
		return fmt.Errorf("%q is not a time span, such as \"15s\"", p)
	}
	return nil
}

// Config is one node's file: a hub, a spoke, or both.
type Config struct {
	Hub   *HubConfig   `toml:"hub"`
	Spoke *SpokeConfig `toml:"spoke"`
}

// HubConfig configures a hub node.
type HubConfig struct {
	// Name of this node among the hub's. Default "hub-1".
	Name string `toml:"name"`
	// Domain is the trust domain in certificates. Default "spokefs".
	Domain string `toml:"domain"`
	// Data is the folder of state, Raft log and certificates. Needed; one process at a time.
	Data string `toml:"data"`
	// Listen is where spokes reach this node. Default "127.0.0.1:7070": opening it to others is a
	// decision.
	Listen string `toml:"listen"`
	// Advertise is the address put into join tokens. Default Listen.
	Advertise string `toml:"advertise"`
	// Lease is L: how long a spoke may serve what it holds without an answer; 5s to 60s. Default 15s.
	Lease  Duration     `toml:"lease"`
	Bucket BucketConfig `toml:"bucket"`
}

// BucketConfig says where packs are kept.
type BucketConfig struct {
	// Kind is "folder" (default) or "s3".
	Kind string `toml:"kind"`
	// Path of a folder bucket. Default "bucket" in Data.
	Path string `toml:"path"`
	// Endpoint is the S3 server's URL; empty: AWS.
	Endpoint string `toml:"endpoint"`
	// Bucket is the S3 bucket's name.
	Bucket string `toml:"bucket"`
	// Prefix is put before every key.
	Prefix string `toml:"prefix"`
	// Region defaults to "us-east-1".
	Region string `toml:"region"`
	// Credentials is a file with the access key on its first line and the secret on its second,
	// readable by its owner alone; empty: the environment, as the AWS SDK has it.
	Credentials string `toml:"credentials"`
}

// SpokeConfig configures a spoke node.
type SpokeConfig struct {
	// Data is the folder of cache, journal and certificate. Needed; one process at a time.
	Data string `toml:"data"`
	// Hub is the hub's address; the join token's if empty.
	Hub string `toml:"hub"`
	// Cache bounds the chunk cache on disk. Default 10GiB.
	Cache Size `toml:"cache"`
	// Journal bounds the writes not yet at the hub. Default 4GiB.
	Journal Size `toml:"journal"`
	// Wan shapes the link to the hub, as "40ms,200mbit"; empty: as it is. For trying things out.
	Wan string `toml:"wan"`
	// Prefetch switches read-ahead beyond what is asked for. Default true.
	Prefetch *bool       `toml:"prefetch"`
	NFS      NFSConfig   `toml:"nfs"`
	S3       S3Config    `toml:"s3"`
	FUSE     []FUSEMount `toml:"fuse"`
}

// NFSConfig configures the NFS front end.
type NFSConfig struct {
	// Listen serves NFS and MOUNT; empty: not.
	Listen string `toml:"listen"`
	// Portmap serves the port mapper, TCP and UDP; empty: not. Clients without port options need
	// it on port 111.
	Portmap string `toml:"portmap"`
}

// S3Config configures the S3 front end.
type S3Config struct {
	// Listen serves S3; empty: not.
	Listen string `toml:"listen"`
	// Region that clients sign for. Default "us-east-1".
	Region string `toml:"region"`
	// BucketsIn names a namespace in which S3 clients may create buckets: folders of its root, each
	// with a portal of its own. At a hub alone; empty: buckets are made by the operator.
	BucketsIn string `toml:"buckets_in"`
}

// FUSEMount is one portal mounted on this machine.
type FUSEMount struct {
	Portal string `toml:"portal"`
	Dir    string `toml:"dir"`
}

// Load reads a file. An error names the file, and the line where there is one.
func Load(path string) (Config, error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	return Parse(path, p)
}

// Parse is Load of bytes; name is for errors.
func Parse(name string, p []byte) (Config, error) {
	var c Config
	err := toml.NewDecoder(bytes.NewReader(p)).DisallowUnknownFields().Decode(&c)
	var strict *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &strict):
		var errs []error
		for _, e := range strict.Errors {
			row, _ := e.Position()
			errs = append(errs, fmt.Errorf("%s:%d: unknown key %q", name, row, strings.Join(e.Key(), ".")))
		}
		return c, errors.Join(errs...)
	case errors.As(err, &bad):
		row, col := bad.Position()
		return c, fmt.Errorf("%s:%d:%d: %s", name, row, col, strings.TrimPrefix(bad.Error(), "toml: "))
	case err != nil:
		return c, fmt.Errorf("%s:%d: %w", name, lineOf(p, err), err)
	}
	if c.Hub != nil {
		c.Hub.defaults()
		err = errors.Join(err, c.Hub.validate())
	}
	if c.Spoke != nil {
		c.Spoke.defaults()
		err = errors.Join(err, c.Spoke.validate())
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// lineOf finds the line of an error that go-toml gives without a position, as it does where a
// number stands for a text: the first line with which the file fails in the same words.
func lineOf(p []byte, err error) int {
	line := 0
	for i := 0; i < len(p); i++ {
		if p[i] != '\n' {
			continue
		}
		line++
		var c Config
		if e := toml.Unmarshal(p[:i], &c); e != nil && e.Error() == err.Error() {
			return line
		}
	}
	return line + 1
}

func orDefault(s *string, d string) {
	if *s == "" {
		*s = d
	}
}

// WithDefaults fills c's zero fields and returns it.
func (c *HubConfig) WithDefaults() *HubConfig {
	c.defaults()
	return c
}

func (c *HubConfig) defaults() {
	orDefault(&c.Name, "hub-1")
	orDefault(&c.Domain, "spokefs")
	orDefault(&c.Listen, "127.0.0.1:7070")
	orDefault(&c.Bucket.Kind, "folder")
	orDefault(&c.Bucket.Region, "us-east-1")
	orDefault(&c.Bucket.Path, filepath.Join(c.Data, "bucket"))
	if c.Lease.Duration == 0 {
		c.Lease.Duration = 15 * time.Second
	}
}

func (c *HubConfig) validate() error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, errors.New("hub.data: the folder of the hub's state is needed"))
	}
	if c.Lease.Duration < 5*time.Second || c.Lease.Duration > 60*time.Second {
		errs = append(errs, fmt.Errorf("hub.lease: %v is not within 5s and 60s", c.Lease.Duration))
	}
	switch c.Bucket.Kind {
	case "folder":
	case "s3":
		if c.Bucket.Bucket == "" {
			errs = append(errs, errors.New("hub.bucket.bucket: the name of the S3 bucket is needed"))
		}
		if f := c.Bucket.Credentials; f != "" {
			errs = append(errs, checkSecret("hub.bucket.credentials", f))
		}
	default:
		errs = append(errs, fmt.Errorf("hub.bucket.kind: %q is neither \"folder\" nor \"s3\"", c.Bucket.Kind))
	}
	return errors.Join(errs...)
}

// checkSecret refuses a file that others than its owner may read (D57).
func checkSecret(key, file string) error {
	st, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: %s is readable by others (mode %o): chmod 600", key, file, st.Mode().Perm())
	}
	return nil
}

// WithDefaults fills c's zero fields and returns it.
func (c *SpokeConfig) WithDefaults() *SpokeConfig {
	c.defaults()
	return c
}

func (c *SpokeConfig) defaults() {
	if c.Cache.Bytes == 0 {
		c.Cache.Bytes = 10 << 30
	}
	if c.Journal.Bytes == 0 {
		c.Journal.Bytes = 4 << 30
	}
	if c.Prefetch == nil {
		on := true
		c.Prefetch = &on
	}
	orDefault(&c.S3.Region, "us-east-1")
}

func (c *SpokeConfig) validate() error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, errors.New("spoke.data: the folder of the spoke's cache and journal is needed"))
	}
	for i, m := range c.FUSE {
		if m.Portal == "" || m.Dir == "" {
			errs = append(errs, fmt.Errorf("spoke.fuse[%d]: portal and dir are needed", i))
		}
	}
	if c.Cache.Bytes < 64<<20 || c.Journal.Bytes < 16<<20 {
		errs = append(errs, errors.New("spoke.cache needs 64MiB, spoke.journal 16MiB at the least"))
	}
	return errors.Join(errs...)
}
