// Webhooks as operators have them: made with controller-runtime, served over TLS, registered, and then asked by the
// server that KUBECONFIG names. Prints what came of each write, a line each, so that two servers can be compared.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	registration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	namespace = "controller-runtime"
	team      = "example.com/team"
)

// deployments defaults and validates Deployments.
type deployments struct{}

func (deployments) Default(ctx context.Context, d *apps.Deployment) error {
	if d.Name == "undefaultable" {
		return errors.New("no default for this one")
	}
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	if d.Labels[team] == "" {
		d.Labels[team] = "nobody"
	}
	if d.Name == "broken" {
		d.Spec.Template.Spec.Containers[0].Name = "Not A Name"
	}
	return nil
}

func (deployments) ValidateCreate(ctx context.Context, d *apps.Deployment) (admission.Warnings, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, err
	}
	dryRun := request.DryRun != nil && *request.DryRun
	warnings := admission.Warnings{fmt.Sprintf("created by %s, dry run %v", request.UserInfo.Username, dryRun)}
	if d.Labels[team] == "nobody" {
		warnings = append(warnings, "nobody is responsible")
	}
	switch d.Name {
	case "plain":
		return warnings, errors.New("a plain refusal")
	case "invalid":
		kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
		path := field.NewPath("spec", "replicas")
		return warnings, apierrors.NewInvalid(kind, d.Name, field.ErrorList{
			field.Invalid(path, *d.Spec.Replicas, "too many"),
			field.Required(field.NewPath("metadata", "labels").Key(team), ""),
		})
	case "conflict":
		resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
		return warnings, apierrors.NewConflict(resource, d.Name, errors.New("not now"))
	case "panic":
		panic("as it was told to")
	}
	return warnings, nil
}

func (deployments) ValidateUpdate(ctx context.Context, old, d *apps.Deployment) (admission.Warnings, error) {
	if old.Labels[team] != d.Labels[team] {
		return nil, fmt.Errorf("the team was %s and must stay", old.Labels[team])
	}
	return nil, nil
}

func (deployments) ValidateDelete(ctx context.Context, d *apps.Deployment) (admission.Warnings, error) {
	if d.Annotations["protected"] == "true" {
		return admission.Warnings{"it is protected"}, errors.New("protected")
	}
	return nil, nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	log.SetLogger(logr.Discard())
	directory, err := os.MkdirTemp("", "webhooks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	authority, err := certificate(directory)
	if err != nil {
		return err
	}
	said := &warnings{}
	config := ctrl.GetConfigOrDie()
	config.WarningHandler = said
	port, err := freePort()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: directory}),
		Metrics:       server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	hooks := deployments{}
	err = ctrl.NewWebhookManagedBy(manager, &apps.Deployment{}).WithDefaulter(hooks).WithValidator(hooks).Complete()
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- manager.Start(ctx) }()
	// The manager's own client reads from a cache that watches fill.
	if err := play(ctx, manager.GetClient(), said, port, authority); err != nil {
		return err
	}
	stop()
	return <-failed
}

func play(ctx context.Context, c client.Client, said *warnings, port int, authority []byte) error {
	if err := c.Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	if err := register(ctx, c, port, authority); err != nil {
		return err
	}
	show := func(what string, d *apps.Deployment, err error) {
		var status apierrors.APIStatus
		result := fmt.Sprintf("ok team=%s", d.Labels[team])
		if errors.As(err, &status) {
			s := status.Status()
			result = fmt.Sprintf("%d %s: %s", s.Code, s.Reason, s.Message)
			if s.Details != nil {
				for _, cause := range s.Details.Causes {
					result += fmt.Sprintf(" [%s %s: %s]", cause.Type, cause.Field, cause.Message)
				}
			}
		} else if err != nil {
			result = "error: " + err.Error()
		}
		fmt.Printf("%s %s: %s%s\n", what, d.Name, result, said.take())
	}
	create := func(name string, options ...client.CreateOption) *apps.Deployment {
		d := deployment(name)
		err := c.Create(ctx, d, options...)
		show("create", d, err)
		return d
	}
	// Until the configurations count.
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, deployment("plain"), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "a plain refusal"), nil
	})
	if err != nil {
		return fmt.Errorf("the webhooks were never asked: %w", err)
	}
	said.take()

	web := create("web")
	create("dry", client.DryRunAll)
	for _, name := range []string{"undefaultable", "broken", "plain", "invalid", "conflict", "panic"} {
		create(name)
	}
	patched := web.DeepCopy()
	patched.Labels[team] = "others"
	show("patch the team of", patched, c.Patch(ctx, patched, client.MergeFrom(web)))
	replicas := web.DeepCopy()
	*replicas.Spec.Replicas = 5
	show("update", replicas, c.Update(ctx, replicas))
	protected := replicas.DeepCopy()
	protected.Annotations = map[string]string{"protected": "true"}
	show("strategic merge patch", protected, c.Patch(ctx, protected, client.StrategicMergeFrom(replicas)))
	show("delete", protected, c.Delete(ctx, protected))
	show("delete all", protected, c.DeleteAllOf(ctx, &apps.Deployment{}, client.InNamespace(namespace)))
	free := protected.DeepCopy()
	free.Annotations = nil
	show("update", free, c.Update(ctx, free))
	show("delete", free, c.Delete(ctx, free))
	return nil
}

// register makes the configurations, which name the webhooks by URL.
func register(ctx context.Context, c client.Client, port int, authority []byte) error {
	none := registration.SideEffectClassNone
	config := func(path string) registration.WebhookClientConfig {
		url := fmt.Sprintf("https://127.0.0.1:%d%s", port, path)
		return registration.WebhookClientConfig{URL: &url, CABundle: authority}
	}
	rules := func(operations ...registration.OperationType) []registration.RuleWithOperations {
		return []registration.RuleWithOperations{{
			Operations: operations,
			Rule:       registration.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		}}
	}
	mutating := &registration.MutatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: "controller-runtime"},
		Webhooks: []registration.MutatingWebhook{{
			Name: "default.example.com", ClientConfig: config("/mutate-apps-v1-deployment"), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, Rules: rules("CREATE", "UPDATE"),
		}},
	}
	validating := &registration.ValidatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: "controller-runtime"},
		Webhooks: []registration.ValidatingWebhook{{
			Name: "validate.example.com", ClientConfig: config("/validate-apps-v1-deployment"), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, Rules: rules("CREATE", "UPDATE", "DELETE"),
		}},
	}
	return errors.Join(c.Create(ctx, mutating), c.Create(ctx, validating))
}

func deployment(name string) *apps.Deployment {
	labels := map[string]string{"app": name}
	replicas := int32(1)
	return &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: namespace},
		Spec: apps.DeploymentSpec{
			Replicas: &replicas,
			Selector: &meta.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: labels},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

// warnings keeps what the server warned of.
type warnings struct {
	sync.Mutex
	texts []string
}

var _ rest.WarningHandler = &warnings{}

func (w *warnings) HandleWarningHeader(code int, agent, text string) {
	w.Lock()
	defer w.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) take() string {
	w.Lock()
	defer w.Unlock()
	texts := w.texts
	w.texts = nil
	slices.Sort(texts)
	if len(texts) == 0 {
		return ""
	}
	return " (warned: " + strings.Join(texts, "; ") + ")"
}

// certificate writes tls.crt and tls.key, which vouch for themselves.
func certificate(directory string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhooks"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
	return certificate, errors.Join(
		os.WriteFile(filepath.Join(directory, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(directory, "tls.key"), secret, 0o600),
	)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
