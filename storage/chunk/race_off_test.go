//go:build !race

package chunk

const raced = false
