# Controllers, patches, conversions and webhooks of cluster-api on envtest (sigs.k8s.io/cluster-api). Of v1.14 and later the
# module lacks the API, which is a module of its own.
folder=$(module sigs.k8s.io/cluster-api v1.13.6 h1:imZVIstbRIq2DoKftQv0wPm+vyhWXrE3Zft8E43maqo=)
export KUBEBUILDER_ASSETS
KUBEBUILDER_ASSETS=$(assets)
for package in \
  controllers/clustercache controllers/crdmigrator util/patch/test internal/util/ssa internal/webhooks/test \
  internal/test/envtest/example internal/controllers/clusterclass internal/controllers/clusterresourceset \
  internal/controllers/extensionconfig internal/controllers/topology/cluster/structuredmerge; do
  go_tests "$package" "$folder/$package" --
done
