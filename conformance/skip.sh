# Sourced. skip NEED WHAT: says what is skipped for want of what, as crates/test-support does, and ends well.
skip() {
  local line="SKIPPED for want of $1: $2"
  echo "$line" >&2
  [ -z "${KEVEL_SKIPPED:-}" ] || echo "$line" >>"$KEVEL_SKIPPED"
  exit 0
}
