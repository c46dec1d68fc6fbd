//go:build tools

// Package envtest's tools: setup-envtest is run by its path.
package envtest

import _ "sigs.k8s.io/controller-runtime/tools/setup-envtest"
