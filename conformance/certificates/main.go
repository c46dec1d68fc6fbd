// Chains of certificates, and what crypto/x509 says of them: the verdicts that kevel-pki is held to.
//
//	go run . make     makes every chain of the table again and records the verdicts
//	go run . check    asks again about the chains that are there; fails on another verdict
//
// rows/NAME.pem holds a row: a comment, the trusted certificates, the ones that the peer sends, its own
// first. verdicts.txt has two lines for each, for a server that is asked as HOST and for a client.
package main

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// now is the time of all judgements. Certificates that are valid are so for a hundred years: tests
// that connect sockets use the clock of their machine.
var now = time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)

const host = "localhost"

// row is a line of the table.
type row struct {
	about string
	host  string
	roots []*x509.Certificate
	chain []*x509.Certificate
}

func main() {
	if len(os.Args) != 2 {
		fail("usage: certificates make|check")
	}
	switch os.Args[1] {
	case "make":
		must(os.RemoveAll("rows"))
		must(os.MkdirAll("rows", 0o755))
		for name, row := range table() {
			must(os.WriteFile(filepath.Join("rows", name+".pem"), row.encode(), 0o644))
		}
		must(os.WriteFile("leaf.key", leafKeyPEM(), 0o644))
		must(os.WriteFile("verdicts.txt", verdicts(), 0o644))
	case "check":
		recorded, err := os.ReadFile("verdicts.txt")
		must(err)
		if found := verdicts(); !bytes.Equal(found, recorded) {
			fail("crypto/x509 has other verdicts now:\n" + string(found))
		}
		fmt.Printf("%d verdicts of crypto/x509 as recorded\n", bytes.Count(recorded, []byte("\n")))
	default:
		fail("unknown: " + os.Args[1])
	}
}

// verdicts judges every row twice.
func verdicts() []byte {
	files, err := filepath.Glob("rows/*.pem")
	must(err)
	sort.Strings(files)
	var out bytes.Buffer
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pem")
		row := decode(file)
		fmt.Fprintf(&out, "%s server %s\n", name, row.judge(x509.ExtKeyUsageServerAuth, row.host))
		fmt.Fprintf(&out, "%s client %s\n", name, row.judge(x509.ExtKeyUsageClientAuth, ""))
	}
	return out.Bytes()
}

func (r row) judge(usage x509.ExtKeyUsage, name string) string {
	options := x509.VerifyOptions{
		DNSName:       name,
		Roots:         x509.NewCertPool(),
		Intermediates: x509.NewCertPool(),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{usage},
	}
	for _, root := range r.roots {
		options.Roots.AddCert(root)
	}
	for _, other := range r.chain[1:] {
		options.Intermediates.AddCert(other)
	}
	if _, err := r.chain[0].Verify(options); err != nil {
		return err.Error()
	}
	return "trusted"
}

func (r row) encode() []byte {
	var out bytes.Buffer
	name := r.host
	if name == "" {
		name = host
	}
	fmt.Fprintf(&out, "# %s\n# host: %s\n", r.about, name)
	write := func(kind string, list []*x509.Certificate) {
		fmt.Fprintf(&out, "# %s\n", kind)
		for _, certificate := range list {
			must(pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
		}
	}
	write("roots", r.roots)
	write("chain", r.chain)
	return out.Bytes()
}

func decode(file string) row {
	text, err := os.ReadFile(file)
	must(err)
	head, rest, _ := bytes.Cut(text, []byte("# roots\n"))
	roots, chain, _ := bytes.Cut(rest, []byte("# chain\n"))
	_, name, _ := strings.Cut(string(head), "# host: ")
	return row{host: strings.TrimSpace(name), roots: certificates(roots), chain: certificates(chain)}
}

func certificates(text []byte) (list []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		must(err)
		list = append(list, certificate)
	}
	return list
}

func leafKeyPEM() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(crypto.PrivateKey(leafKey))
	must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
