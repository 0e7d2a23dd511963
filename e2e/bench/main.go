package bench

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Main is the program. It returns the exit status: figures that are short are no failure.
func Main() int {
	if os.Getenv(routerEnv) != "" {
		if err := router(); err != nil {
			fmt.Fprintln(os.Stderr, "router:", err)
			return 1
		}
		return 0
	}
	cfg := Config{Log: os.Stderr, Spokes: 5}
	flag.StringVar(&cfg.Binary, "spokefs", "bin/spokefs", "the `binary` to measure")
	flag.StringVar(&cfg.Dir, "dir", "", "`folder` on the file system to compare with; the temporary one if empty")
	flag.Float64Var(&cfg.Scale, "scale", 1, "of the data set: 1 is 20,000 files and 2 GiB of shards")
	flag.Int64Var(&cfg.Mbit, "mbit", 200, "of the link, per second")
	flag.DurationVar(&cfg.Least, "least", 3*time.Second, "how long a rate is measured")
	flag.StringVar(&cfg.GoNFS, "gonfs", "", "a go-nfs `server` to compare with")
	flag.BoolVar(&cfg.Peers, "peers", true, "compare with other servers where they are installed")
	flag.BoolVar(&cfg.Keep, "keep", false, "leave the folder")
	page := flag.String("page", "", "Markdown `file` whose part between the bench marks is to be replaced")
	steps := flag.String("steps", "", "`some` of in, near, far, creates, for a look at the figures that they give; all if empty")
	flag.Parse()
	if *steps != "" {
		cfg.Steps = strings.Split(*steps, ",")
	}
	if flag.NArg() > 0 || *page != "" && *steps != "" || cfg.Scale <= 0 || cfg.Scale > 10 || cfg.Mbit <= 0 {
		flag.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := Run(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	if *page != "" {
		if err := replace(*page, r); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
	}
	r.WriteTo(os.Stderr)
	for _, l := range r.Lines() {
		fmt.Println(l)
	}
	return 0
}

// The marks between which a page holds the newest run.
const (
	beginMark = "<!-- bench: begin -->\n"
	endMark   = "<!-- bench: end -->\n"
)

// replace puts a report between the marks of a page.
func replace(page string, r *Report) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), beginMark)
	_, tail, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks the lines %q and %q", page, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	var b bytes.Buffer
	b.WriteString(head + beginMark)
	r.WriteTo(&b)
	b.WriteString(endMark + tail)
	return os.WriteFile(page, b.Bytes(), 0o644)
}
