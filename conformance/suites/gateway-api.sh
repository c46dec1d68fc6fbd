# CEL rules of the Gateway API's custom resources (sigs.k8s.io/gateway-api). v1.3.0 is the last version whose module has
# these tests.
folder=$(module sigs.k8s.io/gateway-api v1.3.0 h1:q6okN+/UKDATola4JY7zXzx40WO4VISk7i9DIfOvr9M=)
control_plane >&2
for channel in standard experimental; do
  definitions=()
  for file in "$folder/config/crd/$channel"/gateway*.yaml; do definitions+=(-f "$file"); done
  "$cache/bin/kubectl" apply --server-side "${definitions[@]}" >>"$out/output.txt"
  "$cache/bin/kubectl" wait --for condition=Established crd --all >>"$out/output.txt"
  go_tests "$channel" "$folder/pkg/test/cel" -tags "$channel" --
  "$cache/bin/kubectl" delete "${definitions[@]}" >>"$out/output.txt"
done
end_control_plane >&2
