// Package node assembles hub and spoke nodes from their parts. Hub and Spoke read top to bottom:
// what is opened, in which order, and what stands on what. Nothing here decides; New opens, Run
// owns the goroutines and returns when all have ended.
//
// A node is configured by a Config, from one TOML file: unknown keys are refused with their line,
// sizes and durations need a unit, and every field has a default or is asked for by name.
package node
