// Package identity says who is who between nodes: the hub's certificate authority, the identity a
// spoke node keeps, the TLS settings of both ends, and join tokens (A56).
//
// # Names
//
// A spoke node's certificate has one URI, spiffe://DOMAIN/spoke/SPOKE/NODE, and may only be a
// client's. A hub's has spiffe://DOMAIN/hub/HOST and the DNS name hub.DOMAIN, which is what spokes
// check, whatever address they dialled. What a request for a certificate says about names, uses or
// authority is ignored: only its public key counts.
//
// # Files
//
// The authority is one file, ca.pem; an identity is one file, identity.pem: key, certificate, the
// authority's certificate. Both are mode 0600, written beside and renamed. Nothing here has
// goroutines; the one lock guards the certificate that a hub shows.
package identity
