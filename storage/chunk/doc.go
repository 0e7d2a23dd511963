// Package chunk turns content into blobs and back: it cuts, digests, compresses and verifies.
// It knows neither files nor stores.
//
// # Cutting
//
// A [Cutter] finds where chunks end by what the bytes are (FastCDC family), so an insertion moves
// only the cuts near it. Cuts depend on Params and key alone, never on how input was split into
// calls. Writers cut; nobody else needs to know how.
//
// # Names
//
// A [Hasher] names raw bytes by keyed BLAKE3-256. Chunks, manifest nodes and the cutter use three
// keys derived from the namespace's one, so a chunk never has a node's name.
//
// # Form
//
// A blob is one zstd frame if that saves 3 % or more, else raw. [Hasher.Verify] accepts exactly
// what docs/formats/chunk.md allows, bounded by the length in the Ref before anything is decoded:
// what it returns without an error is the named content (A47, A48).
//
// Everything is safe for concurrent use but a Cutter. No goroutines; a Codec lets at most
// Config.Workers callers compress, and as many decompress, at a time; the others wait for them.
package chunk
