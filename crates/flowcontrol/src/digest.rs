//! Attributes of a request, for priority and fairness (upstream: RequestDigest).

/// User and RequestInfo of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestDigest<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// Groups of the user.
    pub groups: &'a [String],
    /// Whether this is a resource request.
    pub is_resource: bool,
    /// `get`, `list`, ...; for non-resource requests the method in lower case.
    pub verb: &'a str,
    /// The path.
    pub path: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The namespace; empty for cluster-scoped requests.
    pub namespace: &'a str,
    /// The resource, in the plural.
    pub resource: &'a str,
    /// The subresource; empty for none.
    pub subresource: &'a str,
    /// Name of the object; empty for a collection.
    pub name: &'a str,
}

/// Maximum bytes kept of a request for dumps: a queued request must not hold more than 2 KiB, whatever its client sent.
pub(crate) const MAX_DETAILS: usize = 1024;

const FIELDS: usize = 9;

/// Copy of the attributes that dumps show of a request, in one allocation. Cut off at [`MAX_DETAILS`].
#[derive(Debug)]
pub(crate) struct RequestDetails {
    text: Box<str>,
    ends: [u16; FIELDS],
}

impl RequestDetails {
    pub(crate) fn new(digest: &RequestDigest<'_>) -> Self {
        let fields: [&str; FIELDS] = [
            digest.user,
            digest.namespace,
            digest.verb,
            digest.group,
            digest.version,
            digest.resource,
            digest.subresource,
            digest.name,
            digest.path,
        ];
        let whole: usize = fields.iter().map(|field| field.len()).sum();
        let mut text = String::with_capacity(whole.min(MAX_DETAILS));
        let ends = fields.map(|field| {
            text.push_str(cut(field, MAX_DETAILS - text.len()));
            // Bounded by MAX_DETAILS.
            text.len() as u16
        });
        RequestDetails { text: text.into_boxed_str(), ends }
    }

    /// The copied attributes, without groups.
    pub(crate) fn digest(&self) -> RequestDigest<'_> {
        let mut begin = 0;
        let mut fields = self.ends.iter().map(|&end| {
            let field = self.text.get(begin..usize::from(end)).unwrap_or_default();
            begin = usize::from(end);
            field
        });
        let mut next = || fields.next().unwrap_or_default();
        RequestDigest {
            user: next(),
            namespace: next(),
            verb: next(),
            group: next(),
            version: next(),
            resource: next(),
            subresource: next(),
            name: next(),
            path: next(),
            ..RequestDigest::default()
        }
    }
}

fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_kept_up_to_a_limit() {
        let path = format!("/api/v1/namespaces/{}", "é".repeat(MAX_DETAILS));
        let digest = RequestDigest {
            user: "jane",
            verb: "get",
            namespace: "default",
            resource: "pods",
            subresource: "log",
            version: "v1",
            name: "web",
            path: &path,
            ..RequestDigest::default()
        };
        let details = RequestDetails::new(&digest);
        assert!(details.text.len() <= MAX_DETAILS && details.text.len() >= MAX_DETAILS - 1);
        let kept = details.digest();
        assert_eq!((kept.user, kept.verb, kept.namespace), ("jane", "get", "default"));
        assert_eq!((kept.group, kept.version, kept.resource), ("", "v1", "pods"));
        assert_eq!((kept.subresource, kept.name), ("log", "web"));
        assert!(path.starts_with(kept.path) && !kept.path.is_empty());
    }
}
