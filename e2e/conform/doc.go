// Package conform holds front ends against what their clients rely on: real kernels, real programs
// and outside suites, on a hub with spokes beside it.
package conform
