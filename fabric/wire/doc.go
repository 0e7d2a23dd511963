// Package wire carries the calls of spoke nodes to the hub: gRPC over mutual TLS 1.3
// (docs/protocols/wire.md). [Server] is the hub's end, [Client] and [Conn] the spoke node's; a Conn
// has the methods of spoke.Hub, a Session those of the hub's session.
//
// # Who may call
//
// A table says for every method who may call it (A52); a server whose table has a hole does not
// start. Hello and Join take anyone, the rest a spoke node's certificate that is valid at that
// moment, not only when the connection began. Calls of a session carry its ticket: the server
// checks that certificate, namespace and secret are the session's.
//
// Who shows no certificate gets a small share of everything (strangers.go).
//
// # Connections and classes
//
// A client has a connection for what must not wait (Renew, Events, Ack), one for other calls and some
// for content. Large messages of calls are compressed (compress.go), blobs go raw in their stored form
// (frame.go), and what somebody waits for goes first (classes.go).
//
// # Breaks
//
// The server keeps nothing that it cannot get back: it asks its Deps for a session that it does not
// know, so that a ticket outlives connections, servers and changes of leader. A call that a break
// ends answers Unavailable and may be made again; only fetches and puts are taken up again here,
// a bounded number of times.
//
// # Locks and goroutines
//
// Server.mu guards the known sessions, Client.mu what Hello said, turnstile.mu what frames are being
// sent; no call is made under any. A stranger's connection has a timer, which ends with it. A
// shaped connection has four goroutines, which end with it.
package wire
