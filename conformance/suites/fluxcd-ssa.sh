# Server-side apply as Flux uses it: applies, diffs, prunes and waits (github.com/fluxcd/pkg/ssa).
folder=$(module github.com/fluxcd/pkg/ssa v0.78.0 h1:Wzm9uoYLDUCRV2SlJuBLkOQu/OnPKuTWyTzIFZbpVfY=)
export KUBEBUILDER_ASSETS
KUBEBUILDER_ASSETS=$(assets)
go_tests ssa "$folder" --
go_tests jsondiff "$folder/jsondiff" --
