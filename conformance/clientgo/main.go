// Traffic by client-go, with no more patience than it has by itself: requests that fail are counted, and informers tell
// whether they have begun anew and whether they have heard of every write.
//
//	client-go-load KUBECONFIG [SERVER]
//
// Prints "begun" once its informers know everything, works until its standard input ends, and then says what came of it.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace = "default"
	// Each is a client of its own with a connection of its own, which its goroutines share as a program's do.
	clients          = 4
	workersPerClient = 3
	watchers         = 4
	// Of each client: so that servers are busy and none is late.
	qps = 50
	// How long informers may take to hear of what was written last.
	patience = 30 * time.Second
	// How many failures are told.
	told = 20
)

func main() {
	server := ""
	if len(os.Args) > 2 {
		server = os.Args[2]
	}
	config, err := clientcmd.BuildConfigFromFlags(server, os.Args[1])
	if err != nil {
		panic(err)
	}
	load := &load{config: config}
	ctx, cancel := context.WithCancel(context.Background())
	for number := range watchers {
		load.watch(ctx, number)
	}
	// Of its objects nothing is heard all the time: what it has heard last is old when it comes back.
	quiet := load.informer(ctx, "quiet", func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().Secrets().Informer()
	})
	fmt.Println("begun")

	var working sync.WaitGroup
	working.Add(clients * workersPerClient)
	for number := range clients {
		client := load.client(fmt.Sprintf("worker-%d", number), number%2 == 0, nil)
		for worker := range workersPerClient {
			go func() {
				defer working.Done()
				load.work(client, fmt.Sprintf("map-%d-%d", number, worker))
			}()
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	load.over.Store(true)
	working.Wait()
	missed := load.missed()
	secret := &core.Secret{ObjectMeta: meta.ObjectMeta{GenerateName: "last-"}}
	client := load.client("last", false, nil)
	secret, err = client.CoreV1().Secrets(namespace).Create(ctx, secret, meta.CreateOptions{})
	if load.note("create the last secret", err) {
		if !eventually(func() bool { return quiet.heard.has(secret.Name, "there", secret.ResourceVersion) }) {
			missed = append(missed, "quiet: the last secret")
		}
	}
	cancel()
	os.Exit(load.report(missed))
}

// What all know.
type load struct {
	config    *rest.Config
	over      atomic.Bool
	done      atomic.Int64
	informers []*informer
	answers   sync.Map // kind of answer: *atomic.Int64
	mu        sync.Mutex
	failures  []string
	wrote     []write
}

// A write that was acknowledged.
type write struct{ name, what, version string }

// A client with a connection of its own: a dialer of its own keeps client-go from sharing it.
func (l *load) client(name string, protobuf bool, wrap func(http.RoundTripper) http.RoundTripper) *kubernetes.Clientset {
	config := rest.CopyConfig(l.config)
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	config.UserAgent = name
	config.QPS, config.Burst = qps, qps
	if protobuf {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, l} })
	if wrap != nil {
		config.Wrap(wrap)
	}
	return kubernetes.NewForConfigOrDie(config)
}

func (l *load) work(client kubernetes.Interface, prefix string) {
	ctx, maps := context.Background(), client.CoreV1().ConfigMaps(namespace)
	for number := 0; !l.over.Load(); number++ {
		name := fmt.Sprintf("%s-%d", prefix, number)
		made, err := maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{})
		if !l.note("create", err) {
			continue
		}
		l.acknowledged(name, "there", made.ResourceVersion)
		found, err := maps.Get(ctx, name, meta.GetOptions{})
		if l.note("get", err) {
			found.Data = map[string]string{"a": "b"}
			changed, err := maps.Update(ctx, found, meta.UpdateOptions{})
			if l.note("update", err) {
				l.acknowledged(name, "there", changed.ResourceVersion)
			}
		}
		_, err = maps.List(ctx, meta.ListOptions{Limit: 10})
		l.note("list", err)
		if l.note("delete", maps.Delete(ctx, name, meta.DeleteOptions{})) {
			l.acknowledged(name, "gone", "")
		}
	}
}

func (l *load) note(what string, err error) bool {
	l.done.Add(1)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failures = append(l.failures, fmt.Sprintf("%s %s: %T %v", time.Now().Format("05.000"), what, err, err))
	}
	return err == nil
}

func (l *load) acknowledged(name, what, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote = append(l.wrote, write{name, what, version})
}

