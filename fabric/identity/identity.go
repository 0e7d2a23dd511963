package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage/disk"
)

const identityFile = "identity.pem"

// Identity is what a spoke node proves itself with. Do not change it.
type Identity struct {
	Key  *ecdsa.PrivateKey
	Cert *x509.Certificate
	CA   *x509.Certificate
}

// NewKeyAndCSR makes a key and a request for its certificate, DER.
func NewKeyAndCSR() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, failed("new key", fabric.Internal, err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "spokefs"}}, key)
	if err != nil {
		return nil, nil, failed("new key", fabric.Internal, err)
	}
	return key, csr, nil
}

// New puts an identity together from what a hub answered, and checks that it fits: the certificate
// is key's, a spoke node's, and signed by ca. Invalid if not.
func New(key *ecdsa.PrivateKey, certDER, caDER []byte) (*Identity, error) {
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, failed("identity", fabric.Invalid, err)
	}
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, failed("identity", fabric.Invalid, err)
	}
	id := &Identity{Key: key, Cert: cert, CA: ca}
	if err := id.check(); err != nil {
		return nil, failed("identity", fabric.Invalid, err)
	}
	return id, nil
}

func (id *Identity) check() error {
	if !id.Key.PublicKey.Equal(id.Cert.PublicKey) {
		return errors.New("the certificate is for another key")
	}
	if err := id.Cert.CheckSignatureFrom(id.CA); err != nil {
		return err
	}
	_, err := peerOf(id.Cert)
	return err
}

// Load reads a node's identity. NotExist: the node has not joined; Corrupt: it is not one.
func Load(dir disk.Dir) (*Identity, error) {
	p, err := read(dir, identityFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failed("load identity", fabric.NotExist, nil)
	case err != nil:
		return nil, failed("load identity", fabric.Internal, err)
	}
	key, certs, err := decode(p, 2)
	if err != nil {
		return nil, failed("load identity", fabric.Corrupt, err)
	}
	id := &Identity{Key: key, Cert: certs[0], CA: certs[1]}
	if err := id.check(); err != nil {
		return nil, failed("load identity", fabric.Corrupt, err)
	}
	return id, nil
}

// Save writes the identity, in place of one that is there; it is durable on return.
func (id *Identity) Save(dir disk.Dir) error {
	p, err := encode(id.Key, id.Cert.Raw, id.CA.Raw)
	if err == nil {
		err = replace(dir, identityFile, p)
	}
	if err != nil {
		return failed("save identity", fabric.Internal, err)
	}
	return nil
}

// Peer says who this is.
func (id *Identity) Peer() Peer {
	p, _ := peerOf(id.Cert) // checked when the identity was made
	return p
}

// Peer is a spoke node as its certificate names it.
type Peer struct {
	Domain string
	Spoke  string
	Node   string
}

// String is the node's name among all nodes: what sessions are kept under.
func (p Peer) String() string { return "spiffe://" + p.Domain + "/spoke/" + p.Spoke + "/" + p.Node }

// PeerOf is who the other end of a connection is. Denied: it showed no certificate that was
// verified, or not a spoke node's.
func PeerOf(s tls.ConnectionState) (Peer, error) {
	if len(s.VerifiedChains) == 0 || len(s.VerifiedChains[0]) == 0 {
		return Peer{}, failed("peer", fabric.Denied, errors.New("no certificate"))
	}
	p, err := peerOf(s.VerifiedChains[0][0])
	if err != nil {
		return Peer{}, failed("peer", fabric.Denied, err)
	}
	return p, nil
}

func peerOf(c *x509.Certificate) (Peer, error) {
	domain, path, err := uriOf(c)
	if err != nil {
		return Peer{}, err
	}
	if len(path) != 3 || path[0] != "spoke" || !validName(path[1]) || !validName(path[2]) {
		return Peer{}, fmt.Errorf("%s is not a spoke node", c.URIs[0])
	}
	return Peer{Domain: domain, Spoke: path[1], Node: path[2]}, nil
}

