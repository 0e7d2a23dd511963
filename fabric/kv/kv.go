// Package kv is the view of ordered keys that state machines read and write: one batch over one
// store. fabric/state provides it on Pebble; Mem is the reference.
package kv

import "iter"

// View is one batch. What it wrote, it reads. Keys and values given are copied; keys and values
// handed out are valid until the next call. A failed read sticks: state checks before it writes.
// One goroutine at a time.
type View interface {
	Get(key []byte) (value []byte, ok bool)
	// Scan gives pairs with from <= key < to in order; to nil means to the end. The view must
	// not be written during a scan.
	Scan(from, to []byte) iter.Seq2[[]byte, []byte]
	Set(key, value []byte)
	Delete(key []byte)
	DeleteRange(from, to []byte)
}
