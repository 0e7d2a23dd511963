package nfs

import (
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// Config holds the server's limits. Zero fields take their defaults.
type Config struct {
	// MaxIO is the largest READ and WRITE, bytes. 1 MiB: what Linux asks for at most.
	MaxIO int
	// MaxRecord is the largest RPC record, bytes: MaxIO and 8 KiB for all around it.
	MaxRecord int
	// MaxFragments is how many fragments one record may have. 64: real clients send one.
	MaxFragments int
	// MaxList is the largest READDIR reply, bytes. 64 KiB: about 300 entries with attributes.
	MaxList int
	// Outstanding is how many calls of one connection run at once. 128: twice Linux's slots.
	Outstanding int
	// PerClient is how many connections one address may have. 64: a node with nconnect=16 thrice.
	PerClient int
	// Connections is how many there may be in all. 4096.
	Connections int
	// Memory is what records and READ data over 8 KiB may take in all, bytes, but for one record
	// that each connection is reading. 256 MiB.
	Memory int64
	// OpenFiles is how many files are held open between calls. 1024.
	OpenFiles int
	// IdleFile is how long a file stays open after its last call. 3 s: longer than a gap in a
	// stream of WRITEs, shorter than what a reader elsewhere waits for.
	IdleFile time.Duration
	// Stuck is how long a call may wait before it is answered with JUKEBOX. fabric.Stuck.
	Stuck time.Duration
	// RecordTime is how long the rest of a record may take after its first byte, and how long a
	// reply may wait for a client that does not read. 60 s.
	RecordTime time.Duration
	// Mounts is how many mounts DUMP remembers. 1024; it is for show.
	Mounts int
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	setInt := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	setTime := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	setInt(&c.MaxIO, 1<<20)
	setInt(&c.MaxRecord, c.MaxIO+8<<10)
	setInt(&c.MaxFragments, 64)
	setInt(&c.MaxList, 64<<10)
	setInt(&c.Outstanding, 128)
	setInt(&c.PerClient, 64)
	setInt(&c.Connections, 4096)
	setInt(&c.OpenFiles, 1024)
	setInt(&c.Mounts, 1024)
	setTime(&c.IdleFile, 3*time.Second)
	setTime(&c.Stuck, fabric.Stuck)
	setTime(&c.RecordTime, time.Minute)
	if c.Memory == 0 {
		c.Memory = 256 << 20
	}
	c.Memory = max(c.Memory, 2*int64(c.MaxRecord)) // one record at least must fit
	return c
}
