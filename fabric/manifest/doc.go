// Package manifest maps the bytes of a file to chunks: a tree of content-addressed nodes whose
// root is the file's content. It decides what nodes there are and does no I/O: nodes come from a
// [Source], new ones go back to the caller.
//
// # The tree
//
// A file is a list of items: pieces of chunks, and holes. A leaf (level 0) has a run of items, a
// node of level k a run of nodes of level k−1, each with its bytes of file. Where nodes end is
// decided by what their items are, so:
//
//   - The tree is canonical: equal items give an equal root, whatever the history. A file that is
//     one hole, or empty, has the zero root.
//   - A change rewrites the nodes on its path and at most a few beside them.
//   - An insertion of items moves node ends only near it: the rest of the tree is shared.
//
// Adjacent holes are one item, and so are adjacent pieces of one chunk that continue each other.
//
// # Trust
//
// [Decode] checks all that one node can say of itself, docs/formats/manifest.md has the list. What
// it says of its children is checked on the way down, where an answer that does not fit is
// ErrCorrupt. Levels fall by one on each step, so no node can lead in circles. A tree made by a
// bad writer may be uncanonical; it reads as what it says, and Splice of it gives right bytes.
//
// No goroutines, no locks; a Node is immutable and may be shared.
package manifest
