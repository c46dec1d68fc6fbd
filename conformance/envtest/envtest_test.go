// Package envtest holds tests of Kevel's envtest assets, written as the tests of a controller are.
//
// ./run makes the assets and sets the variables: KUBEBUILDER_ASSETS, ENVTEST_INDEX (URL of the index), ENVTEST_DIR.
package envtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Limits of the issue. Tests of a debug build, or on a busy machine, set a factor.
const (
	startLimit = 280 * time.Millisecond
	stopLimit  = 30 * time.Millisecond
	probeLimit = 30 * time.Millisecond
	attempts   = 5
	patience   = 30 * time.Second
)

func slack(limit time.Duration) time.Duration {
	var factor int
	if _, err := fmt.Sscan(os.Getenv("ENVTEST_SLACK"), &factor); err != nil || factor < 1 {
		factor = 1
	}
	return limit * time.Duration(factor)
}

func start(t *testing.T, environment *envtest.Environment) *rest.Config {
	t.Helper()
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
	return config
}

func clientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for begun := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// The best of a few attempts counts: the limit is of the programs, not of what else the machine does.
func TestStartAndStopAreFast(t *testing.T) {
	ctx := context.Background()
	bestStart, bestStop := time.Hour, time.Hour
	for range attempts {
		environment := &envtest.Environment{}
		begun := time.Now()
		config, err := environment.Start()
		if err != nil {
			t.Fatal(err)
		}
		started := time.Since(begun)
		// Watches that are open when it stops, on connections of their own and on a shared one.
		for i := range 3 {
			clients := clientset(t, config)
			for range 10 {
				watch, err := clients.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
				if err != nil {
					t.Fatalf("watch %d: %v", i, err)
				}
				defer watch.Stop()
			}
		}
		begun = time.Now()
		if err := environment.Stop(); err != nil {
			t.Fatal(err)
		}
		stopped := time.Since(begun)
		t.Logf("started in %v, stopped in %v", started, stopped)
		bestStart, bestStop = min(bestStart, started), min(bestStop, stopped)
	}
	if bestStart > slack(startLimit) {
		t.Errorf("the fastest start took %v", bestStart)
	}
	if bestStop > slack(stopLimit) {
		t.Errorf("the fastest stop took %v", bestStop)
	}
}

func TestProbesAreAnsweredAtOnce(t *testing.T) {
	best := map[string]time.Duration{}
	for range attempts {
		for name, took := range probeTimes(t) {
			if known, ok := best[name]; !ok || took < known {
				best[name] = took
			}
		}
	}
	for name, took := range best {
		t.Logf("%s answers its probe %v after exec", name, took)
		if took > slack(probeLimit) {
			t.Errorf("%s: %v", name, took)
		}
	}
}

func TestCustomResourcesAreInstalled(t *testing.T) {
	config := start(t, &envtest.Environment{
		CRDDirectoryPaths:     []string{"testdata"},
		ErrorIfCRDPathMissing: true,
	})
	clients, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := clients.Create(ctx, newWidget("first", "red")); err != nil {
		t.Fatal(err)
	}
	if err := clients.Create(ctx, newWidget("second", "plaid")); !apierrors.IsInvalid(err) {
		t.Fatalf("a colour that the schema does not have: %v", err)
	}
}

