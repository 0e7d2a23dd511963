package s3

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

func TestEveryCodeHasAnError(t *testing.T) {
	for c := fabric.OK + 1; int(c) < fabric.Codes; c++ {
		if _, ok := statuses[c]; !ok {
			t.Errorf("%v has no S3 error", c)
		}
	}
}

func TestACutBodyIsNoEnd(t *testing.T) {
	p := make([]byte, 10)
	if n, err := fillBuffer(strings.NewReader("abc"), p); n != 3 || err != io.EOF {
		t.Errorf("a whole body: %d, %v", n, err)
	}
	cut := io.MultiReader(strings.NewReader("abc"), io.LimitReader(failing{}, 5))
	if n, err := fillBuffer(cut, p); n != 3 || !errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		t.Errorf("a body that was cut off: %d, %v", n, err)
	}
}

// failing is a connection that broke.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
