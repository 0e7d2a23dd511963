package rights

import (
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// All time rules of leases and recalls are in this file (A9); the proof is in coherence.md 1.2.
const (
	// DefaultLease is L: short enough that a silent holder delays others by about 16 s, long
	// enough that three renewals fit a WAN with trouble.
	DefaultLease = 15 * time.Second
	MinLease     = 5 * time.Second
	MaxLease     = 60 * time.Second

	// rhoInverse is 1/ρ: clocks are taken to run within one part in a thousand of true time.
	rhoInverse = 1000
	// Margin is M, spare time of the hub.
	Margin = time.Second
	// Guard is what a spoke gives up of its lease beside drift.
	Guard = 250 * time.Millisecond

	// FlushDeadline is how long a W holder may take to answer a recall in full (A13).
	FlushDeadline = 10 * time.Minute
	// Advice is how long a front end tells clients to stay away (JUKEBOX, Retry-After).
	Advice = 5 * time.Second
)

// Usable is how long rights are good after b0, read before the renewal was sent (A2).
func Usable(l time.Duration) time.Duration { return l - ceilRho(l) - Guard }

// ExpireAfter is how long after the receipt of a session's last renewal, or the start of its own
// leadership, a leader may expire it at the earliest (A4).
func ExpireAfter(l time.Duration) time.Duration { return l + ceilRho(l) + Margin }

// RenewEvery is the time between the sendings of renewals.
func RenewEvery(l time.Duration) time.Duration { return l / 3 }

// JeopardyAfter is the time after b0 at which kernels' caches begin to be dropped (A6): one
// renewal went unanswered for a third of the lease.
func JeopardyAfter(l time.Duration) time.Duration { return 2 * l / 3 }

// AckWithin is how long a holder of R or D may leave a recall unanswered before its renewals are
// refused (A13).
func AckWithin(l time.Duration) time.Duration { return l }

// CallTimeout is when a call that waits for nobody is given up and made again.
func CallTimeout(rtt time.Duration) time.Duration { return 3*rtt + 500*time.Millisecond }

// FirstAnswer is when the first answer to a recall is due.
func FirstAnswer(rtt time.Duration) time.Duration { return max(4*rtt, time.Second) }

// HubTime is the hub's wall clock as a node estimates it at now from a lease asked for at sent
// and answered at answered; it errs by at most half the round trip.
func HubTime(l Lease, sent, answered, now fabric.Instant) fabric.Time {
	middle := sent + (answered-sent)/2
	return l.Wall + fabric.Time(now-middle)
}

func ceilRho(l time.Duration) time.Duration { return (l + rhoInverse - 1) / rhoInverse }
