package fabric

// Watcher names a registered Observer; 0 is nobody.
type Watcher uint32

// Cred is who calls. It is a value: front ends make one per request.
type Cred struct {
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary, at most MaxGroups; not changed after use
	// From is the observer that needs not be told of this call's changes (A14).
	From Watcher
	// Op is the front end's key for a request that may come again (A34); zero: none.
	Op [16]byte
}

// Root is the caller that mode bits do not bind.
func Root() Cred { return Cred{} }

// In says whether gid is among the caller's groups.
func (c *Cred) In(gid uint32) bool {
	if c.GID == gid {
		return true
	}
	for _, g := range c.Groups {
		if g == gid {
			return true
		}
	}
	return false
}

// May says which of want the mode bits of a grant the caller: owner, group, others, in POSIX's
// order. Root may all but execute a file that nobody may.
func (c *Cred) May(a *Attr, want Perm) Perm {
	if c.UID == 0 {
		if a.Type != TypeDir && a.Mode&0o111 == 0 {
			return want &^ PermExec
		}
		return want
	}
	bits := a.Mode
	switch {
	case c.UID == a.UID:
		bits >>= 6
	case c.In(a.GID):
		bits >>= 3
	}
	return want & Perm(bits&7)
}

// Owns says whether the caller may do what only the owner may.
func (c *Cred) Owns(a *Attr) bool { return c.UID == 0 || c.UID == a.UID }

// SessionID names a spoke node's session with one group: random, never reused (A1). The zero
// value is the hub itself.
type SessionID [16]byte
