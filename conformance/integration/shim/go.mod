// Keeps these files out of the module kevel.dev/conformance. The runner writes the one that they are built with.
module kevel.dev/integration

go 1.26.0
