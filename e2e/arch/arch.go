// Package arch checks the shape of the project: which package may import which, which libraries
// have which doors, which cores are pure. Its table is the one place where layers are written
// down; a change of it comes with a decision record.
package arch

// module is the path all packages of ours start with.
const module = "github.com/spokefs/spokefs"

// rule says what a package may import of ours (module-relative paths; "x/..." is x and all below).
type rule struct {
	imports []string
	// pure: a core, which decides and does nothing: no goroutine, channel, clock, lock, I/O or
	// random source, and no range over a map without a reason given in a comment.
	pure bool
}

var all = []string{"..."}

// table lists every package that exists; packages not listed fail, and so do entries without a
// package. Test files are bound by it too, but may import suites and the packages in testOnly.
var table = map[string]rule{
	// 0 words
	"fabric":       {},
	"fabric/kv":    {},
	"storage":      {},
	"storage/disk": {},
	"proto/...":    {},
	"prefetch":     {imports: []string{"fabric"}},

	// 1 core
	"storage/chunk":    {imports: []string{"storage"}},
	"cache/evict":      {imports: []string{"storage"}, pure: true},
	"fabric/manifest":  {imports: []string{"storage", "storage/chunk"}},
	"fabric/rights":    {imports: []string{"fabric"}, pure: true},
	"fabric/namespace": {imports: []string{"fabric", "fabric/kv", "storage"}, pure: true},
	"fabric/system":    {imports: []string{"fabric", "fabric/kv", "fabric/namespace", "storage"}, pure: true},
	"prefetch/stream":  {imports: []string{"fabric", "prefetch"}, pure: true},
	"prefetch/gate":    {imports: []string{"fabric", "prefetch"}, pure: true},

	// 2 engine
	"storage/mem":            {imports: []string{"storage", "storage/chunk", "fabric/manifest"}},
	"storage/folder":         {imports: []string{"storage", "storage/disk"}},
	"storage/s3":             {imports: []string{"storage"}},
	"storage/pack":           {imports: []string{"storage", "storage/chunk", "fabric/manifest"}},
	"storage/retry":          {imports: []string{"storage"}},
	"storage/limit":          {imports: []string{"storage"}},
	"cache":                  {imports: []string{"storage", "storage/disk", "storage/chunk", "cache/evict"}},
	"cache/journal":          {imports: []string{"fabric", "storage/disk"}},
	"fabric/identity":        {imports: []string{"fabric", "storage/disk"}},
	"fabric/consensus":       {imports: []string{"fabric", "storage/disk"}},
	"fabric/consensus/model": {imports: []string{"fabric"}},
	"fabric/memfs":           {imports: []string{"fabric"}},
	"fabric/state":           {imports: []string{"fabric", "fabric/kv", "fabric/namespace", "fabric/system", "storage/disk"}},
	"storage/storagetest":    {imports: []string{"storage", "storage/chunk", "storage/disk", "fabric/manifest"}},
	"fabric/fstest":          {imports: []string{"fabric"}},
	"fabric/hub/logtest":     {imports: []string{"fabric", "fabric/hub"}},
	"protocols/internal/...": {imports: []string{"fabric"}},

	// 3 role
	"fabric/hub":     {imports: []string{"fabric", "fabric/kv", "fabric/namespace", "fabric/system", "fabric/rights", "fabric/manifest", "storage", "storage/chunk", "storage/pack"}},
	"fabric/spoke":   {imports: []string{"fabric", "fabric/namespace", "fabric/rights", "fabric/manifest", "cache", "cache/journal", "prefetch", "prefetch/gate", "storage", "storage/chunk"}},
	"fabric/wire":    {imports: []string{"fabric", "fabric/namespace", "fabric/system", "fabric/rights", "fabric/identity", "storage", "proto/..."}},
	"fabric/admin":   {imports: []string{"fabric", "fabric/namespace", "fabric/system", "fabric/rights", "fabric/identity", "storage", "proto/..."}},
	"fabric/observe": {imports: []string{"fabric", "storage"}},

	// 4 front
	"protocols/nfs":  {imports: []string{"fabric", "protocols/internal/..."}},
	"protocols/fuse": {imports: []string{"fabric", "protocols/internal/..."}},
	"protocols/s3":   {imports: []string{"fabric", "protocols/internal/..."}},

	// 5, 6
	"cmd/spokefs/node": {imports: all},
	"cmd/spokefs":      {imports: all},
	"e2e/...":          {imports: all},
}

// testOnly may be imported by any test, and by nothing else outside e2e.
var testOnly = []string{"fabric/fstest", "fabric/memfs", "storage/chunk", "fabric/hub/logtest", "storage/storagetest", "storage/mem", "storage/disk", "fabric/kv", "fabric/consensus/model", "e2e/..."}

// doors says which packages may import a library; the key is a prefix of its import paths.
var doors = map[string][]string{
	"github.com/cockroachdb/pebble/v2/vfs": {"storage/disk"},
	"github.com/cockroachdb/pebble/v2":     {"fabric/state", "cache", "storage/disk"},
	"github.com/hashicorp/raft":            {"fabric/consensus"},
	"github.com/aws/":                      {"storage/s3", "protocols/s3", "e2e/..."},
	"github.com/versity/":                  {"protocols/s3"},
	"github.com/hanwen/go-fuse":            {"protocols/fuse", "e2e/..."},
	"github.com/buildbarn/go-xdr":          {"protocols/nfs"},
	"google.golang.org/grpc":               {"fabric/wire", "fabric/admin", "proto/..."},
}

// planned lists entries whose package is still to come.
var planned = map[string]bool{
	"cache/evict":            true,
	"fabric/observe":         true,
	"prefetch/gate":          true,
	"prefetch/stream":        true,
	"protocols/internal/...": true,
}
