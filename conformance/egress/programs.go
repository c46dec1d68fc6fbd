//go:build programs

// Package programs names what run builds, so that go.mod keeps what it needs.
package programs

import (
	_ "sigs.k8s.io/apiserver-network-proxy/cmd/agent"
	_ "sigs.k8s.io/apiserver-network-proxy/cmd/server"
)
