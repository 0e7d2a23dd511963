package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage/disk"
)

func newDir(t *testing.T) disk.Dir {
	t.Helper()
	d, err := disk.OS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newCA(t *testing.T) *CA {
	t.Helper()
	ca, err := OpenCA(newDir(t), "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newIdentity(t *testing.T, ca *CA, spoke, node string) *Identity {
	t.Helper()
	key, csr, err := NewKeyAndCSR()
	if err != nil {
		t.Fatal(err)
	}
	der, err := ca.Sign(csr, spoke, node)
	if err != nil {
		t.Fatal(err)
	}
	id, err := New(key, der, ca.Cert())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// shake connects two ends and gives what the server made of it.
func shake(server, client *tls.Config) (peer Peer, serverErr, clientErr error) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	s, c := tls.Server(a, server), tls.Client(b, client)
	done := make(chan error, 1)
	go func() {
		err := c.Handshake()
		if err != nil {
			b.Close()
		} else {
			_, err = c.Read(make([]byte, 1)) // in TLS 1.3 a refusal comes after the client is done
		}
		done <- err
	}()
	if serverErr = s.Handshake(); serverErr == nil {
		peer, serverErr = PeerOf(s.ConnectionState())
	}
	if serverErr == nil {
		s.Write([]byte{1})
	}
	a.Close()
	return peer, serverErr, <-done
}

func TestHandshake(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	server, err := ServerTLS(ca, true, "h1", "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	strict, err := ServerTLS(ca, false)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := ServerTLS(other, true)
	if err != nil {
		t.Fatal(err)
	}
	id := newIdentity(t, ca, "branch", "n1")
	past := func() time.Time { return time.Now().Add(-CertLife - 2*skew) }
	ca.Now = past
	expired := newIdentity(t, ca, "branch", "n1")
	expiredCert, err := ca.Server()
	if err != nil {
		t.Fatal(err)
	}
	ca.Now = nil
	shows := func(c tls.Certificate) *tls.Config {
		cfg := strict.Clone()
		cfg.GetCertificate, cfg.Certificates, cfg.ClientAuth = nil, []tls.Certificate{c}, tls.VerifyClientCertIfGiven
		return cfg
	}
	expiredHub := shows(expiredCert)
	hubCert, err := ca.Server("h2")
	if err != nil {
		t.Fatal(err)
	}
	with := func(c ...tls.Certificate) *tls.Config {
		cfg := ClientTLS(id)
		cfg.Certificates = c
		return cfg
	}
	old := ClientTLS(id)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	nodeAsHub := shows(ClientTLS(id).Certificates[0])
	nodeWithChain := shows(tls.Certificate{Certificate: [][]byte{id.Cert.Raw, ca.Cert()}, PrivateKey: id.Key})

	for _, c := range []struct {
		name           string
		server, client *tls.Config
		ok             bool
	}{
		{"a node", server, ClientTLS(id), true},
		{"a node, no others allowed", strict, ClientTLS(id), true},
		{"no certificate", server, with(), false},
		{"no certificate, none allowed", strict, with(), false},
		{"another authority's", server, with(ClientTLS(newIdentity(t, other, "branch", "n1")).Certificates...), false},
		{"expired", server, ClientTLS(expired), false},
		{"a hub's", server, with(hubCert), false},
		{"TLS 1.2", server, old, false},
		{"to another authority's hub", foreign, ClientTLS(id), false},
		{"to a hub that has expired", expiredHub, ClientTLS(id), false},
		{"to a node that plays the hub", nodeAsHub, ClientTLS(id), false},
		{"pinned, to a node that plays the hub", nodeWithChain, JoinTLS(ca.Pin()), false},
		{"pinned, to another authority's hub", foreign, JoinTLS(ca.Pin()), false},
		{"pinned, to a hub that has expired", expiredHub, JoinTLS(ca.Pin()), false},
	} {
		peer, err, clientErr := shake(c.server, c.client)
		if ok := err == nil && clientErr == nil; ok != c.ok {
			t.Errorf("%s: server %v, client %v", c.name, err, clientErr)
		}
		if c.ok && peer != (Peer{"example.org", "branch", "n1"}) {
			t.Errorf("%s: it is %v", c.name, peer)
		}
	}
	// A node that joins shows no certificate: the handshake is fine, and the server knows no peer.
	if _, err, _ := shake(server, JoinTLS(ca.Pin())); !errors.Is(err, fabric.Denied) {
		t.Errorf("joining: %v", err)
	}
	// An authority of the pinned one's name in the chain does not help.
	fakeCert, err := other.Server()
	if err != nil {
		t.Fatal(err)
	}
	fakeCert.Certificate[1] = ca.Cert()
	fake := shows(fakeCert)
	if _, _, err := shake(fake, JoinTLS(ca.Pin())); err == nil || !strings.Contains(err.Error(), "x509") {
		t.Errorf("a chain put together: %v", err)
	}
}

func TestHubsRenewTheirCertificate(t *testing.T) {
	ca := newCA(t)
	now := time.Now()
	ca.Now = func() time.Time { return now }
	h := &hubCert{ca: ca}
	var last *tls.Certificate
	for i, step := range []struct {
		d     time.Duration
		fresh bool
	}{{0, true}, {CertLife/2 - 1, false}, {1, true}, {time.Hour, false}, {-2 * time.Hour, true}} {
		now = now.Add(step.d)
		c, err := h.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		if fresh := c != last; fresh != step.fresh {
			t.Errorf("step %d: new certificate %v", i, fresh)
		}
		last = c
	}
}

func TestSignIgnoresWhatIsAskedFor(t *testing.T) {
	ca := newCA(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hub := &url.URL{Scheme: "spiffe", Host: "example.org", Path: "/hub/h1"}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "hub.example.org"}, URIs: []*url.URL{hub}, DNSNames: []string{"hub.example.org"},
		IPAddresses: []net.IP{{127, 0, 0, 1}}, EmailAddresses: []string{"root@example.org"},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := ca.Sign(csr, "branch", "n1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if c.IsCA || len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses) != 0 || c.Subject.CommonName == "hub.example.org" ||
		len(c.URIs) != 1 || c.URIs[0].String() != "spiffe://example.org/spoke/branch/n1" ||
		len(c.ExtKeyUsage) != 1 || c.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || c.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("it was given %+v", c)
	}
	if life := c.NotAfter.Sub(c.NotBefore); life > CertLife+2*skew {
		t.Errorf("it lives %v", life)
	}
}

func TestSignRefuses(t *testing.T) {
	ca := newCA(t)
	_, csr, err := NewKeyAndCSR()
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ed, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, edKey)
	if err != nil {
		t.Fatal(err)
	}
	forged := append([]byte{}, csr...)
	forged[len(forged)-1] ^= 1
	for _, c := range []struct {
		name, spoke, node string
		csr               []byte
	}{
		{"no request", "branch", "n1", nil},
		{"garbage", "branch", "n1", []byte("garbage")},
		{"a forged signature", "branch", "n1", forged},
		{"another kind of key", "branch", "n1", ed},
		{"a path in the spoke", "branch/n2", "n1", csr},
		{"a path in the node", "branch", "../n1", csr},
		{"no node", "branch", "", csr},
		{"dots", "..", "n1", csr},
		{"a query", "branch", "n1?x", csr},
	} {
		if der, err := ca.Sign(c.csr, c.spoke, c.node); !errors.Is(err, fabric.Invalid) || der != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := ca.Sign(make([]byte, maxCSR+1), "branch", "n1"); !errors.Is(err, fabric.TooBig) {
		t.Errorf("too long: %v", err)
	}
}

func TestFiles(t *testing.T) {
	path := t.TempDir()
	dir, err := disk.OS(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errors.Is(err, fabric.NotExist) {
		t.Errorf("none: %v", err)
	}
	ca, err := OpenCA(dir, "example.org")
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenCA(dir, "example.org")
	if err != nil || again.Pin() != ca.Pin() {
		t.Errorf("the authority changed, %v", err)
	}
	for _, domain := range []string{"example.com", "", "Example.org", "a/b", "-a.b", "a..b"} {
		if _, err := OpenCA(dir, domain); !errors.Is(err, fabric.Invalid) {
			t.Errorf("domain %q: %v", domain, err)
		}
	}
	id := newIdentity(t, again, "branch", "n1")
	if err := id.Save(dir); err != nil {
		t.Fatal(err)
	}
	id = newIdentity(t, again, "branch", "n2")
	if err := id.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil || got.Peer() != (Peer{"example.org", "branch", "n2"}) || !got.Key.Equal(id.Key) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{caFile, identityFile} {
		st, err := os.Stat(filepath.Join(path, name))
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	p, err := read(dir, identityFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]byte{"empty": nil, "cut": p[:len(p)/2], "the authority's": mustRead(t, dir, caFile)} {
		if err := replace(dir, identityFile, p); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); !errors.Is(err, fabric.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func mustRead(t *testing.T, dir disk.Dir, name string) []byte {
	t.Helper()
	p, err := read(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewRefusesWhatDoesNotFit(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	id := newIdentity(t, ca, "branch", "n1")
	key, _, err := NewKeyAndCSR()
	if err != nil {
		t.Fatal(err)
	}
	hub, err := ca.Server()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() (*Identity, error){
		"another key":       func() (*Identity, error) { return New(key, id.Cert.Raw, ca.Cert()) },
		"another authority": func() (*Identity, error) { return New(id.Key, id.Cert.Raw, other.Cert()) },
		"a hub's": func() (*Identity, error) {
			return New(hub.PrivateKey.(*ecdsa.PrivateKey), hub.Certificate[0], ca.Cert())
		},
		"no certificate": func() (*Identity, error) { return New(id.Key, nil, ca.Cert()) },
	} {
		if _, err := f(); !errors.Is(err, fabric.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	token := Token{Hub: "h:1", Spoke: "branch", Secret: make([]byte, 16), Pin: ca.Pin()}
	if err := id.Fits(token, "n1"); err != nil {
		t.Error(err)
	}
	wrong := token
	wrong.Pin = other.Pin()
	if id.Fits(token, "n2") == nil || id.Fits(wrong, "n1") == nil {
		t.Error("it fits what it does not")
	}
}
