// Package nfs is to serve portals over NFS version 3. What is here so far is what every request
// passes first: the record reader, the parser of call headers and credentials, the map from
// fabric.Code to NFS status; and the answers of portmap version 2. It does not listen, and it
// answers no procedure of MOUNT or NFS yet.
//
// Invariants: what a client sends is held to the limits of Config before memory is taken for it;
// a length that a client names is compared with what is there before it is used.
//
// Nothing here has locks or goroutines. A recordReader belongs to one goroutine.
package nfs

// Config has the limits of the server.
type Config struct {
	// MaxRecord is the longest RPC record, in bytes, all fragments together. Default 1 MiB + 8 KiB:
	// a WRITE of 1 MiB with its header.
	MaxRecord int
	// MaxFragments is the number of fragments in one record. Default 64: clients send one or two.
	MaxFragments int
}

// WithDefaults is c with the default in each field that is zero.
func (c Config) WithDefaults() Config {
	if c.MaxRecord == 0 {
		c.MaxRecord = 1<<20 + 8<<10
	}
	if c.MaxFragments == 0 {
		c.MaxFragments = 64
	}
	return c
}
