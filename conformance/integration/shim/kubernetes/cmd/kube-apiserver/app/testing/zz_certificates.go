package testing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	testutil "k8s.io/kubernetes/test/utils"
)

// certAuth sets up a CA of clients, one of front proxies, and the server's own certificate as a front proxy: in the
// options, in files of dir, and as flags.
func certAuth(s *options.ServerRunOptions, proxy *ProxyCA, dir string) ([]string, error) {
	if proxy == nil {
		made, err := newProxyCA()
		if err != nil {
			return nil, err
		}
		proxy = made
	}
	crt, key, err := proxyPair(proxy)
	if err != nil {
		return nil, err
	}
	clientKey, err := testutil.NewPrivateKey()
	if err != nil {
		return nil, err
	}
	clientCA, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "client-ca"}, clientKey)
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string][]byte{
		"proxy-ca.crt":  testutil.EncodeCertPEM(proxy.ProxySigningCert),
		"misty-crt.crt": testutil.EncodeCertPEM(crt),
		"misty-crt.key": key,
		"client-ca.crt": testutil.EncodeCertPEM(clientCA),
	} {
		if err := os.WriteFile(file(name), content, 0o600); err != nil {
			return nil, err
		}
	}
	headers := serveroptions.NewDelegatingAuthenticationOptions().RequestHeader
	headers.ClientCAFile = file("proxy-ca.crt")
	headers.AllowedNames = []string{"ash", "misty", "brock"} // the tests' own names
	s.Authentication.RequestHeader = &headers
	s.ProxyClientCertFile, s.ProxyClientKeyFile = file("misty-crt.crt"), file("misty-crt.key")
	s.Authentication.ClientCert.ClientCA = file("client-ca.crt")
	args := []string{
		"--requestheader-client-ca-file=" + headers.ClientCAFile,
		"--proxy-client-cert-file=" + s.ProxyClientCertFile,
		"--proxy-client-key-file=" + s.ProxyClientKeyFile,
		"--client-ca-file=" + s.Authentication.ClientCert.ClientCA,
	}
	for name, list := range map[string][]string{
		"requestheader-allowed-names":        headers.AllowedNames,
		"requestheader-username-headers":     headers.UsernameHeaders,
		"requestheader-uid-headers":          headers.UIDHeaders,
		"requestheader-group-headers":        headers.GroupHeaders,
		"requestheader-extra-headers-prefix": headers.ExtraHeaderPrefixes,
	} {
		if len(list) > 0 {
			args = append(args, "--"+name+"="+strings.Join(list, ","))
		}
	}
	return args, nil
}

func newProxyCA() (*ProxyCA, error) {
	key, err := testutil.NewPrivateKey()
	if err != nil {
		return nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "front-proxy-ca"}, key)
	if err != nil {
		return nil, err
	}
	return &ProxyCA{ProxySigningCert: ca, ProxySigningKey: key}, nil
}

// proxyPair is a certificate of the front proxy "misty", with its key in PEM.
func proxyPair(proxy *ProxyCA) (*x509.Certificate, []byte, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:      pkix.Name{CommonName: "misty"},
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    proxy.ProxySigningCert.NotBefore,
		NotAfter:     time.Now().Add(1000 * time.Hour),
		KeyUsage:     x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, proxy.ProxySigningCert, signer.Public(), proxy.ProxySigningKey)
	if err != nil {
		return nil, nil, err
	}
	crt, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(signer)
	return crt, key, err
}
