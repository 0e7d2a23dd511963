package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileSystems names the ones that a bench is likely to run on.
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
}

// machine says where and when a run took place, and how busy the machine was when it began.
func machine(dir string) string {
	var st unix.Statfs_t
	fs := "unknown"
	if unix.Statfs(dir, &st) == nil {
		if fs = fileSystems[int64(st.Type)]; fs == "" {
			fs = fmt.Sprintf("file system %#x", st.Type)
		}
	}
	var mem unix.Sysinfo_t
	unix.Sysinfo(&mem)
	var name unix.Utsname
	unix.Uname(&name)
	return fmt.Sprintf("%s: %d cores, %.0f GiB, Linux %s, %s, %s; load %s when it began.",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), float64(mem.Totalram)*float64(mem.Unit)/(1<<30),
		unix.ByteSliceToString(name.Release[:]), fs, runtime.Version(), load())
}

// load is the machine's load of the last minute.
func load() string {
	p, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(p), " ")
	return one
}
