// Package spoke is the real fabric.FS: one node's view of one namespace, kept coherent with the
// hub by rights under a lease, at local speed through the chunk cache and the journal. There is
// a file per path: read.go, write.go, flush.go, recall.go, list.go, change.go.
//
// It declares the [Hub] it needs; a hub session satisfies it in the same process, wire's client
// across a network.
package spoke
