package namespace

import (
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage"
)

// Content is what a file holds: Inline, if it is not nil, has all Size bytes; else Root names the
// manifest, and a zero Root is one hole of Size bytes.
type Content struct {
	Size   int64
	Used   int64 // bytes of data, holes not counted
	Root   storage.Ref
	Inline []byte
}

// Xattr is one extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

// Inode is all that R covers: attributes, content, link target and extended attributes.
type Inode struct {
	fabric.Attr
	Content  Content // regular files; Size and Used agree with Attr
	Target   string  // symbolic links
	Verifier uint64  // of NFSv3's exclusive create; 0 none
	Xattrs   []Xattr // sorted by name
	// Partial says that Inline and Xattrs were left out to keep a listing small.
	Partial bool
}

// Found is one step of a Lookup: the entry, or its absence (Inode.Ino is 0).
type Found struct {
	Dir    fabric.Ino
	Name   string
	Cookie fabric.Cookie
	Inode  Inode
	// Blobs are the root node and the first bytes of the last step, if asked for.
	Blobs []storage.Blob
}

// Dirent is one entry of a List page.
type Dirent struct {
	Name   string
	Cookie fabric.Cookie
	Inode  Inode // Partial
}

// Info is what a node must know of a namespace to work in it.
type Info struct {
	ID      uint64 // stable; part of handles and of st_dev
	Name    string
	History uint64 // new after a restore
	// DigestKey keys the digests of chunks and nodes; HandleKey authenticates NFS handles.
	DigestKey [32]byte
	HandleKey [32]byte
	Chunking  Chunking
	ReadOnly  bool // the grant of who asks
}

// Chunking is how content is cut; recorded with the namespace, since a change ends its dedup.
type Chunking struct {
	Algorithm uint8 // 1: chunk.FastCDC as docs/formats/chunk.md has it
	Min       uint32
	Mean      uint32
	Max       uint32
}

// Ticket lets a node go on with, or close, a session it had (A1, A10).
type Ticket struct {
	Session fabric.SessionID
	Epoch   uint64
	Secret  [32]byte
}
