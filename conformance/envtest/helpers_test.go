package envtest

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func newWidget(name, colour string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
		"spec":       map[string]any{"colour": colour},
	}}
}

// childrenOf returns the child processes of a process, by the names of their programs.
func childrenOf(parent int) map[string]int {
	children := map[string]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		var pid, of int
		var state string
		if _, err := fmt.Sscan(string(text[:open]), &pid); err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(text[end+1:]), &state, &of); err == nil && of == parent {
			children[string(text[open+1:end])] = pid
		}
	}
	return children
}

// runs says whether a process has not ended; one that waits for its parent to take note has.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := strings.TrimSpace(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return !strings.HasPrefix(state, "Z")
}

// probeTimes starts etcd and kube-apiserver with the flags that envtest gives them, and measures from exec to the first
// good answer to the probe, asking every millisecond.
func probeTimes(t *testing.T) map[string]time.Duration {
	t.Helper()
	environment := &envtest.Environment{}
	if _, err := environment.Start(); err != nil {
		t.Fatal(err)
	}
	plane := &environment.ControlPlane
	etcdArguments := argumentsOf(t, "etcd")
	dataDir := plane.Etcd.DataDir
	defer func() { _ = environment.Stop(); _ = os.RemoveAll(dataDir) }()
	if err := plane.APIServer.Stop(); err != nil {
		t.Fatal(err)
	}
	// Its folder is gone with it: the certificates are what another one needs, and come with its own start.
	certificates, err := os.MkdirTemp("", "certificates")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(certificates) }()
	prepared := &envtest.APIServer{EtcdURL: plane.Etcd.URL, CertDir: certificates}
	if err := prepared.Start(); err != nil {
		t.Fatal(err)
	}
	serverArguments := argumentsOf(t, "kube-apiserver")
	if err := prepared.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := plane.Etcd.Stop(); err != nil {
		t.Fatal(err)
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	etcd, took := probed(t, exec.Command(filepath.Join(assets, "etcd"), etcdArguments...), plane.Etcd.URL.String()+"/health")
	times := map[string]time.Duration{"etcd": took}
	defer etcd()
	server, took := probed(t, exec.Command(filepath.Join(assets, "kube-apiserver"), serverArguments...),
		prepared.SecureServing.URL("https", "/healthz").String())
	times["kube-apiserver"] = took
	server()
	return times
}

// argumentsOf returns the arguments that the child process of a program was started with.
func argumentsOf(t *testing.T, program string) []string {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", childrenOf(os.Getpid())[program]))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")[1:]
}

// probed starts a program and waits until its probe is good. Returns how to end it, and the time.
func probed(t *testing.T, program *exec.Cmd, url string) (func(), time.Duration) {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{Timeout: time.Second}).DialContext,
	}
	asking := &http.Client{Transport: transport, Timeout: patience}
	var said strings.Builder
	program.Stderr = &said
	begun := time.Now()
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	for time.Since(begun) < patience {
		response, err := asking.Get(url)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				took := time.Since(begun)
				return func() { _ = program.Process.Kill(); _ = program.Wait() }, took
			}
		}
		time.Sleep(time.Millisecond)
	}
	_ = program.Process.Kill()
	_ = program.Wait()
	t.Fatalf("%s does not answer: %s", program.Path, said.String())
	return nil, 0
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
