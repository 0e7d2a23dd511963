#!/usr/bin/env bash
# Generates the Go code from fabric.proto. Needs protoc 3.21 with protoc-gen-go v1.36 and
# protoc-gen-go-grpc v1.6 in PATH.
set -euo pipefail
cd "$(dirname "$0")/../.."
protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative spokefs/v1/fabric.proto
