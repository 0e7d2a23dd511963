package fstest

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Seeds runs f with n seeds, half of them in short tests, as subtests: SPOKEFS_SEEDS sets another number, SPOKEFS_SEED one seed
// alone.
func Seeds(t *testing.T, n uint64, f func(t *testing.T, seed uint64)) {
	from := uint64(1)
	if testing.Short() {
		n = (n + 1) / 2
	}
	if s, err := strconv.ParseUint(os.Getenv("SPOKEFS_SEED"), 10, 64); err == nil {
		from, n = s, 1
	} else if s, err := strconv.ParseUint(os.Getenv("SPOKEFS_SEEDS"), 10, 64); err == nil {
		n = s
	}
	for seed := from; seed < from+n; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { f(t, seed) })
	}
}
