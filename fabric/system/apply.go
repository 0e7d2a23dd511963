package system

import (
	"fmt"
	"iter"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
)

// Kinds of records: the first byte of a key; the name follows.
const (
	kindNamespace byte = 'n'
	kindPortal    byte = 'p'
	kindSpoke     byte = 's'
	kindToken     byte = 't'
	kindKey       byte = 'k'
)

// record is any stored type.
type record interface {
	Namespace | Portal | Spoke | Token | Key
}

func key(kind byte, name string) []byte { return append([]byte{kind}, name...) }

// get reads one record. What is stored was encoded here: a record that does not decode is damage
// that kv has checksums against.
func get[T record](v kv.View, kind byte, name string) (r T, ok bool) {
	p, ok := v.Get(key(kind, name))
	if !ok {
		return r, false
	}
	if err := decode(p, &r); err != nil {
		panic(fmt.Sprintf("system: record %c %q: %v", kind, name, err))
	}
	return r, true
}

func list[T record](v kv.View, kind byte) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, p := range v.Scan([]byte{kind}, []byte{kind + 1}) {
			var r T
			if err := decode(p, &r); err != nil {
				panic(fmt.Sprintf("system: record of kind %c: %v", kind, err))
			}
			if !yield(r) {
				return
			}
		}
	}
}

func count(v kv.View, kind byte) int {
	n := 0
	for range v.Scan([]byte{kind}, []byte{kind + 1}) {
		n++
	}
	return n
}

// Namespaces, Portals, Spokes and Keys list the records of a kind by name.
func Namespaces(v kv.View) iter.Seq[Namespace] { return list[Namespace](v, kindNamespace) }

// Portals lists the portals by name.
func Portals(v kv.View) iter.Seq[Portal] { return list[Portal](v, kindPortal) }

// Spokes lists the spokes by name.
func Spokes(v kv.View) iter.Seq[Spoke] { return list[Spoke](v, kindSpoke) }

// Keys lists the S3 keys by access key.
func Keys(v kv.View) iter.Seq[Key] { return list[Key](v, kindKey) }

// GetNamespace reads one namespace.
func GetNamespace(v kv.View, name string) (Namespace, bool) {
	return get[Namespace](v, kindNamespace, name)
}

// GetPortal reads one portal.
func GetPortal(v kv.View, name string) (Portal, bool) { return get[Portal](v, kindPortal, name) }

// GetSpoke reads one spoke.
func GetSpoke(v kv.View, name string) (Spoke, bool) { return get[Spoke](v, kindSpoke, name) }

// GetKey reads one S3 key.
func GetKey(v kv.View, access string) (Key, bool) { return get[Key](v, kindKey, access) }

// Apply carries out an encoded command and returns the encoded result. A command that does not
// decode changes nothing.
func Apply(v kv.View, _ uint64, cmd []byte) []byte {
	var c Command
	if err := decode(cmd, &c); err != nil {
		return encode(Result{Version: Version, Code: fabric.CodeOf(err), Why: err.Error()})
	}
	if c.Version != Version {
		return encode(Result{Version: Version, Code: fabric.Unsupported, Why: fmt.Sprintf("command version %d", c.Version)})
	}
	r := apply(v, &c)
	r.Version = Version
	return encode(r)
}

func apply(v kv.View, c *Command) Result {
	switch {
	case c.CreateNamespace != nil:
		return createNamespace(v, c.CreateNamespace)
	case c.SetPortal != nil:
		return setPortal(v, c.SetPortal)
	case c.RemovePortal != "":
		return remove(v, kindPortal, c.RemovePortal)
	case c.SetSpoke != nil:
		return setSpoke(v, c.SetSpoke)
	case c.CreateToken != nil:
		return createToken(v, c.CreateToken, c.Wall)
	case c.RedeemToken != nil:
		return redeem(v, c.RedeemToken, c.Wall)
	case c.SetKey != nil:
		return setKey(v, c.SetKey)
	case c.RemoveKey != "":
		return remove(v, kindKey, c.RemoveKey)
	}
	return fail(fabric.Invalid, "an empty command")
}

func fail(code fabric.Code, format string, args ...any) Result {
	return Result{Code: code, Why: fmt.Sprintf(format, args...)}
}

// room refuses a record over its kind's limit.
func room(v kv.View, kind byte, name string, limit int) (Result, bool) {
	if _, ok := v.Get(key(kind, name)); ok || count(v, kind) < limit {
		return Result{}, true
	}
	return fail(fabric.NoSpace, "%d are the most", limit), false
}

