package spoke

import (
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
)

// flights counts the commands on their way to the hub by what they may change. The hub may have
// carried one out, and others may have seen it, before its answer comes: until then what is known
// here of such a thing may be behind, and is asked for instead.
type flights struct {
	names map[touched]int
	dirs  map[fabric.Ino]int // a name in it
	attrs map[fabric.Ino]int // mode, owner, times, links, extended attributes
}

func newFlights() flights {
	return flights{names: map[touched]int{}, dirs: map[fabric.Ino]int{}, attrs: map[fabric.Ino]int{}}
}

// count adds one to all that a command may change, or takes one away.
func (f *flights) count(names []touched, attrs []fabric.Ino, by int) {
	for _, t := range names {
		add(f.names, t, by)
		add(f.dirs, t.dir, by)
	}
	for _, ino := range attrs {
		add(f.attrs, ino, by)
	}
}

func add[K comparable](m map[K]int, k K, by int) {
	if m[k] += by; m[k] == 0 {
		delete(m, k)
	}
}

// sent is what a command may change, and what was known when it was sent.
type sent struct {
	names  []touched
	attrs  []fabric.Ino
	before map[fabric.Ino]uint64 // the D grants held: a result is laid over what came with them only
}

// sending notes a command that is about to be sent. mu is held.
func (s *Spoke) sending(ops []namespace.Op) sent {
	t := sent{before: map[fabric.Ino]uint64{}}
	for _, o := range ops {
		for _, n := range names(o) {
			t.names = append(t.names, n)
			d := s.dirs[n.dir]
			if d == nil {
				continue
			}
			t.before[n.dir] = d.seq
			d.changes++
			if e := d.entries[n.name]; e.ino != 0 { // one that may lose this name, or gain another
				t.attrs = append(t.attrs, e.ino)
			}
		}
		switch o := o.(type) {
		case *namespace.SetAttr:
			t.attrs = append(t.attrs, o.Ino)
		case *namespace.SetXattr:
			t.attrs = append(t.attrs, o.Ino)
		case *namespace.RemoveXattr:
			t.attrs = append(t.attrs, o.Ino)
		case *namespace.Link:
			t.attrs = append(t.attrs, o.Ino)
		case *namespace.Replace:
			t.attrs = append(t.attrs, o.Ino)
		}
	}
	s.flights.count(t.names, t.attrs, 1)
	return t
}

// landed takes a command's answer, or that there will be none. mu is held.
func (s *Spoke) landed(t sent) { s.flights.count(t.names, t.attrs, -1) }
