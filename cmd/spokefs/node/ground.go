package node

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file looks at the machine that a node is to stand on, before it does: what cannot work is
// refused, what a person should know of is logged once.

// The wall clock must be between these. Before the first the machine has lost its clock, and
// certificates are not valid yet; after the second NFS has no times (version 3 ends in 2106).
var (
	clockFrom = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	clockTo   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// checkClock refuses a wall clock that cannot be right (D58).
func checkClock(now time.Time) error {
	if now.Before(clockFrom) || now.After(clockTo) {
		return fmt.Errorf("the machine's clock says %s: set it, files get their times from it", now.UTC().Format(time.RFC3339))
	}
	return nil
}

// unfit are file systems that a data folder should not be on, and why.
var unfit = map[int64]string{
	unix.TMPFS_MAGIC:      "is in memory (tmpfs): what it holds does not survive a restart of the machine",
	unix.RAMFS_MAGIC:      "is in memory (ramfs): what it holds does not survive a restart of the machine",
	unix.NFS_SUPER_MAGIC:  "is on NFS: locks and fsync are the server's, and a slow one makes the node lose its lease",
	unix.SMB_SUPER_MAGIC:  "is on SMB: fsync is the server's",
	unix.SMB2_SUPER_MAGIC: "is on SMB: fsync is the server's",
	unix.FUSE_SUPER_MAGIC: "is on FUSE: a node must not stand on what it serves",
}

// checkFolder refuses a data folder that is another user's, and warns of one that is no good place
// (D59).
func checkFolder(path string, log *slog.Logger) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if me := uint32(os.Geteuid()); st.Uid != me {
		if me != 0 {
			return fmt.Errorf("%s belongs to user %d, and this process runs as %d", path, st.Uid, me)
		}
		log.Warn("the data folder belongs to another user, who can change what is in it", "folder", path, "uid", st.Uid)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (mode %o): chmod 700", path, st.Mode&0o777)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if why := unfit[int64(fs.Type)]; why != "" {
		log.Warn("the data folder "+why, "folder", path)
	}
	return nil
}

// warnSwap says that keys in memory may be written to a disk (D61). swaps is /proc/swaps.
func warnSwap(swaps string, log *slog.Logger) {
	p, err := os.ReadFile(swaps)
	if err != nil {
		return // not a machine that swaps
	}
	if areas := strings.Count(strings.TrimSpace(string(p)), "\n"); areas > 0 { // after a line of titles
		log.Warn("swap is on: keys in memory may be written to it; use encrypted swap or none", "areas", areas)
	}
}
