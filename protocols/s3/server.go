package s3

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3err"

	"github.com/spokefs/spokefs/fabric"
)

// Key is an access key and who its holder is.
type Key struct {
	Access  string
	Secret  string
	UID     uint32
	GID     uint32
	Buckets []string // portals it may use; empty: all
}

// Keys looks up access keys; it is asked on every request and answers from memory.
type Keys interface {
	Key(access string) (Key, bool)
}

// Buckets makes and removes portals for S3 clients. Without it CreateBucket is refused.
type Buckets interface {
	// CreateBucket makes an empty portal; Exist if there is one of that name.
	CreateBucket(ctx context.Context, name string, who fabric.Cred) error
	// DeleteBucket removes a portal that shows nothing; NotEmpty if it does.
	DeleteBucket(ctx context.Context, name string) error
}

// Config of the front end. WithDefaults fills zero fields.
type Config struct {
	// Listen is the address to serve, with a port.
	Listen string
	// Region that clients sign for. Default "us-east-1".
	Region string
	// MaxConnections and MaxRequests bound what is served at once. Default 1024 and 512.
	MaxConnections int
	MaxRequests    int
}

// WithDefaults returns c with its zero fields filled.
func (c Config) WithDefaults() Config {
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 1024
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = 512
	}
	return c
}

// Server is the front end.
type Server struct {
	cfg   Config
	store *store
	iam   *iam
}

// New returns a server; buckets may be nil.
func New(cfg Config, portals fabric.Portals, keys Keys, buckets Buckets) *Server {
	return &Server{
		cfg: cfg.WithDefaults(), iam: &iam{keys: keys},
		store: &store{portals: portals, keys: keys, buckets: buckets},
	}
}

// Run serves until ctx ends. Only one may run at a time in a process.
func (s *Server) Run(ctx context.Context) error {
	if _, _, err := net.SplitHostPort(s.cfg.Listen); err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	var secret [32]byte // of versitygw's root account, which nobody has
	rand.Read(secret[:])
	err := embedgw.RunVersityGW(ctx, s.store, &embedgw.Config{
		RootUserAccess: "root-" + hex.EncodeToString(secret[:8]), RootUserSecret: hex.EncodeToString(secret[8:]),
		Region: s.cfg.Region, Ports: []string{s.cfg.Listen}, IAMService: s.iam,
		MaxConnections: s.cfg.MaxConnections, MaxRequests: s.cfg.MaxRequests,
		MultipartMaxParts: maxParts, Quiet: true, KeepAlive: true, HealthPath: "/spokefs-health",
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("s3: %w", err)
	}
	return nil
}

// iam answers versitygw's questions about accounts. Every key is an admin to the gateway, which
// leaves the decision to the files' own rules and the key's list of buckets.
type iam struct{ keys Keys }

// GetUserAccount implements auth.IAMService.
func (i *iam) GetUserAccount(access string) (auth.Account, error) {
	k, ok := i.keys.Key(access)
	if !ok {
		return auth.Account{}, auth.ErrNoSuchUser
	}
	return auth.Account{Access: k.Access, Secret: k.Secret, Role: auth.RoleAdmin, UserID: int(k.UID), GroupID: int(k.GID)}, nil
}

// ResolveAccounts implements auth.IAMService.
func (i *iam) ResolveAccounts(accesses []string) ([]string, error) {
	var unknown []string
	for _, a := range accesses {
		if _, ok := i.keys.Key(a); !ok {
			unknown = append(unknown, a)
		}
	}
	return unknown, nil
}

// Accounts are the hub's to administer, not S3's.

// CreateAccount implements auth.IAMService.
func (i *iam) CreateAccount(auth.Account) error {
	return s3err.GetAPIError(s3err.ErrAdminMethodNotSupported)
}

// UpdateUserAccount implements auth.IAMService.
func (i *iam) UpdateUserAccount(string, auth.MutableProps) error {
	return s3err.GetAPIError(s3err.ErrAdminMethodNotSupported)
}

// DeleteUserAccount implements auth.IAMService.
func (i *iam) DeleteUserAccount(string) error {
	return s3err.GetAPIError(s3err.ErrAdminMethodNotSupported)
}

// ListUserAccounts implements auth.IAMService.
func (i *iam) ListUserAccounts() ([]auth.Account, error) {
	return nil, s3err.GetAPIError(s3err.ErrAdminMethodNotSupported)
}

// Shutdown implements auth.IAMService.
func (i *iam) Shutdown() error { return nil }

// store is the backend. What it does not override answers 501.
type store struct {
	backend.BackendUnsupported
	portals fabric.Portals
	keys    Keys
	buckets Buckets
}

// String implements backend.Backend.
func (s *store) String() string { return "spokefs" }

// account is who the gateway says is calling.
func account(ctx context.Context) auth.Account {
	a, _ := ctx.Value("account").(auth.Account)
	return a
}

// cred is the caller as the files know it.
func cred(ctx context.Context) fabric.Cred {
	a := account(ctx)
	if a.Access == "" { // anonymous
		return fabric.Cred{UID: 65534, GID: 65534}
	}
	return fabric.Cred{UID: uint32(a.UserID), GID: uint32(a.GroupID)}
}

// view is one caller's view of one bucket.
type view struct {
	fabric.FS
	portal fabric.Portal
	bucket string
	who    fabric.Cred
}

// open gives the caller's view of a bucket, if its key may use it.
func (s *store) open(ctx context.Context, bucket string) (*view, error) {
	if access := account(ctx).Access; access != "" {
		k, ok := s.keys.Key(access)
		if ok && len(k.Buckets) > 0 && !contains(k.Buckets, bucket) {
			return nil, s3err.GetAPIError(s3err.ErrAccessDenied)
		}
	}
	p, err := s.portals.Portal(bucket)
	if err != nil || !shows(p) {
		return nil, s3err.GetBucketErr(s3err.ErrNoSuchBucket, bucket)
	}
	who := cred(ctx)
	return &view{FS: p.As(who), portal: p, bucket: bucket, who: who}, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// shows says whether the portal may be shown by S3.
func shows(p fabric.Portal) bool {
	protocols := p.Policy().Protocols
	return len(protocols) == 0 || contains(protocols, "s3")
}

// asRoot is the same bucket without mode bits in the way, for what is the gateway's own.
func (v *view) asRoot() *view {
	return &view{FS: v.portal.As(fabric.Root()), portal: v.portal, bucket: v.bucket}
}
