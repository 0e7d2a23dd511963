// Package admin is the operator's API, both ends: JSON over HTTP on a Unix socket in a node's data
// folder, which only the node's user can open. The CLI's verbs are its client. It is not a way
// for clients to reach files, though `spokefs ls`, `cat` and `cp` use it for a look.
//
// The server answers what a table of routes lists and nothing else. A node says what it can do by
// the [Node] it gives; a spoke answers Unsupported to what only a hub can.
package admin
