package kv

import (
	"iter"
	"slices"
	"sort"
)

// Mem is a View in memory, for tests and simulation. The zero value is empty and ready.
type Mem struct {
	keys   []string // sorted
	values map[string][]byte
}

// Get implements View.
func (m *Mem) Get(key []byte) ([]byte, bool) {
	v, ok := m.values[string(key)]
	return v, ok
}

// Scan implements View.
func (m *Mem) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for i := sort.SearchStrings(m.keys, string(from)); i < len(m.keys); i++ {
			k := m.keys[i]
			if to != nil && k >= string(to) {
				return
			}
			if !yield([]byte(k), m.values[k]) {
				return
			}
		}
	}
}

// Set implements View.
func (m *Mem) Set(key, value []byte) {
	if m.values == nil {
		m.values = map[string][]byte{}
	}
	k := string(key)
	if _, ok := m.values[k]; !ok {
		i, _ := slices.BinarySearch(m.keys, k)
		m.keys = slices.Insert(m.keys, i, k)
	}
	m.values[k] = slices.Clone(value)
}

// Delete implements View.
func (m *Mem) Delete(key []byte) {
	k := string(key)
	if _, ok := m.values[k]; !ok {
		return
	}
	delete(m.values, k)
	i, _ := slices.BinarySearch(m.keys, k)
	m.keys = slices.Delete(m.keys, i, i+1)
}

// DeleteRange implements View.
func (m *Mem) DeleteRange(from, to []byte) {
	i := sort.SearchStrings(m.keys, string(from))
	j := len(m.keys)
	if to != nil {
		j = sort.SearchStrings(m.keys, string(to))
	}
	if i >= j {
		return
	}
	for _, k := range m.keys[i:j] {
		delete(m.values, k)
	}
	m.keys = slices.Delete(m.keys, i, j)
}

// Clone is an independent copy; values are shared, as they are never changed.
func (m *Mem) Clone() *Mem {
	c := &Mem{keys: slices.Clone(m.keys), values: make(map[string][]byte, len(m.values))}
	for k, v := range m.values {
		c.values[k] = v
	}
	return c
}
