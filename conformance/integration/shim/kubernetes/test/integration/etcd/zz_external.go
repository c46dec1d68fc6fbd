package etcd

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"kevel.dev/integration/external"
	"kevel.dev/integration/flags"

	apiextensionsclientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/runtime"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kubeapiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"k8s.io/kubernetes/test/integration/framework"
)

// StartRealAPIServerOrDie starts the program that KUBE_APISERVER_BIN names with every API served.
func StartRealAPIServerOrDie(t *testing.T, configFuncs ...func(*options.ServerRunOptions)) *APIServer {
	t.Helper()
	// All tests of this package look at /registry in etcd: one server at a time.
	unlock, err := external.Lock("registry")
	must(t, err)
	t.Cleanup(unlock)
	dir, err := os.MkdirTemp("", strings.ReplaceAll(t.Name(), "/", ""))
	must(t, err)
	ca, err := external.ServingPair(dir)
	must(t, err)
	key, err := external.ServiceAccountKey(dir)
	must(t, err)
	gates, err := external.NewGates()
	must(t, err)
	opts := options.NewServerRunOptions()
	opts.GenericServerRunOptions.ComponentGlobalsRegistry = gates.Registry
	opts.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	opts.SecureServing.BindPort = external.FreePort()
	opts.SecureServing.ServerCert.CertDirectory = dir
	opts.ServiceAccountSigningKeyFile = key
	opts.Etcd.StorageConfig.Transport.ServerList = []string{framework.GetEtcdURL()}
	opts.Etcd.DefaultStorageMediaType = runtime.ContentTypeJSON
	opts.ServiceClusterIPRanges = "10.0.0.0/24"
	opts.Authentication.APIAudiences = []string{external.Issuer}
	opts.Authentication.ServiceAccounts.Issuers = []string{external.Issuer}
	opts.Authentication.ServiceAccounts.KeyFiles = []string{key}
	opts.Authorization.Modes = []string{"RBAC"}
	opts.Admission.GenericAdmission.DisablePlugins = []string{"ServiceAccount"}
	opts.APIEnablement.RuntimeConfig["api/all"] = "true"
	for _, f := range configFuncs {
		f(opts)
	}
	gates.Adopt(t)
	tokens, token, err := external.TokenFile(dir, opts.Authentication.TokenFile.TokenFile)
	must(t, err)
	opts.Authentication.TokenFile.TokenFile = tokens
	raw, kv, err := kubeapiservertesting.GetEtcdClients(opts.Etcd.StorageConfig.Transport)
	must(t, err)
	_, err = kv.Delete(context.Background(), "/registry/", clientv3.WithPrefix())
	must(t, err)
	server, err := external.Start(t, external.Options{Dir: dir, Port: opts.SecureServing.BindPort,
		Flags: append(flags.Changed(opts), external.GateFlags()...), Token: token, CA: ca})
	must(t, err)
	config := server.Config
	config.QPS, config.Burst = 99999, 9999
	restclient.SetDefaultWarningHandler(restclient.NoWarnings{})
	client := clientset.NewForConfigOrDie(config)
	CreateTestCRDs(t, apiextensionsclientset.NewForConfigOrDie(config), false, GetCustomResourceDefinitionData()...)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(client.Discovery()))
	mapper.Reset()
	_, resources, err := client.Discovery().ServerGroupsAndResources()
	must(t, err)
	return &APIServer{
		Client:    client,
		Dynamic:   dynamic.NewForConfigOrDie(config),
		Config:    config,
		KV:        kv,
		Mapper:    mapper,
		Resources: GetResources(t, resources),
		Cleanup: func() {
			server.Stop()
			unlock()
			raw.Close()
			os.RemoveAll(dir)
		},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
