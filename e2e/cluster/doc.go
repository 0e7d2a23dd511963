// Package cluster holds spokefs together under violence: real processes that are really killed, and
// what was acknowledged must still be there.
package cluster
