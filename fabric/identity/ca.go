package identity

import (
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
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage/disk"
)

const (
	caFile = "ca.pem"
	// caLife is how long the authority lives; there is no rollover yet.
	caLife = 20 * 365 * 24 * time.Hour
	// CertLife is how long the certificate of a spoke node, or of a hub, lives (A56).
	CertLife = 90 * 24 * time.Hour
	// skew allows for clocks that are behind the hub's.
	skew = 10 * time.Minute
	// maxCSR bounds a request for a certificate, in bytes.
	maxCSR = 8 << 10
)

// CA is the hub's certificate authority. Its methods may be called at the same time.
type CA struct {
	// Now is the wall clock; time.Now if nil. Set it before the first call.
	Now func() time.Time

	domain string
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
}

// OpenCA reads the authority of a directory, or makes it there. domain names the deployment, as a
// DNS name in small letters; Invalid if it is none, or not the one the authority was made with.
func OpenCA(dir disk.Dir, domain string) (*CA, error) {
	if !validDomain(domain) {
		return nil, failed("open ca", fabric.Invalid, fmt.Errorf("domain %q", domain))
	}
	p, err := read(dir, caFile)
	if errors.Is(err, fs.ErrNotExist) {
		return makeCA(dir, domain)
	}
	if err != nil {
		return nil, failed("open ca", fabric.Internal, err)
	}
	key, certs, err := decode(p, 1)
	if err != nil {
		return nil, failed("open ca", fabric.Corrupt, err)
	}
	ca := &CA{domain: domain, key: key, cert: certs[0]}
	if u := certs[0].URIs; len(u) != 1 || u[0].Host != domain {
		return nil, failed("open ca", fabric.Invalid, fmt.Errorf("the authority is not of %s", domain))
	}
	return ca, nil
}

func makeCA(dir disk.Dir, domain string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, failed("make ca", fabric.Internal, err)
	}
	now := time.Now()
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "spokefs " + domain}, NotBefore: now.Add(-skew), NotAfter: now.Add(caLife),
		URIs: []*url.URL{{Scheme: "spiffe", Host: domain}}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := sign(t, t, key.Public(), key)
	if err != nil {
		return nil, failed("make ca", fabric.Internal, err)
	}
	p, err := encode(key, der)
	if err == nil {
		err = replace(dir, caFile, p)
	}
	if err != nil {
		return nil, failed("make ca", fabric.Internal, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, failed("make ca", fabric.Internal, err)
	}
	return &CA{domain: domain, key: key, cert: cert}, nil
}

// sign gives t a serial number and signs it.
func sign(t, parent *x509.Certificate, public any, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	t.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, t, parent, public, key)
}

func (ca *CA) now() time.Time {
	if ca.Now != nil {
		return ca.Now()
	}
	return time.Now()
}

// Domain is the name of the deployment.
func (ca *CA) Domain() string { return ca.domain }

// Cert is the authority's own certificate, DER. Do not change it.
func (ca *CA) Cert() []byte { return ca.cert.Raw }

// Pin is what a join token says of the authority.
func (ca *CA) Pin() [32]byte { return sha256.Sum256(ca.cert.Raw) }

// Server makes a key and certificate for a hub. hosts are names and addresses it may also be
// reached under; the first is its name, "hub" if there is none. The chain has the authority in it,
// for those who have no more than its pin. It serves as a client's too, between hubs.
func (ca *CA) Server(hosts ...string) (tls.Certificate, error) {
	name := "hub"
	if len(hosts) > 0 {
		name = hosts[0]
	}
	t := ca.template("hub", name)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.DNSNames = []string{serverName(ca.domain)}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, failed("sign hub", fabric.Internal, err)
	}
	der, err := sign(t, ca.cert, key.Public(), ca.key)
	if err != nil {
		return tls.Certificate{}, failed("sign hub", fabric.Invalid, err)
	}
	return tls.Certificate{Certificate: [][]byte{der, ca.cert.Raw}, PrivateKey: key}, nil
}

// Sign makes a certificate for a spoke's node from a request in DER, of which only the public key
// is used. Invalid: the request is not signed by its key, the key is not ECDSA P-256, or a name
// has other characters than a-z, A-Z, 0-9, '.', '_', '-'.
func (ca *CA) Sign(csrDER []byte, spoke, node string) ([]byte, error) {
	if len(csrDER) > maxCSR {
		return nil, failed("sign", fabric.TooBig, nil)
	}
	if !validName(spoke) || !validName(node) {
		return nil, failed("sign", fabric.Invalid, fmt.Errorf("spoke %q, node %q", spoke, node))
	}
	csr, err := x509.ParseCertificateRequest(csrDER)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return nil, failed("sign", fabric.Invalid, err)
	}
	public, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, failed("sign", fabric.Invalid, errors.New("the key is not ECDSA P-256"))
	}
	t := ca.template("spoke", spoke, node)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := sign(t, ca.cert, public, ca.key)
	if err != nil {
		return nil, failed("sign", fabric.Internal, err)
	}
	return der, nil
}

// template is a certificate for spiffe://domain/path.
func (ca *CA) template(path ...string) *x509.Certificate {
	now := ca.now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: strings.Join(path, "/")},
		NotBefore: now.Add(-skew), NotAfter: now.Add(CertLife),
		URIs:     []*url.URL{{Scheme: "spiffe", Host: ca.domain, Path: "/" + strings.Join(path, "/")}},
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
}

func serverName(domain string) string { return "hub." + domain }

// validName allows what needs no escaping in a URI, a path or a shell.
func validName(s string) bool {
	if s == "" || len(s) > 63 || s == "." || s == ".." {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

func validDomain(s string) bool {
	if len(s) > 200 {
		return false
	}
	for _, label := range strings.Split(s, ".") {
		if !validName(label) || label != strings.ToLower(label) || strings.Contains(label, "_") ||
			label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}
