package rights

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

var rewrite = flag.Bool("rewrite", false, "write the outputs of testdata as they are")

// script drives a Table and a Held from text: commands, "----", and what came out. Sessions are
// letters, epochs 1. See testdata/*.txt for the commands.
type script struct {
	now   fabric.Instant
	table *Table
	held  *Held
	ids   map[string]uint64
	next  uint64
}

func sid(s string) (id fabric.SessionID) { copy(id[:], s); return id }

func sname(id fabric.SessionID) string { return strings.TrimRight(string(id[:]), "\x00") }

func parseRight(s string) (r Right) {
	for _, c := range s {
		switch c {
		case 'R':
			r |= R
		case 'D':
			r |= D
		case 'W':
			r |= W
		}
	}
	return r
}

func showRight(r Right) string {
	s := ""
	for i, c := range "RDW" {
		if r&(1<<i) != 0 {
			s += string(c)
		}
	}
	if s == "" {
		return "-"
	}
	return s
}

func parseKind(s string) RecallKind {
	if s == "shared" {
		return Shared
	}
	return Take
}

func showKind(k RecallKind) string { return [...]string{"take", "shared", "publish"}[k] }

func (s *script) id(name string) uint64 {
	if s.ids[name] == 0 {
		s.next++
		s.ids[name] = s.next
	}
	return s.ids[name]
}

func (s *script) nameOf(id uint64) string {
	for n, i := range s.ids {
		if i == id {
			return n
		}
	}
	return "?"
}

// args are key=value words of a line.
type args map[string]string

func (a args) ino() fabric.Ino { n, _ := strconv.Atoi(a["ino"]); return fabric.Ino(n) }

// seq numbers of a term start at term<<32; scripts write "term.n".
func (a args) seq() uint64 {
	term, n, _ := strings.Cut(a["seq"], ".")
	hi, _ := strconv.Atoi(term)
	lo, _ := strconv.Atoi(n)
	return uint64(hi)<<32 | uint64(lo)
}

func showSeq(s uint64) string { return fmt.Sprintf("%d.%d", s>>32, s&(1<<32-1)) }

func (a args) num(key string) int { n, _ := strconv.Atoi(a[key]); return n }