func (l *load) watch(ctx context.Context, number int) {
	l.informer(ctx, fmt.Sprintf("informer-%d", number), func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().ConfigMaps().Informer()
	})
}

// An informer, with what it has asked for and heard.
type informer struct {
	name           string
	lists, watches atomic.Int64
	heard          heard
}

func (l *load) informer(
	ctx context.Context, name string, of func(informers.SharedInformerFactory) cache.SharedIndexInformer,
) *informer {
	in := &informer{name: name, heard: heard{writes: map[write]int{}}}
	l.informers = append(l.informers, in)
	client := l.client(name, len(l.informers)%2 == 0, func(next http.RoundTripper) http.RoundTripper {
		return asking{next, in}
	})
	shared := of(informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace)))
	_, _ = shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { in.heard.add(object, "there") },
		UpdateFunc: func(_, object any) { in.heard.add(object, "there") },
		DeleteFunc: func(object any) { in.heard.add(object, "gone") },
	})
	go shared.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		panic(name + " does not begin")
	}
	return in
}

// What handlers were told, and how often.
type heard struct {
	mu     sync.Mutex
	writes map[write]int
}

func (h *heard) add(object any, what string) {
	found, ok := object.(meta.Object)
	if !ok {
		// A deletion that was only noticed in a new list: it was not heard of.
		return
	}
	version := found.GetResourceVersion()
	if what == "gone" {
		version = ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes[write{found.GetName(), what, version}]++
}

func (h *heard) has(name, what, version string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.writes[write{name, what, version}] > 0
}

// What informers have not heard of, or have heard of twice, though they had time.
func (l *load) missed() []string {
	var missed []string
	for _, in := range l.informers {
		if in.name == "quiet" {
			continue
		}
		heard := func() bool {
			return !slices.ContainsFunc(l.wrote, func(w write) bool { return !in.heard.has(w.name, w.what, w.version) })
		}
		if eventually(heard) {
			continue
		}
		for _, w := range l.wrote {
			if !in.heard.has(w.name, w.what, w.version) {
				missed = append(missed, fmt.Sprintf("%s: %s %s %s", in.name, w.name, w.what, w.version))
			}
		}
	}
	for _, in := range l.informers {
		for w, times := range in.heard.writes {
			if times > 1 {
				missed = append(missed, fmt.Sprintf("%s: %s %s %s %d times", in.name, w.name, w.what, w.version, times))
			}
		}
	}
	return missed
}

func (l *load) report(missed []string) int {
	fmt.Printf("%d requests, %d failed; %d writes acknowledged\n", l.done.Load(), len(l.failures), len(l.wrote))
	var answers []string
	l.answers.Range(func(kind, count any) bool {
		answers = append(answers, fmt.Sprintf("%v: %d", kind, count.(*atomic.Int64).Load()))
		return true
	})
	slices.Sort(answers)
	fmt.Println("answers:", strings.Join(answers, ", "))
	again := 0
	for _, in := range l.informers {
		lists, watches := in.lists.Load(), in.watches.Load()
		fmt.Printf("%s: began %d times, %d watches\n", in.name, lists, watches)
		again += int(lists) - 1
	}
	fmt.Printf("relists %d, missed events %d\n", again, len(missed))
	for _, failures := range [][]string{l.failures, missed} {
		for _, failure := range failures[:min(len(failures), told)] {
			fmt.Println("  ", failure)
		}
	}
	if len(l.failures)+len(missed)+again > 0 {
		return 1
	}
	return 0
}

func eventually(holds func() bool) bool {
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Counts answers by protocol and code, before client-go asks again.
type counting struct {
	next http.RoundTripper
	load *load
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(request)
	kind := "no answer"
	if err == nil {
		kind = fmt.Sprintf("%s %d", answer.Proto, answer.StatusCode)
	}
	count, _ := c.load.answers.LoadOrStore(kind, new(atomic.Int64))
	count.(*atomic.Int64).Add(1)
	return answer, err
}

// Counts what an informer asks for: everything, or only what comes from here on.
type asking struct {
	next http.RoundTripper
	in   *informer
}

func (a asking) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if query.Get("watch") == "" || query.Get("sendInitialEvents") == "true" {
		a.in.lists.Add(1)
	}
	if query.Get("watch") != "" {
		a.in.watches.Add(1)
	}
	return a.next.RoundTrip(request)
}
