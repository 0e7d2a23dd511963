package admin

import (
	"context"
	"io"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/system"
)

// Status is what `spokefs status` shows of one node. It is taken at one moment, and says what is
// so, not what should be.
type Status struct {
	Node       string        `json:"node"`
	Role       string        `json:"role"` // "hub", "spoke" or "hub+spoke"
	Version    string        `json:"version"`
	PID        int           `json:"pid"`
	Up         time.Duration `json:"up_ns"`
	Namespaces []Namespace   `json:"namespaces"`
	Portals    []string      `json:"portals"`
	Endpoints  []Endpoint    `json:"endpoints"`
	Wan        Wan           `json:"wan"`
	Cache      Cache         `json:"cache"`
}

// Namespace is one namespace as the node sees it. Hub fields are zero at a spoke and the other
// way round.
type Namespace struct {
	Name     string       `json:"name"`
	ID       uint64       `json:"id"`
	Leading  bool         `json:"leading,omitempty"`
	Term     fabric.Term  `json:"term,omitempty"`
	Applied  uint64       `json:"applied,omitempty"`
	Sessions []string     `json:"sessions,omitempty"` // hub: node names
	State    string       `json:"state,omitempty"`    // spoke: live, jeopardy, lapsed, reborn
	Dirty    int          `json:"dirty,omitempty"`    // spoke: files not yet published
	Bytes    int64        `json:"dirty_bytes,omitempty"`
	Parked   int          `json:"parked,omitempty"`
	Usage    fabric.Usage `json:"usage"`
}

// Endpoint is where a protocol is served.
type Endpoint struct {
	Protocol string `json:"protocol"`
	Address  string `json:"address"`
	Note     string `json:"note,omitempty"`
}

// Wan counts bytes between a spoke and its hub since the node started.
type Wan struct {
	Sent     int64 `json:"sent"`     // bytes on the wire, TLS included
	Received int64 `json:"received"` // bytes on the wire, TLS included
	Asked    int64 `json:"asked"`    // bytes clients read
	Raw      int64 `json:"raw"`      // bytes of chunks fetched, uncompressed
	Stored   int64 `json:"stored"`   // bytes of chunks fetched, as shipped
}

// Cache counts what the chunk cache did.
type Cache struct {
	Bytes     int64 `json:"bytes"`
	Limit     int64 `json:"limit"`
	Hits      int64 `json:"hits"`
	Misses    int64 `json:"misses"`
	Corrupt   int64 `json:"corrupt"`
	Evictions int64 `json:"evictions"`
}

// Join is what is asked for a join token.
type Join struct {
	Spoke  string         `json:"spoke"`
	Grants []system.Grant `json:"grants"`
	TTL    time.Duration  `json:"ttl_ns"` // at most an hour for a single use
	Uses   int            `json:"uses"`
}

// Mount is a portal on a directory.
type Mount struct {
	Portal string `json:"portal"`
	Dir    string `json:"dir"`
}

// Problem is one finding of fsck.
type Problem struct {
	Namespace string     `json:"namespace"`
	Ino       fabric.Ino `json:"ino"`
	What      string     `json:"what"`
}

// File is one entry of `spokefs ls`.
type File struct {
	Name string      `json:"name"`
	Attr fabric.Attr `json:"attr"`
}

// Node is what a node offers. All methods may be called at any time; errors carry a Code.
type Node interface {
	Status(ctx context.Context) (Status, error)
	// CreateNamespace makes an empty namespace, served when the call returns.
	CreateNamespace(ctx context.Context, name string) error
	Portals(ctx context.Context) ([]system.Portal, error)
	SetPortal(ctx context.Context, p system.Portal) error
	RemovePortal(ctx context.Context, name string) error
	// Token makes a spoke known, with exactly these grants, and a token for it.
	Token(ctx context.Context, j Join) (token string, err error)
	Spokes(ctx context.Context) ([]system.Spoke, error)
	Revoke(ctx context.Context, spoke string) error
	// SetKey creates or replaces an S3 key; RemoveKey removes it.
	SetKey(ctx context.Context, k system.Key) error
	RemoveKey(ctx context.Context, access string) error
	Keys(ctx context.Context) ([]system.Key, error)
	Fsck(ctx context.Context) ([]Problem, error)
	// Mount mounts a portal on a directory of this machine, which is made if it is not there;
	// Unmount takes it away. They end with the node.
	Mount(ctx context.Context, m Mount) error
	Unmount(ctx context.Context, dir string) error
	// List, Read, Write and MakeDir look into a portal as root.
	List(ctx context.Context, portal, path string) ([]File, error)
	Read(ctx context.Context, portal, path string, w io.Writer) error
	Write(ctx context.Context, portal, path string, r io.Reader) error
	MakeDir(ctx context.Context, portal, path string) error
}