// uriOf is the one URI that all our certificates have.
func uriOf(c *x509.Certificate) (domain string, path []string, err error) {
	if len(c.URIs) != 1 || c.URIs[0].Scheme != "spiffe" {
		return "", nil, errors.New("not a certificate of ours")
	}
	u := c.URIs[0]
	return u.Host, strings.Split(strings.TrimPrefix(u.Path, "/"), "/"), nil
}

// hubRole says whether a certificate is a hub's.
func hubRole(c *x509.Certificate) error {
	_, path, err := uriOf(c)
	if err != nil {
		return err
	}
	if len(path) != 2 || path[0] != "hub" {
		return fmt.Errorf("%s is not a hub", c.URIs[0])
	}
	return nil
}

// ServerTLS is a hub's end: TLS 1.3, clients have a certificate of ca. With allowNoClientCert they
// may also show none, as one must that is about to join: what such a client may do is then up to
// the listener's table (A52). hosts are as in Server. The hub's certificate is made anew when half
// of its life is over, so a hub may run for as long as it likes.
func ServerTLS(ca *CA, allowNoClientCert bool, hosts ...string) (*tls.Config, error) {
	own := &hubCert{ca: ca, hosts: hosts}
	if _, err := own.get(nil); err != nil {
		return nil, err
	}
	auth := tls.RequireAndVerifyClientCert
	if allowNoClientCert {
		auth = tls.VerifyClientCertIfGiven
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: own.get, ClientAuth: auth, ClientCAs: pool,
		Time: ca.Now, SessionTicketsDisabled: true, // a resumed connection would skip the check of times
	}, nil
}

// hubCert is a hub's certificate, renewed at half of its life.
type hubCert struct {
	ca    *CA
	hosts []string

	mu   sync.Mutex // guards what follows
	cert *tls.Certificate
	made time.Time
}

func (h *hubCert) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.ca.now()
	if age := now.Sub(h.made); h.cert != nil && age >= 0 && age < CertLife/2 {
		return h.cert, nil
	}
	cert, err := h.ca.Server(h.hosts...)
	if err != nil {
		return nil, err
	}
	h.cert, h.made = &cert, now
	return h.cert, nil
}

// ClientTLS is a spoke node's end: TLS 1.3, and the other end is a hub of the same authority.
func ClientTLS(id *Identity) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(id.CA)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: serverName(id.Peer().Domain),
		Certificates:     []tls.Certificate{{Certificate: [][]byte{id.Cert.Raw}, PrivateKey: id.Key, Leaf: id.Cert}},
		VerifyConnection: func(s tls.ConnectionState) error { return hubRole(s.PeerCertificates[0]) },
	}
}

// JoinTLS is for a node that has no identity yet: it shows no certificate, and takes a hub whose
// chain has the pinned authority.
func JoinTLS(pin [32]byte) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// The authority is only known by its pin: VerifyConnection does what is skipped here.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return verifyPinned(s.PeerCertificates, pin) },
	}
}

func verifyPinned(chain []*x509.Certificate, pin [32]byte) error {
	if len(chain) == 0 {
		return errors.New("the hub shows no certificate")
	}
	for _, c := range chain[1:] {
		sum := sha256.Sum256(c.Raw)
		if !bytes.Equal(sum[:], pin[:]) {
			continue
		}
		pool := x509.NewCertPool()
		pool.AddCert(c)
		opts := x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		if _, err := chain[0].Verify(opts); err != nil {
			return err
		}
		return hubRole(chain[0])
	}
	return errors.New("the hub is not the one the token is for")
}

// Fits says whether this is the identity that token was to give node: signed by the authority of
// its pin, under these names. Invalid if not.
func (id *Identity) Fits(token Token, node string) error {
	if sha256.Sum256(id.CA.Raw) != token.Pin {
		return failed("identity", fabric.Invalid, errors.New("the authority is not the token's"))
	}
	if p := id.Peer(); p.Spoke != token.Spoke || p.Node != node {
		return failed("identity", fabric.Invalid, fmt.Errorf("the certificate is for %s", p))
	}
	return nil
}
