// Package s3 serves portals as S3 buckets. The protocol (SigV4 in all its modes, chunked bodies,
// trailers, checksums, XML) is versitygw's; this package is its backend over fabric.Portals: keys
// are paths, objects are files.
//
// # Keys
//
// A key is split on '/' and nothing else; a segment that is empty, ".", ".." or longer than
// fabric.MaxName, or has a NUL, is refused before anything is looked at (A53). What is under
// ".spokefs/" is hidden: open multipart uploads are there, parts as files, so that they outlive
// every process (A39).
//
//   - "d/" with no body makes the directory d; with a body it is refused.
//   - A directory is listed as "d/" if it was put as that key, or is empty.
//   - Key "a" and key "a/b" exclude each other, with 409.
//   - Directories that a PUT made go again with the last object below them; those made by mkdir stay.
//
// # Content
//
// Content is built in a file without a name, synced, and bound to its name in one step with the
// precondition evaluated there: readers see old or new. ETags and checksums are in an extended
// attribute that a change by any protocol drops (fabric.ContentXattr); a file without it has a tag
// that no one takes for an MD5.
//
// One Server runs per process: versitygw has globals.
package s3