func createNamespace(v kv.View, n *Namespace) Result {
	if code := checkName(n.Info.Name); code != fabric.OK {
		return fail(code, "a namespace's name has 3 to %d of a-z, 0-9, -", MaxName)
	}
	if n.Info.ID == 0 || n.Info.History == 0 || n.Info.Chunking.Algorithm == 0 {
		return fail(fabric.Invalid, "a namespace without id, history or chunking")
	}
	for other := range Namespaces(v) {
		if other.Info.Name != n.Info.Name && other.Info.ID == n.Info.ID {
			return fail(fabric.Exist, "id %#x is namespace %s's", n.Info.ID, other.Info.Name)
		}
	}
	if old, ok := GetNamespace(v, n.Info.Name); ok {
		if old.Info == n.Info {
			return Result{}
		}
		return fail(fabric.Exist, "namespace %s exists", n.Info.Name)
	}
	if r, ok := room(v, kindNamespace, n.Info.Name, MaxNamespaces); !ok {
		return r
	}
	v.Set(key(kindNamespace, n.Info.Name), encode(n))
	return Result{}
}

func setPortal(v kv.View, p *Portal) Result {
	if code := p.check(); code != fabric.OK {
		return fail(code, "portal %q: bad name, path or protocol", p.Name)
	}
	if _, ok := GetNamespace(v, p.Namespace); !ok {
		return fail(fabric.NotExist, "namespace %q does not exist", p.Namespace)
	}
	if r, ok := room(v, kindPortal, p.Name, MaxPortals); !ok {
		return r
	}
	v.Set(key(kindPortal, p.Name), encode(p))
	return Result{}
}

func setSpoke(v kv.View, s *Spoke) Result {
	if code := checkName(s.Name); code != fabric.OK {
		return fail(code, "a spoke's name has 3 to %d of a-z, 0-9, -", MaxName)
	}
	for _, g := range s.Grants {
		if _, ok := GetNamespace(v, g.Namespace); !ok {
			return fail(fabric.NotExist, "namespace %q does not exist", g.Namespace)
		}
	}
	if r, ok := room(v, kindSpoke, s.Name, MaxSpokes); !ok {
		return r
	}
	v.Set(key(kindSpoke, s.Name), encode(s))
	return Result{}
}

func createToken(v kv.View, t *Token, now fabric.Time) Result {
	if t.Uses < 1 || t.Uses > MaxUses || t.Expires <= now {
		return fail(fabric.Invalid, "a token needs 1 to %d uses and time to come", MaxUses)
	}
	if _, ok := GetSpoke(v, t.Spoke); !ok {
		return fail(fabric.NotExist, "spoke %q does not exist", t.Spoke)
	}
	var past [][]byte // those past their time make room
	for old := range list[Token](v, kindToken) {
		if old.Expires <= now {
			past = append(past, key(kindToken, string(old.Hash[:])))
		}
	}
	for _, k := range past {
		v.Delete(k)
	}
	if r, ok := room(v, kindToken, string(t.Hash[:]), MaxTokens); !ok {
		return r
	}
	v.Set(key(kindToken, string(t.Hash[:])), encode(t))
	return Result{}
}

// redeem answers Denied for whatever is wrong: a stranger learns nothing from it.
func redeem(v kv.View, r *Redeem, now fabric.Time) Result {
	t, ok := get[Token](v, kindToken, string(r.Hash[:]))
	if !ok || t.Spoke != r.Spoke || t.Expires <= now || t.Uses < 1 {
		return fail(fabric.Denied, "the join token is unknown, used or expired")
	}
	s, ok := GetSpoke(v, t.Spoke)
	if !ok || s.Revoked {
		return fail(fabric.Denied, "the spoke is revoked")
	}
	if t.Uses--; t.Uses == 0 {
		v.Delete(key(kindToken, string(t.Hash[:])))
	} else {
		v.Set(key(kindToken, string(t.Hash[:])), encode(t))
	}
	return Result{Spoke: &s}
}

func setKey(v kv.View, k *Key) Result {
	if len(k.Access) < 3 || len(k.Access) > 128 || len(k.Secret) < 8 || len(k.Secret) > 128 {
		return fail(fabric.Invalid, "an access key has 3 to 128 bytes, its secret 8 to 128")
	}
	if r, ok := room(v, kindKey, k.Access, MaxKeys); !ok {
		return r
	}
	v.Set(key(kindKey, k.Access), encode(k))
	return Result{}
}

func remove(v kv.View, kind byte, name string) Result {
	v.Delete(key(kind, name))
	return Result{}
}
