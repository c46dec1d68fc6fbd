//! What the files of structured configuration have in common.

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_codec::json::Unknown;
use kevel_codec::yaml;

/// The versions of `apiserver.config.k8s.io` that files may be written in. All have the same fields.
const VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];

/// The tree of a file that must be of a kind, and what stands in it twice. `scheme` is what the
/// reference calls the place that knows the kind.
pub(crate) fn decode(
    text: &[u8],
    kind: &str,
    scheme: &str,
) -> Result<(Value, Vec<String>), String> {
    let decoded = yaml::decode_any(text, Unknown::Report).map_err(|error| error.to_string())?;
    let shown = || String::from_utf8_lossy(text);
    match (decoded.value.str_at(&["apiVersion"]), decoded.value.str_at(&["kind"])) {
        (_, "") => return Err(format!("Object 'Kind' is missing in '{}'", shown())),
        ("", _) => return Err(format!("Object 'apiVersion' is missing in '{}'", shown())),
        (version, found) if found == kind && VERSIONS.contains(&version) => {}
        (version, found) => {
            return Err(format!(
                "no kind {} is registered for version {} in scheme {}",
                quote(found),
                quote(version),
                quote(scheme)
            ));
        }
    }
    Ok((decoded.value, decoded.strict))
}
