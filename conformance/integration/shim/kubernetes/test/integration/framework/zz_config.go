package framework

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"testing"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// adopted is what a callback on the configuration changed and options do not hold.
type adopted struct {
	flags   []string
	noToken bool // the client is to have no token of its own
}

// adopt runs the callback on a configuration that no server is made of, and brings what it changed into opts. A test that
// changes what no flag can say is skipped.
func adopt(ctx context.Context, t testing.TB, opts *options.ServerRunOptions, dir string, modify func(*controlplane.Config)) adopted {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config := newConfig(ctx, t, opts)
	g := config.ControlPlane.Generic
	g.Authentication.Authenticator, g.Authorization.Authorizer = undecided{}, undecided{}
	config.Extra.EndpointReconcilerType = ""
	was, wasGeneric, wasExtra := *config, *g, config.ControlPlane.Extra
	hadToken := g.LoopbackClientConfig.BearerToken != ""
	modify(config)

	for what, replaced := range map[string]bool{
		"AdmissionControl":       !same(g.AdmissionControl, wasGeneric.AdmissionControl),
		"AuditBackend":           !same(g.AuditBackend, wasGeneric.AuditBackend) || !same(g.AuditPolicyRuleEvaluator, wasGeneric.AuditPolicyRuleEvaluator),
		"RequestInfoResolver":    !same(g.RequestInfoResolver, wasGeneric.RequestInfoResolver),
		"OpenAPIConfig":          g.OpenAPIConfig != wasGeneric.OpenAPIConfig,
		"RepairServicesInterval": config.Extra.RepairServicesInterval != was.Extra.RepairServicesInterval,
	} {
		if replaced {
			t.Skip("needs in-process config: " + what)
		}
	}
	if now := config.Extra.EndpointReconcilerType; now != "" {
		opts.EndpointReconcilerType = string(now)
	}
	if now := config.ControlPlane.Extra.ServiceAccountMaxExpiration; now != wasExtra.ServiceAccountMaxExpiration {
		opts.Authentication.ServiceAccounts.MaxExpiration = now
	}
	if now := config.ControlPlane.Extra.ExtendExpiration; now != wasExtra.ExtendExpiration {
		opts.Authentication.ServiceAccounts.ExtendExpiration = now
	}
	if g.Authentication.APIAudiences == nil && wasGeneric.Authentication.APIAudiences != nil {
		opts.Authentication.APIAudiences = nil
	}
	if a := g.Authentication.Authenticator; !same(a, undecided{}) {
		authenticateBy(t, opts, dir, a)
	}
	if a := g.Authorization.Authorizer; !same(a, undecided{}) {
		authorizeBy(t, opts, dir, a)
	}
	return adopted{
		flags:   runtimeConfig(config.ControlPlane.Extra.APIResourceConfigSource),
		noToken: hadToken && g.LoopbackClientConfig.BearerToken == "",
	}
}

// newConfig builds a configuration of opts, and leaves opts as they are.
func newConfig(ctx context.Context, t testing.TB, opts *options.ServerRunOptions) *controlplane.Config {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	port := opts.SecureServing.BindPort
	opts.SecureServing.Listener = listener
	completed, err := opts.Complete(ctx)
	must(t, err)
	generic, informers, storage, err := controlplaneapiserver.BuildGenericConfig(completed.CompletedOptions,
		[]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme},
		controlplane.DefaultAPIResourceConfigSource(), generatedopenapi.GetOpenAPIDefinitions)
	must(t, err)
	config, _, _, err := app.CreateKubeAPIServerConfig(completed, generic, informers, storage)
	must(t, err)
	opts.SecureServing.Listener, opts.SecureServing.BindPort = nil, port
	opts.SecureServing.ServerCert.CertKey.CertFile, opts.SecureServing.ServerCert.CertKey.KeyFile = "", ""
	return config
}

// runtimeConfig are the flags by which the served resources differ from the defaults.
func runtimeConfig(source serverstorage.APIResourceConfigSource) []string {
	now, ok := source.(*serverstorage.ResourceConfig)
	if !ok {
		return nil
	}
	defaults := controlplane.DefaultAPIResourceConfigSource()
	var flags []string
	for version, on := range now.GroupVersionConfigs {
		if defaults.GroupVersionConfigs[version] != on {
			name := version.String()
			if version.Group == "" {
				name = "api/" + version.Version
			}
			flags = append(flags, fmt.Sprintf("--runtime-config=%s=%v", name, on))
		}
	}
	for resource, on := range now.ResourceConfigs {
		if defaults.ResourceConfigs[resource] != on {
			flags = append(flags, fmt.Sprintf("--runtime-config=%s/%s/%s=%v", resource.Group, resource.Version, resource.Resource, on))
		}
	}
	return flags
}

// same says whether a and b are one value. What cannot be compared is not the same.
func same(a, b interface{}) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	if a == nil || b == nil {
		return (a == nil || reflect.ValueOf(a).IsZero()) && (b == nil || reflect.ValueOf(b).IsZero())
	}
	return a == b
}
