// Package prefetch holds the words of the prefetch cache: what was read (Access), what a model
// offers to fetch (Bid), what became of it (Outcome), and the Predictor interface of a model.
//
// A model is a pure step machine: no goroutine, clock, lock or I/O. The spoke runs all of them
// on one goroutine, feeds them from a ring that loses rather than waits, prices their bids
// against a budget and tells them the outcome. Nothing here changes what a client reads, only
// when the bytes arrive.
package prefetch

import "github.com/spokefs/spokefs/fabric"

// Op is what a client did.
type Op uint8

// The operations a model sees.
const (
	Open Op = iota
	Read
	Close
	List
	Stat
	Write
	Rename
)

// Hit says where a read's bytes were.
type Hit uint8

// The kinds of hit.
const (
	Resident Hit = iota // in the local cache
	Late                // being fetched when asked
	Miss                // fetched because asked
)

// Access is one thing seen. It is reused by the caller: copy what you keep.
type Access struct {
	At             fabric.Instant
	Stream         uint32 // who reads: a front end's handle or connection
	Op             Op
	Ino, Parent    fabric.Ino
	Off, Len, Size int64
	Cookie         fabric.Cookie // List: the entry's place in its directory
	Name           []byte        // Open, List only; valid during the call
	Hit            Hit
}

// Bid is an offer to fetch a range of a file.
type Bid struct {
	Ino   fabric.Ino
	Off   int64
	Len   int64
	Due   fabric.Instant // when it will be asked for, by the model's guess
	Use   float32        // probability that it is used, 0 to 1
	Model uint8          // who bids; set by the caller
}

// Outcome is what became of a bid.
type Outcome struct {
	Bid   Bid
	What  What
	Bytes int64 // of the bid that this outcome covers
}

// What tells outcomes apart.
type What uint8

// The outcomes.
const (
	Used What = iota
	UsedLate
	Wasted
	Cancelled
)

// Predictor is one model: pure, on one goroutine.
type Predictor interface {
	Observe(a *Access)
	Bid(now fabric.Instant, dst []Bid) []Bid
	Outcome(o Outcome)
}
