package identity

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage/disk"
)

// maxFile bounds a file of this package, in bytes.
const maxFile = 64 << 10

const (
	keyBlock  = "EC PRIVATE KEY"
	certBlock = "CERTIFICATE"
)

func failed(op string, code fabric.Code, err error) error {
	return &fabric.Error{Op: op, Code: code, Err: err}
}

// read gives a whole small file. A missing one is io/fs's ErrNotExist.
func read(dir disk.Dir, name string) ([]byte, error) {
	f, err := dir.Open(name, disk.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxFile {
		return nil, fmt.Errorf("%s: %d bytes, at most %d expected", name, size, maxFile)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); err != nil && (err != io.EOF || n != len(p)) {
		return nil, err
	}
	return p, nil
}

// replace writes a whole file beside the old one, and renames it once it is durable.
func replace(dir disk.Dir, name string, p []byte) error {
	f, err := dir.Open(name+".new", disk.Create)
	if err != nil {
		return err
	}
	if err := fill(f, p); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := dir.Rename(name+".new", name); err != nil {
		return err
	}
	return dir.Sync()
}

func fill(f disk.File, p []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(p, 0); err != nil {
		return err
	}
	return f.Sync()
}

// encode is a key and certificates as PEM.
func encode(key *ecdsa.PrivateKey, certs ...[]byte) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	p := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
	for _, c := range certs {
		p = append(p, pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: c})...)
	}
	return p, nil
}

// decode is the reverse, of exactly n certificates.
func decode(p []byte, n int) (key *ecdsa.PrivateKey, certs []*x509.Certificate, err error) {
	for {
		var b *pem.Block
		if b, p = pem.Decode(p); b == nil {
			break
		}
		switch b.Type {
		case keyBlock:
			if key, err = x509.ParseECPrivateKey(b.Bytes); err != nil {
				return nil, nil, err
			}
		case certBlock:
			c, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				return nil, nil, err
			}
			certs = append(certs, c)
		}
	}
	if key == nil || len(certs) != n {
		return nil, nil, fmt.Errorf("want a key and %d certificates, found %d", n, len(certs))
	}
	if !key.PublicKey.Equal(certs[0].PublicKey) {
		return nil, nil, fmt.Errorf("the key is not the certificate's")
	}
	return key, certs, nil
}