func (s *script) run(t *testing.T, line string) string {
	words := strings.Fields(line)
	cmd, a, pos := words[0], args{}, []string{}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			a[k] = v
		} else {
			pos = append(pos, w)
		}
	}
	flagged := func(f string) bool {
		for _, p := range pos {
			if p == f {
				return true
			}
		}
		return false
	}
	who := ""
	if len(pos) > 0 {
		who = pos[0]
	}
	table := func(e Event) string { return s.showTable(s.table.Step(s.now, e, nil)) }
	held := func(e HeldEvent) string { return showHeld(s.held.Step(s.now, e, nil)) }
	switch cmd {
	case "table":
		s.table = NewTable(Config{MaxRights: a.num("max"), EvictPerTick: a.num("evict"), MaxQueue: a.num("queue")})
		return ""
	case "lead":
		e := Led{Term: fabric.Term(a.num("term"))}
		for _, p := range pos {
			if n, ino, ok := strings.Cut(p, ":"); ok {
				i, _ := strconv.Atoi(ino)
				e.W = append(e.W, Owned{Session: sid(n), Ino: fabric.Ino(i)})
			} else {
				e.Sessions = append(e.Sessions, Known{Session: sid(p), Epoch: 1})
			}
		}
		return table(e)
	case "depose":
		return table(Deposed{})
	case "open":
		return table(Opened{Session: sid(who), Epoch: 1})
	case "renew":
		e := Renewed{Session: sid(who), Epoch: 1, Dropped: fabric.Term(a.num("dropped"))}
		if a["ino"] != "" {
			e.Open = []fabric.Ino{a.ino()}
		}
		return table(e)
	case "expired":
		return table(Expired{Session: sid(who), Epoch: 1})
	case "reconnect":
		return table(Reconnected{Session: sid(who), Epoch: 1})
	case "tick":
		return table(Ticked{})
	case "want":
		return table(Wanted{ID: s.id(a["id"]), Session: sid(who), Epoch: 1, Want: Want{Ino: a.ino(), Right: parseRight(pos[1]), Wait: flagged("wait")}})
	case "withdraw":
		return table(Withdrawn{ID: s.id(a["id"])})
	case "logged":
		return table(Logged{Session: sid(who), Ino: a.ino()})
	case "undone":
		return table(Undone{Session: sid(who), Ino: a.ino()})
	case "created":
		return table(Created{ID: s.id(a["id"]), Session: sid(who), Epoch: 1, Ino: a.ino()})
	case "dropped":
		return table(Dropped{Session: sid(who), Ino: a.ino()})
	case "ack":
		return table(Acked{Session: sid(who), Epoch: 1, Ack: Ack{Ino: a.ino(), Seq: a.seq(), Kept: parseRight(a["kept"]), Open: flagged("open"), Left: int64(a.num("left"))}})
	case "release":
		return table(Released{Session: sid(who), Epoch: 1, Grant: Grant{Ino: a.ino(), Right: parseRight(pos[1]), Seq: a.seq()}})
	case "change":
		e := Changing{ID: s.id(a["id"]), Session: sid(who), Epoch: 1}
		for _, p := range pos[1:] {
			n, dir := strings.CutSuffix(p, "/")
			i, _ := strconv.Atoi(n)
			e.Marks = append(e.Marks, Mark{Ino: fabric.Ino(i), Dir: dir})
		}
		return table(e)
	case "applied":
		return table(Applied{ID: s.id(a["id"])})
	case "failed":
		return table(Failed{ID: s.id(a["id"])})
	case "holders":
		out := ""
		for _, h := range s.table.Holders(a.ino()) {
			out += sname(h) + " " + showRight(s.table.Has(h, a.ino())) + "\n"
		}
		return out
	case "stats":
		return fmt.Sprintf("%+v\n", s.table.Stats())
	case "advance":
		d, err := time.ParseDuration(who)
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(d)
		if s.held != nil {
			return held(Passed{})
		}
		return ""
	case "held":
		s.held = NewHeld(1, HeldConfig{MaxRevoked: a.num("revoked")})
		return ""
	case "leased":
		return held(Leased{Sent: s.now.Add(-time.Duration(a.num("ago")) * time.Millisecond), Lease: Lease{Epoch: 1, Term: fabric.Term(a.num("term")), Length: DefaultLease}})
	case "granted":
		epoch := uint64(1)
		if a["epoch"] != "" {
			epoch = uint64(a.num("epoch"))
		}
		return held(Granted{Grant: Grant{Ino: a.ino(), Right: parseRight(who), Seq: a.seq(), Epoch: epoch, Term: fabric.Term(a.seq() >> 32)}})
	case "recalled":
		return held(Recalled{Recall: Recall{Ino: a.ino(), Kind: parseKind(who), Seq: a.seq(), Term: fabric.Term(a.seq() >> 32)}})
	case "stopped":
		return held(Stopped{Ino: a.ino()})
	case "answered":
		return held(Answered{Ack: Ack{Ino: a.ino(), Seq: a.seq(), Kept: parseRight(a["kept"])}})
	case "given":
		return held(Given{Ino: a.ino(), Right: parseRight(who)})
	case "valid":
		out := ""
		for _, r := range []Right{R, D, W} {
			if s.held.Valid(s.now, a.ino(), r) {
				out += showRight(r)
			}
		}
		if out == "" {
			out = "-"
		}
		return out + "\n"
	}
	t.Fatalf("unknown command %q", line)
	return ""
}

