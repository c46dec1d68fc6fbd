//! Go names of fields, as the reference's errors have them.

use kevel_api::schema::{Field, Scalar, Schema, Type};

/// First words that Go capitalizes. A plural keeps its lower-case `s`: `IPs`.
const INITIALISMS: &[&str] = &[
    "api", "aws", "ca", "cel", "cidr", "csi", "dns", "fc", "fs", "gce", "gid", "gmsa", "grpc",
    "http", "id", "ip", "iqn", "iscsi", "json", "nfs", "os", "pd", "pkix", "qos", "rbd", "se",
    "ssl", "tcp", "tls", "ttl", "tty", "uid", "url", "wwid",
];

/// Go name of a field, from its JSON name. (A few dozen fields have one that does not follow from it.)
pub(super) fn of_field(field: Field<'_>) -> String {
    let name = field.name();
    // Metadata is embedded, so that its type is its name.
    if let ("metadata", Some(metadata)) = (name, field.schema().as_struct()) {
        return metadata.name().to_owned();
    }
    let name = name.trim_start_matches('$').replace("-kubernetes", "");
    name.split('-').map(capitalize).collect()
}

fn capitalize(name: &str) -> String {
    let (word, rest) =
        name.split_at(name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(name.len()));
    let singular = word.strip_suffix('s').unwrap_or(word);
    let capitals = match word {
        word if INITIALISMS.contains(&word) => word.len(),
        _ if INITIALISMS.contains(&singular) => singular.len(),
        word => word.len().min(1),
    };
    word[..capitals].to_ascii_uppercase() + &word[capitals..] + rest
}

/// Go type of a union, from its form that is not an object.
pub(super) fn of_union(other: Schema<'_>) -> &'static str {
    match other.ty() {
        Type::Scalar(Scalar::Bool) => "JSONSchemaPropsOrBool",
        _ if other.item().is_some_and(|item| item.as_struct().is_some()) => {
            "JSONSchemaPropsOrArray"
        }
        _ => "JSONSchemaPropsOrStringArray",
    }
}
