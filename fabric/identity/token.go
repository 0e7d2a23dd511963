package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spokefs/spokefs/fabric"
)

// tokenPrefix tells what a token is, and its version (docs/formats/token.md).
const tokenPrefix = "spokefs-join-v1."

// Limits of tokens, in bytes.
const (
	SecretLen = 24 // of the secret of a new token: 192 bits
	minSecret = 16
	maxToken  = 4 << 10
)

// Token lets a node join: it says where the hub is, which authority to trust, and has the secret
// that the hub keeps a hash of. Whoever has it can join as a node of Spoke.
type Token struct {
	Hub    string   // host:port
	Spoke  string   // the spoke it is for
	Secret []byte   // at least 16 random bytes
	Pin    [32]byte // SHA-256 of the authority's certificate
}

type tokenJSON struct {
	Hub    string `json:"hub"`
	Spoke  string `json:"spoke"`
	Secret []byte `json:"secret"`
	Pin    []byte `json:"ca"`
}

// NewToken makes a token with a fresh secret. Invalid: hub is not host:port, or spoke no name.
func NewToken(hub, spoke string, pin [32]byte) (Token, error) {
	t := Token{Hub: hub, Spoke: spoke, Secret: make([]byte, SecretLen), Pin: pin}
	if _, err := rand.Read(t.Secret); err != nil {
		return Token{}, failed("new token", fabric.Internal, err)
	}
	if err := t.check(); err != nil {
		return Token{}, failed("new token", fabric.Invalid, err)
	}
	return t, nil
}

func (t Token) check() error {
	if host, port, err := net.SplitHostPort(t.Hub); err != nil || host == "" || port == "" {
		return errors.New("the hub's address is not host:port")
	}
	if !validName(t.Spoke) {
		return fmt.Errorf("spoke %q is not a name", t.Spoke)
	}
	if len(t.Secret) < minSecret {
		return errors.New("the secret is too short")
	}
	return nil
}

// Text is the token as it is handed to a node. It is a secret.
func (t Token) Text() string {
	p, _ := json.Marshal(tokenJSON{t.Hub, t.Spoke, t.Secret, t.Pin[:]}) // cannot fail
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(p)
}

// String hides the secret, so that a token in a log does no harm.
func (t Token) String() string { return "join token of " + t.Spoke + " at " + t.Hub }

// ParseToken is the reverse of Text; spaces around it are dropped. Invalid if it is anything else.
// The error does not quote it.
func ParseToken(s string) (Token, error) {
	bad := func(err error) (Token, error) { return Token{}, failed("parse token", fabric.Invalid, err) }
	s = strings.TrimSpace(s)
	body, ok := strings.CutPrefix(s, tokenPrefix)
	if !ok || len(s) > maxToken {
		return bad(errors.New("it does not start with " + tokenPrefix + " or is too long"))
	}
	p, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil {
		return bad(errors.New("it is cut off or altered"))
	}
	d := json.NewDecoder(bytes.NewReader(p))
	d.DisallowUnknownFields()
	var j tokenJSON
	if err := d.Decode(&j); err != nil || d.More() || len(j.Pin) != 32 {
		return bad(errors.New("it is cut off or altered"))
	}
	t := Token{Hub: j.Hub, Spoke: j.Spoke, Secret: j.Secret, Pin: [32]byte(j.Pin)}
	if err := t.check(); err != nil {
		return bad(err)
	}
	return t, nil
}

// HashSecret is what the hub keeps of a token's secret, and finds it by.
func HashSecret(secret []byte) [32]byte { return sha256.Sum256(secret) }