func (s *script) showTable(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		switch e := e.(type) {
		case LeaseEffect:
			fmt.Fprintf(&b, "lease %s term=%d %v\n", sname(e.Session), e.Lease.Term, e.Code)
		case GrantEffect:
			fmt.Fprintf(&b, "grant %s %s ino=%d seq=%s id=%s", sname(e.Session), showRight(e.Grant.Right), e.Grant.Ino, showSeq(e.Grant.Seq), s.nameOf(e.ID))
			if e.Code != fabric.OK {
				fmt.Fprintf(&b, " %v", e.Code)
			}
			b.WriteByte('\n')
		case RecallEffect:
			fmt.Fprintf(&b, "recall %s %s ino=%d seq=%s\n", sname(e.Session), showKind(e.Recall.Kind), e.Recall.Ino, showSeq(e.Recall.Seq))
		case WaitingEffect:
			fmt.Fprintf(&b, "waiting %s ino=%d\n", sname(e.Session), e.Ino)
		case Proceed:
			fmt.Fprintf(&b, "proceed id=%s %v\n", s.nameOf(e.ID), e.Code)
		case Expire:
			fmt.Fprintf(&b, "expire %s\n", sname(e.Session))
		case DropWEffect:
			fmt.Fprintf(&b, "dropw %s ino=%d\n", sname(e.Session), e.Ino)
		}
	}
	return b.String()
}

func showHeld(effects []HeldEffect) string {
	var b strings.Builder
	for _, e := range effects {
		switch e := e.(type) {
		case Accepted:
			fmt.Fprintf(&b, "accepted ino=%d %s seq=%s\n", e.Ino, showRight(e.Right), showSeq(e.Seq))
		case Discarded:
			fmt.Fprintf(&b, "discarded ino=%d seq=%s\n", e.Grant.Ino, showSeq(e.Grant.Seq))
		case Give:
			fmt.Fprintf(&b, "give ino=%d %s had=%s seq=%s\n", e.Recall.Ino, showKind(e.Recall.Kind), showRight(e.Had), showSeq(e.Recall.Seq))
		case NewTerm:
			fmt.Fprintf(&b, "new term %d\n", e.Term)
		case Changed:
			fmt.Fprintf(&b, "%s -> %s\n", e.From, e.To)
		}
	}
	return b.String()
}

// TestScripts runs testdata: blocks of commands, "----", output, a blank line. "#" is a remark.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{ids: map[string]uint64{}}
			var got strings.Builder
			for n, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				in, want, _ := strings.Cut(block+"\n", "\n----\n")
				out := ""
				for line := range strings.Lines(in) {
					if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
						out += s.run(t, line)
					}
				}
				if out != want && !*rewrite {
					t.Errorf("block %d:\n%s\n---- want\n%s---- got\n%s", n+1, in, want, out)
				}
				if n > 0 {
					got.WriteByte('\n')
				}
				got.WriteString(strings.TrimRight(in, "\n") + "\n----\n" + out)
			}
			if *rewrite {
				if err := os.WriteFile(f, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestValidAllocatesNothing holds the read path to its budget.
func TestValidAllocatesNothing(t *testing.T) {
	h := NewHeld(1, HeldConfig{})
	h.Step(0, Leased{Lease: Lease{Epoch: 1, Term: 1, Length: DefaultLease}}, nil)
	h.Step(0, Granted{Grant: Grant{Ino: 7, Right: R, Seq: 1 << 32, Epoch: 1, Term: 1}}, nil)
	if n := testing.AllocsPerRun(100, func() {
		if !h.Valid(1, 7, R) {
			t.Error("not valid")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLeaseArithmetic: whatever two clocks within rho do, the spoke stops first.
func TestLeaseArithmetic(t *testing.T) {
	for _, l := range []time.Duration{MinLease, DefaultLease, MaxLease} {
		// True time that passes while a clock counts d lies within d/(1+rho) and d/(1-rho).
		longest := float64(Usable(l)) / (1 - 1.0/rhoInverse)
		shortest := float64(ExpireAfter(l)) / (1 + 1.0/rhoInverse)
		if longest >= shortest {
			t.Errorf("lease %v: a spoke may use it for %v, the hub may expire it after %v", l, longest, shortest)
		}
		if RenewEvery(l) >= JeopardyAfter(l) || JeopardyAfter(l) >= Usable(l) {
			t.Errorf("lease %v: renewal, jeopardy and lapse are out of order", l)
		}
	}
}
