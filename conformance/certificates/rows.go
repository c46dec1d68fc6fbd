package main

import (
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
)

// table has all rows by name.
func table() map[string]row {
	rows := map[string]row{}
	for _, part := range []map[string]row{anchors(), leaves(), names(), constraints(), paths(), algorithms()} {
		for name, row := range part {
			rows[name] = row
		}
	}
	return rows
}

// signedBy is a row of one anchor that has signed the leaf itself.
func signedBy(about string, anchor signer, changes ...change) row {
	return row{about: about, roots: list(anchor), chain: list(leaf(anchor, changes...))}
}

// through is a row with one intermediate that the peer sends.
func through(about string, root, intermediate signer, changes ...change) row {
	return row{about: about, roots: list(root), chain: list(leaf(intermediate, changes...), intermediate)}
}

func anchors() map[string]row {
	good, pinned := authority("good"), own(named("pinned"), noUsages)
	clientPin := own(named("pinned"), noNames, usage(x509.ExtKeyUsageClientAuth))
	clientPin.BasicConstraintsValid = true
	forged := authority("good")
	v1 := versionOne(authority("v1"), nil)
	anonymous := authority("", func(c *x509.Certificate) { c.Subject = pkix.Name{} })
	organization := authority("", noCA, func(c *x509.Certificate) { c.Subject = pkix.Name{Organization: []string{"acme"}} })
	return map[string]row{
		"anchor-good":                    signedBy("An authority that may sign.", good),
		"anchor-ca-false":                signedBy("CA:FALSE.", authority("pinned", noCA, noKeyUsage)),
		"anchor-ca-absent":               signedBy("Version 3 without basic constraints.", authority("bare", noBasic, noKeyUsage)),
		"anchor-no-cert-sign":            signedBy("A key usage without keyCertSign.", authority("encipher", noSigning)),
		"anchor-no-key-usage":            signedBy("No key usage at all.", authority("free", noKeyUsage)),
		"anchor-expired":                 signedBy("Expired in 2021.", authority("old", expired)),
		"anchor-not-yet-valid":           signedBy("Valid from 2119 on.", authority("new", early)),
		"anchor-server-usage":            signedBy("Extended key usage: serverAuth.", authority("servers", usage(x509.ExtKeyUsageServerAuth))),
		"anchor-client-usage":            signedBy("Extended key usage: clientAuth.", authority("clients", usage(x509.ExtKeyUsageClientAuth))),
		"anchor-other-usage":             signedBy("Extended key usage: codeSigning.", authority("code", usage(x509.ExtKeyUsageCodeSigning))),
		"anchor-any-usage":               signedBy("Extended key usage: any.", authority("any", usage(x509.ExtKeyUsageAny))),
		"anchor-critical-unknown":        signedBy("An unknown critical extension.", authority("strange", critical(1, 2, 3, 4))),
		"anchor-v1":                      signedBy("An authority of X.509's first version.", v1),
		"anchor-path-length-0":           signedBy("Path length 0 and no intermediate.", authority("short", length(0))),
		"anchor-without-subject":         signedBy("An empty subject.", anonymous),
		"anchor-organization":            signedBy("CA:FALSE, and no common name: the hint names the organization.", organization),
		"anchor-same-name-other-key":     {about: "An authority of the same name with another key.", roots: list(good), chain: list(leaf(forged))},
		"anchor-unknown":                 {about: "Nothing of that name is trusted.", roots: list(good), chain: list(leaf(authority("other")))},
		"anchor-pinned-leaf-signs":       {about: "A pinned client certificate signs for others.", roots: list(good, clientPin), chain: list(leaf(clientPin))},
		"anchor-expired-and-good":        {about: "Two anchors of one name and key, one of them expired.", roots: renewed(expired), chain: renewedLeaf},
		"anchor-early-and-good":          {about: "Two anchors of one name and key, one of them not yet valid.", roots: renewed(early), chain: renewedLeaf},
		"anchor-bad-beside-good":         {about: "A bundle with a useless certificate of another name.", roots: list(authority("useless", noCA), good), chain: list(leaf(good))},
		"self-signed-leaf-own-ca":        {about: "A self-signed server certificate that is its own CA file.", roots: list(pinned), chain: list(pinned)},
		"self-signed-ca-as-leaf":         {about: "A self-signed authority that serves, and is its own CA file.", roots: list(ownCA), chain: list(ownCA)},
		"self-signed-leaf-expired":       {about: "The same, expired.", roots: list(pinnedOld), chain: list(pinnedOld)},
		"self-signed-leaf-other-usage":   {about: "The same, for code signing.", roots: list(pinnedCode), chain: list(pinnedCode)},
		"self-signed-leaf-not-in-bundle": {about: "A self-signed certificate of the same name that is not the one in the bundle.", roots: list(pinned), chain: list(own(named("pinned"), noUsages))},
	}
}

