// Command run measures spokefs against the figures it is to reach; see package bench.
package main

import (
	"os"

	"github.com/spokefs/spokefs/e2e/bench"
)

func main() { os.Exit(bench.Main()) }
