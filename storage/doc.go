// Package storage holds the words for content: the Ref that names a blob, the Blobs interface
// through which chunks and manifest nodes are fetched and put, and the Bucket beneath it that
// keeps whole objects.
//
// A blob is immutable and named by what it holds, so any copy anywhere is right for ever; every
// layer that hands one out has checked it against its Ref (A47). One Blobs serves one dedup
// domain, which is a namespace.
//
// The package imports nothing of the project.
package storage
