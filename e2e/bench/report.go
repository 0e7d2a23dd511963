package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// noPeer is why a peer is absent.
const noPeer = "not installed, or not asked for"

// condition is one of the things that a figure asks for.
type condition struct {
	what   string
	value  float64
	unit   string
	target float64
	most   bool   // the target is the most, not the least
	peer   bool   // it compares with another server
	absent string // why it could not be measured; "": it was
}

// miss is how far the value is from the target, as a share of the target; 0 and less: reached.
func (c condition) miss() float64 {
	d := c.target - c.value
	if c.most {
		d = -d
	}
	if c.target == 0 {
		return d
	}
	return d / c.target
}

// measured writes the value, with as many digits as tell it from the target.
func (c condition) measured() string {
	if s := number(c.value); s != number(c.target) || c.value == c.target {
		return s
	}
	return strconv.FormatFloat(c.value, 'f', 4, 64)
}

func (c condition) sign() string {
	if c.most {
		return "<="
	}
	return ">="
}

// verdict says in words how the value stands to the target.
func (c condition) verdict() string {
	switch m := c.miss(); {
	case c.absent != "":
		return "not measured: " + c.absent
	case m <= 0:
		return "reached"
	case c.target == 0:
		return "missed by " + number(m)
	default:
		return "missed by " + number(100*m) + " %"
	}
}

// number writes three digits, without an exponent.
func number(v float64) string {
	digits := 0
	for limit := 100.0; digits < 2 && v < limit && v != float64(int64(v)); limit /= 10 {
		digits++
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// figure is one of the figures to reach.
type figure struct {
	id         string
	what       string
	conditions []condition
	note       string // ends the line, as "voters=1": the figure is short whatever its value
}

// line is the figure as one line: the condition that is farthest from its target speaks for all.
// A peer that is not installed is named; what else could not be measured is counted.
func (f figure) line() string {
	var worst *condition
	absent, unmeasured := false, 0
	for i := range f.conditions {
		c := &f.conditions[i]
		switch {
		case c.absent == "" && (worst == nil || c.miss() > worst.miss()):
			worst = c
		case c.absent != "" && c.peer:
			absent = true
		case c.absent != "":
			unmeasured++
		}
	}
	if worst == nil {
		c := f.conditions[0]
		return fmt.Sprintf("figure %s - %s target%s%s unmeasured: %s", f.id, c.unit, c.sign(), number(c.target), c.absent)
	}
	end := "ok"
	if worst.miss() > 0 || f.note != "" {
		end = "short"
	}
	if f.note != "" {
		end += " " + f.note
	}
	if unmeasured > 0 {
		end += fmt.Sprintf(" unmeasured=%d", unmeasured)
	}
	if absent {
		end += " peer absent"
	}
	return fmt.Sprintf("figure %s %s %s target%s%s %s", f.id, worst.measured(), worst.unit, worst.sign(), number(worst.target), end)
}

// row is a line of a table: what was measured, and what it is compared with.
type row struct {
	what  string
	cells []string
}

// table is rows under heads.
type table struct {
	title string
	heads []string
	rows  []row
}

func (t *table) add(what string, cells ...string) { t.rows = append(t.rows, row{what, cells}) }

// Report is what a run found.
type Report struct {
	machine string
	data    string
	figures []figure
	tables  []*table
}

// Lines are the figures, one line each.
func (r *Report) Lines() []string {
	var out []string
	for _, f := range r.figures {
		out = append(out, f.line())
	}
	return out
}

func (r *Report) figure(f figure) { r.figures = append(r.figures, f) }

// WriteTo writes the report as a part of a Markdown page.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", r.machine, r.data)
	fmt.Fprintf(&b, "\n| figure | condition | measured | target | |\n|---|---|---:|---:|---|\n")
	for _, f := range r.figures {
		id := f.id + ": " + f.what
		for _, c := range f.conditions {
			value := "–"
			if c.absent == "" {
				value = c.measured() + " " + c.unit
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s %s | %s |\n", id, c.what, value, c.sign(), number(c.target), c.verdict())
			id = ""
		}
	}
	for _, t := range r.tables {
		fmt.Fprintf(&b, "\n**%s**\n\n| %s |\n|---%s|\n", t.title, strings.Join(t.heads, " | "), strings.Repeat("|---:", len(t.heads)-1))
		for _, x := range t.rows {
			fmt.Fprintf(&b, "| %s | %s |\n", x.what, strings.Join(x.cells, " | "))
		}
	}
	fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.Join(r.Lines(), "\n"))
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
