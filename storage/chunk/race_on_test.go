//go:build race

package chunk

// raced says that the race detector is on: its pools drop what they are given now and then.
const raced = true
