// Package bench measures spokefs against the figures it is to reach, with real processes and real
// clients: `make bench`. It prints one line per figure,
//
//	figure F3 1.27 ratio target>=1.00 ok
//
// and writes them, with what they were made from, to docs/benchmarks.md.
//
// # What runs
//
// A hub, the spoke beside it and other spokes are processes of the spokefs binary; this process is
// the client. If it is root on a machine with TUN devices they live in network namespaces of their
// own ([sites]), so that ports are free and the link between them is made of IP packets: a router
// ([link]) carries them with a delay, a rate and a queue with tail drop, and counts them.
//
// # What is compared
//
// Everything that is a ratio is measured in one run, on the same files, by the same reader: against
// the local file system that also holds the spoke's cache, against other servers where they are
// installed, against a bound computed from the bytes. "Dropped" means that the page cache of the
// files (the local ones, the mount's and the spoke's own cache) was given up before, by
// posix_fadvise on each file, so that others on the machine keep theirs; "hot" that it was not.
//
// Every byte read in any pass is held against the hash of what was written: a pass that reads wrong
// bytes is an error, not a figure. What cannot be measured is printed with the reason.
package bench
