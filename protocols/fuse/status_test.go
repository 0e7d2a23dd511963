package fuse

import (
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

func TestEveryCodeHasAnErrno(t *testing.T) {
	for c := fabric.OK + 1; int(c) < fabric.Codes; c++ {
		if statuses[c] == 0 {
			t.Errorf("%v has no errno", c)
		}
	}
}
