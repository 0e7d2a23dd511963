package fabric

import "time"

// Limits of names and paths; part of the contract shown to clients.
const (
	MaxName       = 255            // bytes of one name
	MaxTarget     = 4095           // bytes of a symbolic link's target
	MaxDepth      = 4096           // directories from an entry up to the root
	MaxXattrName  = 255            // bytes
	MaxXattrValue = 64 << 10       // bytes of one value
	MaxXattrs     = 64 << 10       // bytes of all names and values of one inode
	MaxLinks      = 65000          // names of one file, and subdirectories of one directory
	MaxGroups     = 64             // supplementary groups a Cred may carry
	MaxFileSize   = int64(1) << 50 // bytes
	// MaxInline is the size up to which content travels inside a command (A49), in bytes.
	MaxInline = 16 << 10
)

// ContentXattr is an extended attribute that describes the content of a file: any change of
// content or size drops it, in the same step. S3 keeps ETag and checksums in it.
const ContentXattr = "user.spokefs.content"

// Stuck is how long a front end waits on Unavailable or Held before it tells a client to come
// back, when its protocol can say so.
const Stuck = 5 * time.Second
