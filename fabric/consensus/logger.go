package consensus

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

type hclogger = hclog.Logger

// newLogger sends raft's errors to s: it warns of every election, a first one too.
func newLogger(s *slog.Logger) hclogger {
	return hclog.New(&hclog.LoggerOptions{
		Name: "raft", Level: hclog.Error, DisableTime: true, Output: &lines{s},
	})
}

// lines makes a log record of each line written.
type lines struct{ slog *slog.Logger }

// Write implements io.Writer; hclog writes one line a call.
func (l *lines) Write(p []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(p, []byte("[ERROR]")) {
		level = slog.LevelError
	}
	l.slog.Log(context.Background(), level, string(bytes.TrimSpace(p)))
	return len(p), nil
}
