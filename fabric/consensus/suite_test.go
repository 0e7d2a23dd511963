package consensus

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/spokefs/spokefs/fabric/hub/logtest"
)

// lead makes a member the leader, and returns when it leads.
func lead(t *testing.T, m *member, ms []*member) {
	for {
		leader := awaitLeader(t, ms...)
		if leader == m {
			return
		}
		to := m.log.cfg
		i := slices.IndexFunc(to.Voters, func(v Voter) bool { return v.ID == to.Node })
		// An error is a leader that is none any more, or a voter that lags: try again.
		_ = leader.log.raft.LeadershipTransferToServer(raft.ServerID(to.Node), raft.ServerAddress(to.Voters[i].Addr)).Error()
	}
}

// The suite of hub.Log on three voters; it is disturbed by moving leadership away and back.
func TestLogSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("starts seven groups of three voters")
	}
	logtest.Run(t, func(t *testing.T, apply logtest.Apply) logtest.System {
		var voters []Voter
		var ls []net.Listener
		for i := range 3 {
			ls = append(ls, listen(t))
			voters = append(voters, Voter{ID: fmt.Sprint("n", i), Addr: ls[i].Addr().String()})
		}
		var ms []*member
		for i, l := range ls {
			m := &tape{}
			if i == 0 {
				m.answer = apply
			}
			ms = append(ms, startMember(t, t.TempDir(), voters[i].ID, voters, l, m))
		}
		t.Cleanup(func() {
			for _, m := range ms {
				m.stop()
			}
		})
		lead(t, ms[0], ms)
		return logtest.System{Log: ms[0].log, Disturb: func() {
			lead(t, ms[1], ms)
			lead(t, ms[0], ms)
		}}
	})
}
