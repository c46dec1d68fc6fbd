// Command coredns is CoreDNS with the few plug-ins that a cluster's DNS needs: all of them would take long to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// In the order in which a query passes them.
	dnsserver.Directives = []string{"reload", "health", "ready", "errors", "cache", "hosts", "kubernetes", "forward"}
	coremain.Run()
}
