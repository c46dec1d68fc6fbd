# Tests of kube-rs that need a cluster (kube-client, kube-runtime, kube), which its authors run on k3d. Those
# that look into a container cannot pass: nodes are pretended.
version=5.0.0
declare -A hash=(
  [kube-client]=ae56b223bca490db1f1b115bfc606d411177511d7748d8cc019a7e3b2935430b
  [kube-runtime]=9dea60005024b6ec1819c426209aa29b9eaca64f6b3988ab73c55f43fa484392
  [kube]=c73b082f549411623a4f8949bd24dcaedacb1511379c461c76d579fde301d021
)
declare -A features=(
  [kube-client]=client,config,rustls-tls,ring,ws,kubelet-debug,jsonpatch,admission
  [kube-runtime]=unstable-runtime
  [kube]=client,config,rustls-tls,ring,ws,kubelet-debug,jsonpatch,admission,derive,runtime
)
home=$cache/suites/kube-rs
export CARGO_INCREMENTAL=0
mkdir -p "$home"
cp "$here/kube-rs/Cargo.toml" "$here/kube-rs/Cargo.lock" "$home"
# The tests of this repository depend on the same version: cargo has the packages.
cargo fetch --locked --manifest-path "$root/Cargo.toml" >&2
for crate in kube-client kube-runtime kube; do
  [ ! -d "$home/$crate-$version" ] || continue
  package=$(ls "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$crate-$version.crate" | head -1)
  echo "${hash[$crate]}  $package" | sha256sum --check --quiet
  tar xzf "$package" -C "$home"
  # Published packages lack the dependency of the tests on the other crates of the workspace.
  [ "$crate" = kube ] ||
    printf '\n[dev-dependencies.kube]\nversion = "%s"\ndefault-features = false\n%s\n' "$version" \
      'features = ["client", "config", "derive", "ring", "runtime", "rustls-tls", "ws"]' \
      >>"$home/$crate-$version/Cargo.toml"
done
control_plane >&2
for crate in kube-client kube-runtime kube; do
  # One at a time: some count what others create.
  (cd "$home" && timeout 1200 cargo test --locked --package "$crate" --lib --no-default-features \
    --features "${features[$crate]}" -- --ignored --test-threads 1) \
    >"$out/$crate.txt" 2>&1 || true
  awk -v crate="$crate" '
    /^test .* \.\.\. / { name = $2 }
    name != "" && / (ok|FAILED)$|^(ok|FAILED)$/ { print $NF == "ok" ? "pass" : "fail", crate "/" name; name = "" }
  ' "$out/$crate.txt"
  grep -q '^test result' "$out/$crate.txt" || echo "fail $crate/end"
done
end_control_plane >&2
