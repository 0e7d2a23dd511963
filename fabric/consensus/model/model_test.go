package model_test

import (
	"errors"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/consensus/model"
	"github.com/spokefs/spokefs/fabric/hub/logtest"
)

func TestLog(t *testing.T) {
	for name, cfg := range map[string]model.Config{
		"plain":  {},
		"faulty": {Seed: 1, Unknown: 0.3, Refused: 0.1},
		"late":   {Seed: 2, Unknown: 0.5, Late: 40},
	} {
		t.Run(name, func(t *testing.T) {
			logtest.Run(t, func(_ *testing.T, apply logtest.Apply) logtest.System {
				l := model.New(cfg, model.Apply(apply))
				return logtest.System{Log: l, Disturb: func() { l.Depose(); l.Elect() }}
			})
		})
	}
}

// TestReplay: one seed, one history.
func TestReplay(t *testing.T) {
	run := func() (string, model.Counts) {
		history := ""
		l := model.New(model.Config{Seed: 7, Unknown: 0.4, Refused: 0.1}, func(_ uint64, cmd []byte) []byte {
			history += string(cmd)
			return nil
		})
		for i := range 300 {
			_, err := l.Propose(t.Context(), []byte{byte('a' + i%26)})
			if errors.Is(err, fabric.Unknown) {
				history += "?"
			}
			if i%50 == 49 {
				l.Depose()
				if _, err := l.Propose(t.Context(), nil); !errors.Is(err, fabric.Unavailable) {
					t.Error("a deposed log took a proposal", err)
				}
				l.Elect()
			}
		}
		return history, l.Counts()
	}
	h1, c1 := run()
	h2, c2 := run()
	if h1 != h2 || c1 != c2 {
		t.Error("two runs of a seed differ")
	}
	if c1.Late == 0 || c1.Lost == 0 || c1.Unknown < c1.Late+c1.Lost {
		t.Errorf("%+v", c1)
	}
}
