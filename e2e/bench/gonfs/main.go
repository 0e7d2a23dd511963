// Command gonfs serves a folder by go-nfs, a library that spokefs is compared with. It is a module of
// its own, so that spokefs does not depend on it.
//
//	gonfs ADDR DIR
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

// handles is how many the server remembers; a benchmark reads one file.
const handles = 1024

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gonfs ADDR DIR")
		os.Exit(2)
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err == nil {
		h := helpers.NewNullAuthHandler(osfs.New(os.Args[2]))
		err = nfs.Serve(l, helpers.NewCachingHandler(h, handles))
	}
	fmt.Fprintln(os.Stderr, "gonfs:", err)
	os.Exit(1)
}