var (
	ownCA = own(named("etcd"), func(c *x509.Certificate) {
		c.BasicConstraintsValid, c.IsCA, c.MaxPathLen = true, true, -1
		c.KeyUsage |= x509.KeyUsageCertSign
	})
	pinnedOld  = own(named("old pin"), expired)
	pinnedCode = own(named("code pin"), usage(x509.ExtKeyUsageCodeSigning))
	// An authority that got a new certificate for its key.
	renewedKey  = newKey()
	renewedLeaf = list(leaf(authorityOf(renewedKey, "renewed", nil)))
)

func renewed(first change) []*x509.Certificate {
	return list(authorityOf(renewedKey, "renewed", nil, first), authorityOf(renewedKey, "renewed", nil))
}

func leaves() map[string]row {
	ca := authority("good")
	return map[string]row{
		"leaf-expired":          signedBy("An expired leaf.", ca, expired),
		"leaf-not-yet-valid":    signedBy("A leaf from the future.", ca, early),
		"leaf-server-usage":     signedBy("For servers alone.", ca, usage(x509.ExtKeyUsageServerAuth)),
		"leaf-client-usage":     signedBy("For clients alone.", ca, usage(x509.ExtKeyUsageClientAuth)),
		"leaf-no-usage":         signedBy("For anything.", ca, noUsages),
		"leaf-any-usage":        signedBy("For any usage.", ca, usage(x509.ExtKeyUsageAny)),
		"leaf-critical-unknown": signedBy("An unknown critical extension.", ca, critical(1, 2, 3, 4)),
		"leaf-is-ca":            signedBy("A leaf that is an authority itself.", ca, func(c *x509.Certificate) { c.BasicConstraintsValid, c.IsCA, c.MaxPathLen = true, true, -1 }),
		"leaf-v1":               {about: "A leaf of X.509's first version.", roots: list(ca), chain: list(versionOne(leaf(ca), &ca))},
	}
}

func names() map[string]row {
	ca := authority("good")
	at := func(host string, row row) row { row.host = host; return row }
	return map[string]row{
		"name-common-name-only": signedBy("No alternative name, the common name fits.", ca, noNames, named("localhost")),
		"name-none":             signedBy("No alternative name, another common name.", ca, noNames),
		"name-other":            signedBy("For another host.", ca, dns("other.example", "more.example")),
		"name-wildcard":         at("a.example.com", signedBy("A wildcard for one label.", ca, dns("*.example.com"))),
		"name-wildcard-two":     at("a.b.example.com", signedBy("A wildcard is not for two labels.", ca, dns("*.example.com"))),
		"name-upper-case":       at("LOCALHOST", signedBy("Letters of any size.", ca)),
		"name-trailing-dot":     at("localhost.", signedBy("An absolute name.", ca)),
		"name-ip":               at("127.0.0.1", signedBy("An address among the addresses.", ca)),
		"name-ipv6":             at("::1", signedBy("An IPv6 address.", ca)),
		"name-ip-other":         at("10.0.0.1", signedBy("An address that is not among them.", ca)),
		"name-ip-none":          at("127.0.0.1", signedBy("An address, and names alone.", ca, dns("localhost"))),
		"name-ip-as-dns":        at("127.0.0.1", signedBy("An address among the DNS names.", ca, dns("127.0.0.1"))),
	}
}

