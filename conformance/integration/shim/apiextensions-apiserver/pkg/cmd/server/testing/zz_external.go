package testing

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"kevel.dev/integration/external"

	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// ownFlags are flags of apiextensions-apiserver that kube-apiserver does not have.
var ownFlags = []string{"authentication-skip-lookup", "authentication-kubeconfig", "authorization-kubeconfig", "kubeconfig"}

// StartTestServer starts the program that KUBE_APISERVER_BIN names, a whole kube-apiserver, for tests that would start
// apiextensions-apiserver alone.
func StartTestServer(t Logger, _ *TestServerInstanceOptions, customFlags []string, storage *storagebackend.Config) (result TestServer, err error) {
	whole, ok := t.(external.TB)
	if !ok {
		return result, fmt.Errorf("not a test: %T", t)
	}
	dir, err := os.MkdirTemp("", "apiextensions-apiserver")
	if err != nil {
		return result, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if result.ServerOpts, err = parsed(customFlags, storage); err != nil {
		return result, err
	}
	port := external.FreePort()
	flags := []string{"--runtime-config=api/all=true", "--service-cluster-ip-range=10.0.0.0/16", "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + dir, "--endpoint-reconciler-type=none"}
	if storage != nil {
		flags = append(flags, "--etcd-prefix="+storage.Prefix, "--etcd-servers="+strings.Join(storage.Transport.ServerList, ","))
	}
	flags = append(flags, external.GateFlags()...)
	flags = append(flags, external.Without(customFlags, ownFlags...)...)
	key, err := external.ServiceAccountKey(dir)
	if err != nil {
		return result, err
	}
	tokens, token, err := external.TokenFile(dir, "")
	if err != nil {
		return result, err
	}
	ca, err := external.ServingPair(dir)
	if err != nil {
		return result, err
	}
	flags = append(flags, "--service-account-signing-key-file="+key, "--service-account-key-file="+key,
		"--service-account-issuer="+external.Issuer, "--token-auth-file="+tokens)
	server, err := external.Start(whole, external.Options{Dir: dir, Port: port, Flags: flags, Token: token, CA: ca})
	if err != nil {
		return result, err
	}
	result.TmpDir = dir
	result.ClientConfig = server.Config
	// Those of that server's own client.
	result.ClientConfig.QPS, result.ClientConfig.Burst = 50, 100
	result.TearDownFn = func() {
		server.Stop()
		os.RemoveAll(dir)
	}
	return result, nil
}

// parsed are the options that tests read back.
func parsed(customFlags []string, storage *storagebackend.Config) (*options.CustomResourceDefinitionsServerOptions, error) {
	s := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	gates, err := external.NewGates()
	if err != nil {
		return nil, err
	}
	s.ServerRunOptions.ComponentGlobalsRegistry = gates.Registry
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.AddFlags(flags)
	if storage != nil {
		s.RecommendedOptions.Etcd.StorageConfig = *storage
	}
	return s, flags.Parse(customFlags)
}
