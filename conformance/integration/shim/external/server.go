// Package external starts a kube-apiserver that is another program, the one that KUBE_APISERVER_BIN names, for tests
// that would start one in their own process. It needs nothing of k8s.io/kubernetes, whose build takes minutes.
package external

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// startLimit is the time in which a server has to be ready.
	startLimit = time.Minute
	// askLimit is the time in which a starting server has to answer once.
	askLimit = 10 * time.Second
	// askInterval is the pause before it is asked again.
	askInterval = 50 * time.Millisecond
	// stopLimit is the time that a server has to end after SIGTERM before it is killed.
	stopLimit = 6 * time.Second
	// lastWords is the number of lines of a log that an error quotes.
	lastWords = 12
)

// TB is the part of testing.TB that is used; the tests of apiextensions-apiserver pass less than all of it.
type TB interface {
	Helper()
	Logf(format string, args ...interface{})
	Cleanup(func())
}

// Options say how a server is started and when it counts as ready.
type Options struct {
	Dir        string   // of the server's own files; its log, too, if KUBE_INTEGRATION_LOGS names no folder
	Port       int      // that the flags name
	Flags      []string // of the command line
	Token      string   // of the client
	CA         []byte   // PEM that verifies the server
	ServerName string   // to ask for in TLS, if not the host
	// SkipHealthz does not wait for /healthz.
	SkipHealthz bool
	// Namespaces have to be there.
	Namespaces []string
}

// Server is a running process.
type Server struct {
	// Config has the rights of the client that a server has of itself (system:apiserver in system:masters).
	Config *rest.Config
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	once   sync.Once
}

var started atomic.Int64

// Start runs the program and waits until it is ready. It is stopped with the test at the latest.
func Start(t TB, options Options) (*Server, error) {
	t.Helper()
	s, err := spawn(options)
	if err != nil {
		return nil, err
	}
	t.Logf("external kube-apiserver: pid %d, port %d, log %s", s.cmd.Process.Pid, options.Port, s.log)
	t.Cleanup(s.Stop)
	s.Config = &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", options.Port),
		BearerToken:     options.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: options.CA, ServerName: options.ServerName},
		QPS:             1000,
		Burst:           10000,
	}
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(startLimit)
	for {
		err := ready(client, options)
		if err == nil {
			return s, nil
		}
		select {
		case <-s.exited:
			return nil, fmt.Errorf("the server exited: %s: %s", s.cmd.ProcessState, s.words())
		case <-time.After(askInterval):
		}
		if time.Now().After(deadline) {
			s.Stop()
			return nil, fmt.Errorf("the server is not ready after %s: %w", startLimit, err)
		}
	}
}

// Stop asks the process to end, then makes it.
func (s *Server) Stop() {
	s.once.Do(func() {
		s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.exited:
		case <-time.After(stopLimit):
			s.cmd.Process.Kill()
			<-s.exited
		}
	})
}

// controllers are the names of those that the server runs in place of the test's process, separated by commas.
func controllers() string { return os.Getenv("KUBE_INTEGRATION_CONTROLLERS") }

// RunsController says whether the server runs a controller, which the test's process then leaves alone.
func RunsController(name string) bool {
	return slices.Contains(strings.Split(controllers(), ","), name)
}

// spawn starts the process, whose log begins with its flags.
func spawn(options Options) (*Server, error) {
	if controllers() != "" {
		options.Flags = append(slices.Clone(options.Flags), "--controllers="+controllers())
	}
	program := os.Getenv("KUBE_APISERVER_BIN")
	if program == "" {
		return nil, fmt.Errorf("KUBE_APISERVER_BIN names no program")
	}
	logs := os.Getenv("KUBE_INTEGRATION_LOGS")
	if logs == "" {
		logs = options.Dir
	}
	s := &Server{exited: make(chan struct{})}
	s.log = filepath.Join(logs, fmt.Sprintf("server-%d-%d.log", os.Getpid(), started.Add(1)))
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "# %s\n", strings.Join(options.Flags, " \\\n#   "))
	s.cmd = exec.Command(program, options.Flags...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		log.Close()
		return nil, err
	}
	go func() {
		s.cmd.Wait()
		log.Close()
		close(s.exited)
	}()
	return s, nil
}

// ready asks once.
func ready(client kubernetes.Interface, options Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	if !options.SkipHealthz {
		status := 0
		result := client.CoreV1().RESTClient().Get().AbsPath("/healthz").Do(ctx)
		if result.StatusCode(&status); status != 200 {
			return fmt.Errorf("/healthz: %d: %w", status, result.Error())
		}
	}
	for _, namespace := range options.Namespaces {
		if _, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// words are the last lines of the log, without the flags.
func (s *Server) words() string {
	text, _ := os.ReadFile(s.log)
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) > lastWords {
		lines = lines[len(lines)-lastWords:]
	}
	return strings.Join(lines, "\n")
}
