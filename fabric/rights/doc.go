// Package rights decides who may cache what. It is a pure core of two step machines: [Table], in
// the leader of a group, and [Held], in each spoke node. Neither reads a clock, sends, or waits:
// events and the time go in, effects come out, and the engines around them (fabric/hub,
// fabric/spoke) carry those out. lease.go has all time rules.
//
// The rights are R (use an inode's attributes, xattrs, target and content root), D (use a
// directory's attributes, the entries known and the absences learnt) and W (exclusive: change a
// file's data, size and attributes locally). Rules: A1 to A18.
//
// # Invariants
//
//   - Two nodes never use conflicting rights at one true instant, whatever is lost, late or
//     repeated, as long as clocks run within Rho (A2, A4).
//   - Handling a recall never acquires a right (A12).
package rights
