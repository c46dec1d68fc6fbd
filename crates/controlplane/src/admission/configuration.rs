//! Decoder of admission plug-ins' configuration files.

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_codec::json::Unknown;
use kevel_codec::yaml;

/// Decodes a configuration, which must have one of these API versions and kinds.
pub(super) fn decode(text: &str, kinds: &[(&str, &str)]) -> Result<Value, String> {
    let decoded = yaml::decode_any(text.as_bytes(), Unknown::Report);
    let decoded = decoded.map_err(|error| error.to_string())?;
    match (decoded.value.str_at(&["apiVersion"]), decoded.value.str_at(&["kind"])) {
        (_, "") => Err(format!("Object 'Kind' is missing in '{text}'")),
        ("", _) => Err(format!("Object 'apiVersion' is missing in '{text}'")),
        found if kinds.contains(&found) => Ok(decoded.value),
        (version, kind) => {
            Err(format!("no kind {} is registered for version {}", quote(kind), quote(version)))
        }
    }
}
