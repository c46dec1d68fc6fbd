//! The 403 of a request that is not authorized.

use kevel_api::gvk::GroupResource;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;

use super::Attributes;

/// The 403 of a request, with the reason if there is one.
///
/// ```
/// use kevel_server::authorization::{Attributes, forbidden};
/// use kevel_registry::user::User;
/// use kevel_server::request_info::RequestInfo;
/// let info = RequestInfo::new(&http::Method::GET, &"/api/v1/namespaces".parse()?).unwrap();
/// assert_eq!(
///     forbidden(&Attributes::of(&info, &User { name: "jane".into(), ..User::default() }), "").to_string(),
///     "namespaces is forbidden: User \"jane\" cannot list resource \"namespaces\" in API group \
///      \"\" at the cluster scope"
/// );
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> StatusError {
    let mut message = without_markup(&sentence(attributes));
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    let resource = GroupResource::new(attributes.group, attributes.resource);
    StatusError::forbidden(&resource, attributes.name, message)
}

fn sentence(attributes: &Attributes<'_>) -> String {
    let (user, verb) = (quote(&attributes.user.name), attributes.verb);
    if !attributes.is_resource {
        return format!("User {user} cannot {verb} path {}", quote(attributes.path));
    }
    let resource = match attributes.subresource {
        "" => quote(attributes.resource),
        subresource => quote(&format!("{}/{subresource}", attributes.resource)),
    };
    let scope = match attributes.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", quote(namespace)),
    };
    let group = quote(attributes.group);
    format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
}

/// Escapes text of the client, so that browsers do not interpret it as markup.
pub(crate) fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::RequestInfo;
    use kevel_registry::user::User;

    #[test]
    fn a_refusal_says_who_cannot_do_what() {
        let user = User { name: "jane".into(), ..User::default() };
        for (method, uri, reason, expected) in [
            (
                "GET",
                "/api/v1/namespaces/a/pods/b/log",
                "",
                r#"pods "b" is forbidden: User "jane" cannot get resource "pods/log" in API group "" in the namespace "a""#,
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                "no",
                r#"deployments.apps is forbidden: User "jane" cannot deletecollection resource "deployments" in API group "apps" in the namespace "a": no"#,
            ),
            ("GET", "/healthz", "", r#"forbidden: User "jane" cannot get path "/healthz""#),
            ("GET", "/%3Cb%3E&", "", r#"forbidden: User "jane" cannot get path "/&lt;b&gt;&amp;""#),
        ] {
            let info = RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap()).unwrap();
            let error = forbidden(&Attributes::of(&info, &user), reason);
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.status().code, 403);
        }
    }
}
