// Package demo shows the whole path on a real tree: `spokefs demo`. It starts a hub and a spoke as
// processes of their own, with a shaped link between them, loads the tree at the hub, reads all of
// it at the spoke by every protocol, checks the SHA-256 of every file each way, edits on both
// sides and checks that the other sees exactly that. It fails if one byte differs.
//
// It is also the smoke test of the end-to-end suite: the same code, run on a small tree.
package demo
