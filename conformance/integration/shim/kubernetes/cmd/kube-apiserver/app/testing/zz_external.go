package testing

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace/noop"
	"kevel.dev/integration/external"
	"kevel.dev/integration/flags"

	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/tracing"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// identityFlags are those that a test cannot choose: the client of the test has a token that the server must accept, and
// tests sign tokens with a key that they find in the options.
var identityFlags = []string{"token-auth-file", "service-account-signing-key-file", "service-account-key-file", "service-account-issuer"}

// proxyFlags are those of certAuth that a test cannot choose.
var proxyFlags = []string{"requestheader-client-ca-file", "requestheader-allowed-names"}

// StartTestServer starts the program that KUBE_APISERVER_BIN names with the flags that the test asks for.
func StartTestServer(t ktesting.TB, instance *TestServerInstanceOptions, customFlags []string, storage *storagebackend.Config) (result TestServer, err error) {
	t.Helper()
	if instance == nil {
		instance = NewDefaultTestServerOptions()
	}
	if instance.BinaryVersion != "" || instance.StorageVersionWrapFunc != nil {
		if s, ok := t.(interface{ Skipf(string, ...interface{}) }); ok {
			s.Skipf("needs in-process config: BinaryVersion or StorageVersionWrapFunc")
		}
	}
	dir, err := os.MkdirTemp("", "kubernetes-kube-apiserver")
	if err != nil {
		return result, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	s, args, err := commandLine(t, dir, instance, customFlags, storage)
	if err != nil {
		return result, err
	}
	key, err := external.ServiceAccountKey(dir)
	if err != nil {
		return result, err
	}
	s.ServiceAccountSigningKeyFile = key
	s.Authentication.ServiceAccounts.Issuers = []string{external.Issuer}
	s.Authentication.ServiceAccounts.KeyFiles = []string{key}
	tokens, token, err := external.TokenFile(dir, s.Authentication.TokenFile.TokenFile)
	if err != nil {
		return result, err
	}
	ca, err := external.ServingPair(dir)
	if err != nil {
		return result, err
	}
	serverName := ""
	if s.SecureServing.ServerCert.CertKey.CertFile != "" {
		serverName = external.ClientServerName
		args = append(args, fmt.Sprintf("--tls-sni-cert-key=%s/apiserver.crt,%s/apiserver.key:%s", dir, dir, serverName))
	}
	args = append(args, "--service-account-signing-key-file="+key, "--service-account-key-file="+key,
		"--service-account-issuer="+external.Issuer, "--token-auth-file="+tokens)
	server, err := external.Start(t, external.Options{Dir: dir, Port: s.SecureServing.BindPort, Flags: args, Token: token, CA: ca,
		ServerName: serverName, SkipHealthz: instance.SkipHealthzCheck, Namespaces: []string{"default"}})
	if err != nil {
		return result, err
	}
	if s.Traces.ConfigFile != "" {
		// As the client that a server has of itself: it sends the trace of the context on.
		server.Config.Wrap(tracing.WrapperFor(noop.NewTracerProvider()))
	}
	etcd, _, err := GetEtcdClients(storage.Transport)
	if err != nil {
		server.Stop()
		return result, fmt.Errorf("create etcd client: %w", err)
	}
	return TestServer{
		ClientConfig:      server.Config,
		ServerOpts:        s,
		TmpDir:            dir,
		EtcdClient:        etcd,
		EtcdStoragePrefix: storage.Prefix,
		TearDownFn: func() {
			server.Stop()
			etcd.Close()
			os.RemoveAll(dir)
		},
	}, nil
}

// commandLine makes the options that the test reads back, and the flags that give the program the same.
func commandLine(t ktesting.TB, dir string, instance *TestServerInstanceOptions, customFlags []string, storage *storagebackend.Config) (*options.ServerRunOptions, []string, error) {
	gates, err := external.NewGates()
	if err != nil {
		return nil, nil, err
	}
	s := options.NewServerRunOptions()
	s.GenericServerRunOptions.ComponentGlobalsRegistry = gates.Registry
	s.ServiceClusterIPRanges = "10.0.0.0/16"
	s.SecureServing.ServerCert.CertDirectory = dir
	s.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	s.SecureServing.BindPort = external.FreePort()
	s.SecureServing.ExternalAddress = s.SecureServing.BindAddress
	s.Etcd.StorageConfig = *storage
	if instance.RequestTimeout > 0 {
		s.GenericServerRunOptions.RequestTimeout = instance.RequestTimeout
	}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	sets := s.Flags()
	for _, one := range sets.FlagSets {
		set.AddFlagSet(one)
	}
	args := flags.Changed(s)
	var fixed []string
	if instance.EnableCertAuth {
		more, err := certAuth(s, instance.ProxyCA, dir)
		if err != nil {
			return nil, nil, err
		}
		args, fixed = append(args, more...), proxyFlags
	}
	if err := set.Parse(customFlags); err != nil {
		return nil, nil, err
	}
	// The test's own flags come instead of these. Gates of several flags add up, and those of the process count too.
	var own []string
	set.Visit(func(f *pflag.Flag) { own = append(own, f.Name) })
	args = append(except(args, own, fixed), except(external.GateFlags(), own, []string{"feature-gates"})...)
	if err := gates.Registry.Set(); err != nil {
		return nil, nil, err
	}
	gates.Adopt(t)
	if instance.EnableCertAuth && gates.Enabled(genericfeatures.UnknownVersionInteroperabilityProxy) && s.PeerCAFile == "" {
		s.PeerCAFile = filepath.Join(dir, "apiserver.crt")
		args = append(args, "--peer-ca-file="+s.PeerCAFile)
	}
	return s, append(args, external.Without(external.Without(customFlags, identityFlags...), fixed...)...), nil
}

// except leaves out flags by name, but not those to be kept.
func except(args, names, kept []string) []string {
	gone := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(kept, name) })
	return external.Without(args, gone...)
}