func constraints() map[string]row {
	permit := authority("permit", func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"localhost", "default.svc", "node-1"} })
	exclude := authority("exclude", func(c *x509.Certificate) { c.ExcludedDNSDomains = []string{"svc"} })
	elsewhere := authority("elsewhere", func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} })
	dotted := authority("dotted", func(c *x509.Certificate) { c.PermittedDNSDomains = []string{".example.com"} })
	net10 := authority("net10", func(c *x509.Certificate) { c.PermittedIPRanges = append(c.PermittedIPRanges, network("10.0.0.0/8")) })
	loop := authority("loop", func(c *x509.Certificate) {
		c.PermittedIPRanges = append(c.PermittedIPRanges, network("127.0.0.0/8"), network("::1/128"))
	})
	noLoop := authority("no loop", func(c *x509.Certificate) { c.ExcludedIPRanges = append(c.ExcludedIPRanges, network("127.0.0.0/8")) })
	mail := authority("mail", func(c *x509.Certificate) { c.PermittedEmailAddresses = []string{"example.com"} })
	uris := authority("uris", func(c *x509.Certificate) { c.PermittedURIDomains = []string{".example.com"} })
	mailbox := func(c *x509.Certificate) { c.EmailAddresses = []string{"jane@other.example"} }
	spiffe := func(c *x509.Certificate) { c.URIs = append(c.URIs, uri("spiffe://other.example/jane")) }
	root := authority("root")
	middle := below(root, "middle", func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} })
	at := func(host string, row row) row { row.host = host; return row }
	return map[string]row{
		"constraint-permitted":          signedBy("Names within the permitted domains.", permit),
		"constraint-not-permitted":      signedBy("Names outside the permitted domain.", elsewhere),
		"constraint-excluded":           signedBy("A name that is excluded.", exclude),
		"constraint-ip-permitted":       signedBy("An address within the permitted networks.", loop),
		"constraint-ip-not-permitted":   signedBy("An address outside the permitted network.", net10),
		"constraint-ip-excluded":        signedBy("An address that is excluded.", noLoop),
		"constraint-email":              signedBy("A mail address outside the permitted domain.", mail, mailbox),
		"constraint-uri":                signedBy("A URI outside the permitted domain.", uris, spiffe),
		"constraint-no-names":           signedBy("A certificate without alternative names.", elsewhere, noNames),
		"constraint-of-intermediate":    through("Names outside the domain of an intermediate.", root, middle),
		"constraint-leading-dot":        at("a.example.com", signedBy("Below the domain.", dotted, dns("a.example.com"))),
		"constraint-leading-dot-itself": at("example.com", signedBy("The domain itself, which a leading dot leaves out.", dotted, dns("example.com"))),
		"constraint-suffix-no-label":    at("badexample.com", signedBy("A name that ends alike and is no subdomain.", elsewhere, dns("badexample.com"))),
	}
}

func paths() map[string]row {
	root, other := authority("root"), authority("other root")
	middle := below(root, "middle")
	last := below(middle, "last")
	// The same key as an intermediate of two roots.
	crossKey := newKey()
	crossA := authorityOf(crossKey, "cross", &root)
	crossB := authorityOf(crossKey, "cross", &other)
	// Two authorities that have signed each other.
	keyX, keyY := newKey(), newKey()
	x, y := authorityOf(keyX, "x", nil), authorityOf(keyY, "y", nil)
	xByY, yByX := authorityOf(keyX, "x", &y), authorityOf(keyY, "y", &x)
	twins := many(root, "twin", 101)
	few := many(root, "twin", 20)
	explicit := below(root, "explicit", explicitPolicy, policy)
	return map[string]row{
		"path-intermediate":               through("An intermediate that the peer sends.", root, middle),
		"path-intermediate-missing":       {about: "The intermediate is not sent.", roots: list(root), chain: list(leaf(middle))},
		"path-two-intermediates":          {about: "Two intermediates, in any order.", roots: list(root), chain: list(leaf(last), middle, last)},
		"path-intermediate-trusted":       {about: "The intermediate itself is trusted, the root is not.", roots: list(middle), chain: list(leaf(middle))},
		"path-intermediate-ca-false":      through("An intermediate with CA:FALSE.", root, below(root, "no ca", noCA, noKeyUsage)),
		"path-intermediate-ca-absent":     through("An intermediate without basic constraints.", root, below(root, "bare", noBasic, noKeyUsage)),
		"path-intermediate-no-sign":       through("An intermediate without keyCertSign.", root, below(root, "encipher", noSigning)),
		"path-intermediate-expired":       through("An expired intermediate.", root, below(root, "old", expired)),
		"path-intermediate-early":         through("An intermediate from the future.", root, below(root, "new", early)),
		"path-intermediate-critical":      through("An intermediate with an unknown critical extension.", root, below(root, "strange", critical(1, 2, 3, 4))),
		"path-intermediate-v1":            v1Intermediate(root),
		"path-intermediate-server-usage":  through("An intermediate for servers.", root, below(root, "servers", usage(x509.ExtKeyUsageServerAuth))),
		"path-intermediate-client-usage":  through("An intermediate for clients.", root, below(root, "clients", usage(x509.ExtKeyUsageClientAuth))),
		"path-length-0-with-intermediate": pathLength(0, 1),
		"path-length-1-with-intermediate": pathLength(1, 1),
		"path-length-1-with-two":          pathLength(1, 2),
		"path-root-expired":               {about: "The root above a good intermediate is expired.", roots: list(rootOld), chain: list(leaf(underOld), underOld)},
		"path-cross-signed":               {about: "An intermediate of two roots, of which one is trusted.", roots: list(other), chain: list(leaf(crossA), crossA, crossB)},
		"path-cross-signed-one-expired":   {about: "One of the two crossed intermediates is expired.", roots: list(root, other), chain: list(leaf(crossA), authorityOf(crossKey, "cross", &root, expired), crossB)},
		"path-circle":                     {about: "Authorities that have signed each other, neither trusted.", roots: list(root), chain: list(leaf(x), xByY, yByX)},
		"path-circle-trusted":             {about: "The same, one of them trusted.", roots: list(y), chain: list(leaf(x), yByX, xByY)},
		"path-same-name-twenty":           {about: "Twenty intermediates of one name; the last one has signed.", roots: list(root), chain: list(append([]signer{leaf(few[19])}, few...)...)},
		"path-same-name-hundred":          {about: "More signers of one name than signatures are checked.", roots: list(root), chain: list(append([]signer{leafWithoutKeyID(twins[100])}, twins...)...)},
		"path-policy-required":            through("An explicit policy is required, and the leaf has none.", root, explicit),
		"path-policy-given":               through("An explicit policy is required, and the leaf has it.", root, explicit, policy),
	}
}

