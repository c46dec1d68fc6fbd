package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// leafKey is the key of every peer: tests that connect sockets need it.
var leafKey = newKey()

// signer is a certificate with its key.
type signer struct {
	*x509.Certificate
	key crypto.Signer
}

type change func(*x509.Certificate)

var serial int64

func newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	return key
}

func rsaKey(bits int) crypto.Signer {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	must(err)
	return key
}

// template is a certificate that is valid for a hundred years.
func template(name string) *x509.Certificate {
	serial++
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// sign makes a certificate; without a parent it is signed by its own key.
func sign(t *x509.Certificate, key crypto.Signer, parent *signer, changes []change) signer {
	for _, change := range changes {
		change(t)
	}
	by := signer{t, key}
	if parent != nil {
		by = *parent
	}
	der, err := x509.CreateCertificate(rand.Reader, t, by.Certificate, key.Public(), by.key)
	must(err)
	made, err := x509.ParseCertificate(der)
	must(err)
	return signer{made, key}
}

func authority(name string, changes ...change) signer {
	return authorityOf(newKey(), name, nil, changes...)
}

func authorityOf(key crypto.Signer, name string, parent *signer, changes ...change) signer {
	t := template(name)
	t.BasicConstraintsValid, t.IsCA, t.MaxPathLen = true, true, -1
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return sign(t, key, parent, changes)
}

func below(parent signer, name string, changes ...change) signer {
	return authorityOf(newKey(), name, &parent, changes...)
}

func leafTemplate() *x509.Certificate {
	t := template("mallory")
	t.Subject.Organization = []string{"system:masters"}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.DNSNames = []string{"localhost", "hook.default.svc", "node-1"}
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1).To4(), net.IPv6loopback}
	return t
}

func leaf(parent signer, changes ...change) signer {
	return sign(leafTemplate(), leafKey, &parent, changes)
}

// own is a leaf that is signed by its own key.
func own(changes ...change) signer { return sign(leafTemplate(), leafKey, nil, changes) }

func list(signers ...signer) (certificates []*x509.Certificate) {
	for _, s := range signers {
		certificates = append(certificates, s.Certificate)
	}
	return certificates
}

// versionOne makes a certificate of X.509's first version: what a later one has in front of its
// extensions, signed again.
func versionOne(s signer, parent *signer) signer {
	var outer struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	_, err := asn1.Unmarshal(s.Raw, &outer)
	must(err)
	var kept []byte
	for rest := outer.TBS.Bytes; len(rest) > 0; {
		var element asn1.RawValue
		rest, err = asn1.Unmarshal(rest, &element)
		must(err)
		if element.Class != asn1.ClassContextSpecific {
			kept = append(kept, element.FullBytes...)
		}
	}
	tbs, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: kept})
	must(err)
	by := s.key
	if parent != nil {
		by = parent.key
	}
	digest := crypto.SHA256.New()
	digest.Write(tbs)
	signature, err := by.Sign(rand.Reader, digest.Sum(nil), crypto.SHA256)
	must(err)
	outer.TBS = asn1.RawValue{FullBytes: tbs}
	outer.Signature = asn1.BitString{Bytes: signature, BitLength: len(signature) * 8}
	der, err := asn1.Marshal(outer)
	must(err)
	made, err := x509.ParseCertificate(der)
	must(err)
	return signer{made, s.key}
}

func expired(c *x509.Certificate)    { c.NotAfter = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC) }
func early(c *x509.Certificate)      { c.NotBefore = time.Date(2119, 1, 1, 0, 0, 0, 0, time.UTC) }
func noCA(c *x509.Certificate)       { c.IsCA, c.MaxPathLen = false, -1 }
func noBasic(c *x509.Certificate)    { c.BasicConstraintsValid, c.IsCA, c.MaxPathLen = false, false, 0 }
func noSigning(c *x509.Certificate)  { c.KeyUsage = x509.KeyUsageDigitalSignature }
func noKeyUsage(c *x509.Certificate) { c.KeyUsage = 0 }
func noNames(c *x509.Certificate)    { c.DNSNames, c.IPAddresses = nil, nil }
func noUsages(c *x509.Certificate)   { c.ExtKeyUsage = nil }
func sha1(c *x509.Certificate)       { c.SignatureAlgorithm = x509.ECDSAWithSHA1 }
func sha1RSA(c *x509.Certificate)    { c.SignatureAlgorithm = x509.SHA1WithRSA }
func pss(c *x509.Certificate)        { c.SignatureAlgorithm = x509.SHA256WithRSAPSS }

func usage(usages ...x509.ExtKeyUsage) change {
	return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
}

func length(n int) change {
	return func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = n, n == 0 }
}

func named(name string) change {
	return func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: name} }
}

func dns(names ...string) change {
	return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = names, nil }
}

func critical(id ...int) change {
	return func(c *x509.Certificate) {
		c.ExtraExtensions = append(c.ExtraExtensions,
			pkix.Extension{Id: id, Critical: true, Value: []byte{5, 0}})
	}
}

func keyID(id string) change {
	return func(c *x509.Certificate) { c.SubjectKeyId = []byte(id) }
}

func network(text string) *net.IPNet {
	_, network, err := net.ParseCIDR(text)
	must(err)
	return network
}

func uri(text string) *url.URL {
	parsed, err := url.Parse(text)
	must(err)
	return parsed
}

func edKey() crypto.Signer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	return key
}

func curveKey(curve elliptic.Curve) crypto.Signer {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	must(err)
	return key
}

// explicitPolicy requires that every certificate below has a policy.
func explicitPolicy(c *x509.Certificate) {
	value, err := asn1.Marshal(struct {
		Require int `asn1:"tag:0"`
	}{0})
	must(err)
	c.ExtraExtensions = append(c.ExtraExtensions,
		pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 36}, Critical: true, Value: value})
}

func policy(c *x509.Certificate) {
	oid, err := x509.OIDFromInts([]uint64{1, 2, 3})
	must(err)
	c.Policies = []x509.OID{oid}
}

// many are intermediates of one name that have not signed anything.
func many(parent signer, name string, count int) (signers []signer) {
	for i := range count {
		signers = append(signers, below(parent, name, keyID(fmt.Sprint(i))))
	}
	return signers
}
