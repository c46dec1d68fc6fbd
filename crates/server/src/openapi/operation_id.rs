//! Operation IDs: the reference's names, which are methods of generated clients.

/// ID and tag of an operation: reading below `/apis/apps/v1` gives `readAppsV1...` and `apps_v1`.
pub(super) fn id_and_tag(prefix: &str, name: &str, path: &str) -> (String, String) {
    // `deletecollection` is named as a `delete`.
    let (prefix, name) = match prefix.strip_prefix("delete") {
        Some(rest) => ("delete", format!("{rest}{name}")),
        None => (prefix, name.to_owned()),
    };
    let mut parts = path.trim_matches('/').split('/');
    let group = match parts.next() {
        Some("api") => Some("core"),
        Some("apis") => parts.next(),
        other => {
            let tag = camel(other.unwrap_or_default(), false);
            return (format!("{prefix}{}", camel(&name, true)), tag);
        }
    };
    let Some(group) = group else { return (format!("{prefix}{name}"), "apis".to_owned()) };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let version = parts.next().unwrap_or_default();
    let id = [prefix, &camel(group, true), &camel(version, true), &camel(&name, true)].concat();
    let tag = match version {
        "" => camel(group, false),
        version => format!("{}_{}", camel(group, false), camel(version, false)),
    };
    (id, tag)
}

/// Letters and digits, with a capital after any other character.
fn camel(text: &str, capital: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut capital = capital;
    for (index, c) in text.char_indices() {
        if c.is_alphabetic() || c == '_' || (index != 0 && c.is_numeric()) {
            if capital {
                out.extend(c.to_uppercase())
            } else {
                out.push(c)
            }
            capital = false;
        } else {
            capital = true;
        }
    }
    out
}

/// First letter upper case, the rest lower case.
pub(super) fn titled(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}", chars.as_str().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_names() {
        for (prefix, name, path, id, tag) in [
            (
                "read",
                "NamespacedPod",
                "/api/v1/namespaces/{namespace}/pods/{name}",
                "readCoreV1NamespacedPod",
                "core_v1",
            ),
            ("deletecollection", "Node", "/api/v1/nodes", "deleteCoreV1CollectionNode", "core_v1"),
            (
                "get",
                "APIGroup",
                "/apis/rbac.authorization.k8s.io/",
                "getRbacAuthorizationAPIGroup",
                "rbacAuthorization",
            ),
            ("get", "APIVersions", "/apis/", "getAPIVersions", "apis"),
            (
                "list",
                "Widget",
                "/apis/example.com/v1/widgets",
                "listExampleComV1Widget",
                "exampleCom_v1",
            ),
        ] {
            assert_eq!(id_and_tag(prefix, name, path), (id.to_owned(), tag.to_owned()));
        }
    }
}
