// Package namespace is the state machine of one namespace: inodes, dentries, sessions, W rights,
// holds, pins and the pack index. It is a pure core: [Apply] takes a view of ordered keys and a
// committed [Command], and gives one [Result] on every replica, without clock, randomness or map
// order. What may be cached by whom while a command waits is not decided here but in
// fabric/rights; what must hold whatever anybody believed is checked here, in Apply.
//
// # Invariants
//
//   - A command of an expired or unknown epoch changes nothing; one sent twice has one effect (A33).
//   - nlink of an inode is the number of its dentries (of a directory: 2 and its subdirectories).
//   - A directory has one parent, and the root is reached from it.
//   - A node is indexed only if all it names is indexed; a root is published only if it is (A21).
//   - An inode without a name is held by a session, and freed with its last hold (A30).
package namespace
