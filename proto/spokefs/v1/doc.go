// Package spokefsv1 is version 1 of the protocol between spoke nodes and the hub, as gRPC has it.
// All but this comment is generated from fabric.proto by generate.sh; package fabric/wire is the
// only user, and docs/protocols/wire.md says what the messages mean.
package spokefsv1
