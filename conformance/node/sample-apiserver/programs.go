//go:build programs

// Package programs holds nothing: it names what `conformance/build` makes a program of, so that
// `go mod tidy` keeps its dependencies.
package programs

import _ "k8s.io/sample-apiserver"
