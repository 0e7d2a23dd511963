package identity

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

func TestTokens(t *testing.T) {
	a, err := NewToken("hub.example.org:7600", "branch", [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewToken("[2001:db8::1]:7600", "branch", [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(a.Secret, b.Secret) || HashSecret(a.Secret) == HashSecret(b.Secret) {
		t.Error("two tokens with one secret")
	}
	for _, want := range []Token{a, b} {
		got, err := ParseToken(" " + want.Text() + "\n")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
		secret := base64.StdEncoding.EncodeToString(want.Secret)
		if s := fmt.Sprint(want); strings.Contains(s, secret) {
			t.Errorf("%q tells the secret", s)
		}
	}
	for hub, spoke := range map[string]string{"hub": "branch", ":1": "branch", "h:": "branch", "h:1": "a/b", "h:2": ""} {
		if _, err := NewToken(hub, spoke, [32]byte{}); !errors.Is(err, fabric.Invalid) {
			t.Errorf("%q at %q: %v", spoke, hub, err)
		}
	}
}

func TestBadTokens(t *testing.T) {
	token := func(json string) string { return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(json)) }
	pin := base64.StdEncoding.EncodeToString(make([]byte, 32))
	good := `{"hub":"h:1","spoke":"s","secret":"AAAAAAAAAAAAAAAAAAAAAA==","ca":"` + pin + `"}`
	if _, err := ParseToken(token(good)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"", "spokefs-join-v2." + token(good)[len(tokenPrefix):], tokenPrefix, token(""), token("{}"), token("null"), token(good + good),
		token(good)[:40], token(good) + "=", token(good) + "!", token(strings.Replace(good, "hub", "hob", 1)),
		token(strings.Replace(good, "AAAAAAAAAAAAAAAAAAAAAA==", "AAAA", 1)), token(strings.Replace(good, pin, "AAAA", 1)),
		token(strings.Replace(good, "h:1", "h", 1)), tokenPrefix + strings.Repeat("A", maxToken),
	} {
		if got, err := ParseToken(s); !errors.Is(err, fabric.Invalid) {
			t.Errorf("%.60q: %+v, %v", s, got, err)
		}
	}
}

// The text must stay readable: tokens are handed out and used later.
func TestGoldenToken(t *testing.T) {
	want := Token{Hub: "hub.example.org:7600", Spoke: "branch", Secret: []byte("0123456789abcdef01234567"), Pin: [32]byte{1, 2, 3}}
	p, err := os.ReadFile("testdata/token-v1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseToken(string(p)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got := want.Text(); got != strings.TrimSpace(string(p)) {
		t.Errorf("now it is written %s", got)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(Token{Hub: "h:1", Spoke: "s", Secret: make([]byte, 16)}.Text())
	f.Add(tokenPrefix + "e30")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		if err != nil {
			return
		}
		again, err := ParseToken(token.Text())
		if err != nil || !reflect.DeepEqual(again, token) {
			t.Errorf("%+v, then %+v, %v", token, again, err)
		}
	})
}