var (
	rootOld  = authority("old root", expired)
	underOld = below(rootOld, "under old")
)

// leafWithoutKeyID does not say which of its signer's keys it is of: candidates come in their order.
func leafWithoutKeyID(parent signer) signer {
	plain := *parent.Certificate
	plain.SubjectKeyId = nil
	return leaf(signer{&plain, parent.key})
}

func v1Intermediate(root signer) row {
	middle := below(root, "v1")
	return through("An intermediate of X.509's first version.", root, versionOne(middle, &root))
}

func pathLength(limit, intermediates int) row {
	root := authority("limited", length(limit))
	top, chain := root, []signer{}
	for range intermediates {
		top = below(top, "middle", keyID(string(rune('a'+len(chain)))), named("middle "+string(rune('a'+len(chain)))))
		chain = append([]signer{top}, chain...)
	}
	about := "A path length constraint and intermediates."
	return row{about: about, roots: list(root), chain: list(append([]signer{leaf(top)}, chain...)...)}
}

func algorithms() map[string]row {
	ca, weak, strong := authority("good"), authorityOf(rsaKey(1024), "rsa 1024", nil), authorityOf(rsaKey(2048), "rsa 2048", nil)
	p384, p521, ed := authorityOf(curveKey(elliptic.P384()), "p384", nil), authorityOf(curveKey(elliptic.P521()), "p521", nil), authorityOf(edKey(), "ed25519", nil)
	sha1Root := authority("sha1 root", sha1)
	damaged := leaf(ca)
	raw := append([]byte(nil), damaged.Raw...)
	raw[len(raw)-1] ^= 1
	broken, err := x509.ParseCertificate(raw)
	must(err)
	return map[string]row{
		"algorithm-ecdsa-sha1":        signedBy("A leaf that is signed with SHA-1.", ca, sha1),
		"algorithm-rsa-sha1":          signedBy("The same with RSA.", strong, sha1RSA),
		"algorithm-sha1-root":         signedBy("The root's own signature is of SHA-1: it is not checked.", sha1Root),
		"algorithm-rsa-1024":          signedBy("An authority with an RSA key of 1024 bits.", weak),
		"algorithm-rsa-2048":          signedBy("An authority with an RSA key of 2048 bits.", strong),
		"algorithm-rsa-pss":           signedBy("RSA-PSS.", strong, pss),
		"algorithm-p384":              signedBy("ECDSA on P-384.", p384),
		"algorithm-p521":              signedBy("ECDSA on P-521.", p521),
		"algorithm-ed25519":           signedBy("Ed25519.", ed),
		"algorithm-damaged-signature": {about: "A signature with a bit changed.", roots: list(ca), chain: []*x509.Certificate{broken}},
		"algorithm-intermediate-sha1": through("An intermediate that is signed with SHA-1.", ca, below(ca, "sha1 middle", sha1)),
		"algorithm-wrong-kind-of-key": {about: "An RSA authority of the same name as the ECDSA signer.", roots: list(authorityOf(rsaKey(2048), "good", nil)), chain: list(leaf(ca))},
	}
}