// As with the reference: no controllers, so that a namespace is Terminating for ever.
func TestControllersAreOffUnlessAskedFor(t *testing.T) {
	config := start(t, &envtest.Environment{})
	namespaces := clientset(t, config).CoreV1().Namespaces()
	ctx := context.Background()
	if _, err := namespaces.Create(ctx, namespace("shop"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	left, err := namespaces.Get(ctx, "shop", metav1.GetOptions{})
	if err != nil || left.Status.Phase != corev1.NamespaceTerminating {
		t.Fatalf("%v, %v", left.Status.Phase, err)
	}
}

func TestControllersDeleteANamespace(t *testing.T) {
	environment := &envtest.Environment{}
	environment.ControlPlane.GetAPIServer().Configure().Set("controllers", "*")
	config := start(t, environment)
	clients := clientset(t, config)
	ctx := context.Background()
	if _, err := clients.CoreV1().Namespaces().Create(ctx, namespace("shop"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	if _, err := clients.CoreV1().ConfigMaps("shop").Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := clients.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the namespace is gone", func() bool {
		_, err := clients.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func TestAPIServerRestartedOnTheSameEtcdFindsItsData(t *testing.T) {
	environment := &envtest.Environment{}
	config := start(t, environment)
	ctx := context.Background()
	if _, err := clientset(t, config).CoreV1().Namespaces().Create(ctx, namespace("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	server := environment.ControlPlane.APIServer
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	user, err := environment.AddUser(envtest.User{Name: "again", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientset(t, user.Config()).CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestSecondAPIServerOnTheSameEtcdIsRefused(t *testing.T) {
	environment := &envtest.Environment{}
	start(t, environment)
	var log bytes.Buffer
	second := &envtest.APIServer{EtcdURL: environment.ControlPlane.Etcd.URL, Err: &log}
	if err := second.Start(); err == nil {
		_ = second.Stop()
		t.Fatal("it started")
	}
	if !strings.Contains(log.String(), "takes one at a time") {
		t.Fatalf("no reason in: %s", log.String())
	}
}

func TestRealEtcdWorksAsBefore(t *testing.T) {
	etcd := os.Getenv("ENVTEST_ETCD")
	if etcd == "" {
		t.Skip("no etcd")
	}
	var log bytes.Buffer
	environment := &envtest.Environment{}
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: etcd}
	environment.ControlPlane.GetAPIServer().Err = &log
	config := start(t, environment)
	if _, err := clientset(t, config).CoreV1().Namespaces().Create(context.Background(), namespace("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "stand-in") {
		t.Fatalf("a real etcd was taken for a stand-in: %s", log.String())
	}
	if member, err := os.Stat(filepath.Join(environment.ControlPlane.Etcd.DataDir, "member")); err != nil || !member.IsDir() {
		t.Fatalf("etcd has no data: %v", err)
	}
}

func TestKubectlOfTheAssetsWorks(t *testing.T) {
	environment := &envtest.Environment{}
	start(t, environment)
	user, err := environment.AddUser(envtest.User{Name: "kubectl", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	out, errors, err := kubectl.Run("get", "namespaces", "--output=name")
	if err != nil {
		t.Fatalf("%v: %v", err, errors)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(out); err != nil || !strings.Contains(text.String(), "namespace/default") {
		t.Fatalf("%q, %v", text.String(), err)
	}
}

// controller-runtime's own download, as DownloadBinaryAssets does it.
func TestAssetsAreDownloadedFromTheIndex(t *testing.T) {
	index := os.Getenv("ENVTEST_INDEX")
	if index == "" {
		t.Skip("no index")
	}
	// The variable has the last word where it is set.
	t.Setenv("KUBEBUILDER_ASSETS", "")
	if err := os.Unsetenv("KUBEBUILDER_ASSETS"); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"", "v1.36.3"} {
		folder := t.TempDir()
		start(t, &envtest.Environment{
			DownloadBinaryAssets:         true,
			DownloadBinaryAssetsVersion:  version,
			DownloadBinaryAssetsIndexURL: index,
			BinaryAssetsDirectory:        folder,
		})
		if downloaded, err := filepath.Glob(folder + "/1.36.3-linux-*/etcd"); err != nil || len(downloaded) != 1 {
			t.Fatalf("version %q: %v, %v", version, downloaded, err)
		}
	}
}

const crashing = "ENVTEST_CRASHING"

// The test program starts itself again, which starts a control plane, names its processes and its data, and is killed.
func TestKilledTestLeavesNothing(t *testing.T) {
	if os.Getenv(crashing) != "" {
		crash(t)
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^TestKilledTestLeavesNothing$")
	again.Env = append(os.Environ(), crashing+"=1")
	said, err := again.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	var etcd, server int
	var folder string
	if _, err := fmt.Fscanln(said, &etcd, &server, &folder); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := again.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = again.Wait()
	for _, pid := range []int{etcd, server} {
		until(t, fmt.Sprintf("process %d ends", pid), func() bool { return !runs(pid) })
	}
	t.Logf("gone %v after the kill", time.Since(begun))
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the data is left: %v", err)
	}
}

func crash(t *testing.T) {
	environment := &envtest.Environment{}
	config := start(t, environment)
	watch, err := clientset(t, config).CoreV1().ConfigMaps("").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	children := childrenOf(os.Getpid())
	etcd, server := children["etcd"], children["kube-apiserver"]
	fmt.Println(etcd, server, environment.ControlPlane.Etcd.DataDir)
	select {}
}
