// Package system is the state machine of a hub's system group: which namespaces, portals, spokes,
// join tokens and S3 keys there are. Like fabric/namespace it is a pure core: [Apply] takes a view
// of ordered keys and a committed [Command] and gives one [Result] on every replica. What is
// random or read from a clock comes with the command.
//
// Administration is rare, so commands and records are JSON objects with a version
// (docs/formats/system.md); unknown fields are refused.
//
// # Invariants
//
//   - A portal names a namespace that exists; a grant of a spoke too.
//   - A token is redeemed at most Uses times, and never after Expires or by another spoke's name.
//   - Every command is idempotent: said again it changes nothing and succeeds, unless it says
//     something else of the same name (Exist).
package system
