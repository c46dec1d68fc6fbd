//! Rules of a FlowSchema: matching of requests.

use kevel_api::value::Value;

use crate::digest::RequestDigest;

/// Wildcard.
const ALL: &str = "*";
/// Prefix of service accounts' user names.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// PolicyRulesWithSubjects of a FlowSchema: subjects and their requests.
#[derive(Debug)]
pub(super) struct PolicyRule {
    subjects: Box<[Subject]>,
    resource_rules: Box<[ResourceRule]>,
    non_resource_rules: Box<[NonResourceRule]>,
}

#[derive(Debug, PartialEq, Eq)]
enum Subject {
    AnyUser,
    User(Box<str>),
    AnyGroup,
    Group(Box<str>),
    /// All service accounts of a namespace: the prefix of their user names.
    ServiceAccounts(Box<str>),
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    /// `pods`, `pods/log`.
    resources: Names,
    namespaces: Names,
    cluster_scope: bool,
}

#[derive(Debug)]
struct NonResourceRule {
    verbs: Names,
    urls: Box<[Url]>,
}

/// A list of names, or the wildcard.
#[derive(Debug)]
enum Names {
    All,
    These(Box<[Box<str>]>),
}

#[derive(Debug)]
enum Url {
    All,
    /// A path, and the prefix of the paths below it.
    Below {
        path: Box<str>,
        prefix: Box<str>,
    },
}

impl PolicyRule {
    /// Compiles a rule. Unknown subjects match nothing.
    pub(super) fn new(rule: &Value) -> Self {
        let compile_urls = |rule: &Value| NonResourceRule {
            verbs: Names::new(rule, "verbs"),
            urls: strings(rule, "nonResourceURLs").map(Url::new).collect(),
        };
        PolicyRule {
            subjects: rule.list_at(&["subjects"]).iter().filter_map(Subject::new).collect(),
            resource_rules: rule
                .list_at(&["resourceRules"])
                .iter()
                .map(ResourceRule::new)
                .collect(),
            non_resource_rules: rule
                .list_at(&["nonResourceRules"])
                .iter()
                .map(compile_urls)
                .collect(),
        }
    }

    pub(super) fn matches(&self, digest: &RequestDigest<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.matches(digest))
            && match digest.is_resource {
                true => self.resource_rules.iter().any(|rule| rule.matches(digest)),
                false => self.non_resource_rules.iter().any(|rule| rule.matches(digest)),
            }
    }
}

impl Subject {
    fn new(subject: &Value) -> Option<Self> {
        let name = |of: &str| {
            let described = subject.at(&[of])?;
            Some(described.str_at(&["name"]))
        };
        Some(match subject.str_at(&["kind"]) {
            "User" if name("user")? == ALL => Subject::AnyUser,
            "User" => Subject::User(name("user")?.into()),
            "Group" if name("group")? == ALL => Subject::AnyGroup,
            "Group" => Subject::Group(name("group")?.into()),
            "ServiceAccount" => {
                let name = name("serviceAccount")?;
                let namespace = subject.str_at(&["serviceAccount", "namespace"]);
                let prefix = format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:");
                match name {
                    ALL => Subject::ServiceAccounts(prefix.into()),
                    // A service account is matched by its user name.
                    _ => Subject::User((prefix + name).into()),
                }
            }
            _ => return None,
        })
    }

    fn matches(&self, digest: &RequestDigest<'_>) -> bool {
        match self {
            Subject::AnyUser | Subject::AnyGroup => true,
            Subject::User(name) => **name == *digest.user,
            Subject::Group(name) => digest.groups.iter().any(|group| **name == **group),
            Subject::ServiceAccounts(prefix) => digest.user.starts_with(&**prefix),
        }
    }
}

impl ResourceRule {
    fn new(rule: &Value) -> Self {
        ResourceRule {
            verbs: Names::new(rule, "verbs"),
            groups: Names::new(rule, "apiGroups"),
            resources: Names::new(rule, "resources"),
            namespaces: Names::new(rule, "namespaces"),
            cluster_scope: rule.at(&["clusterScope"]).and_then(Value::as_bool).unwrap_or(false),
        }
    }

    fn matches(&self, digest: &RequestDigest<'_>) -> bool {
        let scope = || match digest.namespace {
            "" => self.cluster_scope,
            namespace => self.namespaces.contain(|name| name == namespace),
        };
        self.verbs.contain(|name| name == digest.verb)
            && self.resources.contain(|name| is_resource(name, digest))
            && self.groups.contain(|name| name == digest.group)
            && scope()
    }
}

/// Whether a name is the request's resource, or `resource/subresource` for a subresource.
fn is_resource(name: &str, digest: &RequestDigest<'_>) -> bool {
    match digest.subresource {
        "" => name == digest.resource,
        subresource => name
            .strip_prefix(digest.resource)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| rest == subresource),
    }
}

impl NonResourceRule {
    fn matches(&self, digest: &RequestDigest<'_>) -> bool {
        self.verbs.contain(|name| name == digest.verb)
            && self.urls.iter().any(|url| url.matches(digest.path))
    }
}

impl Names {
    fn new(rule: &Value, field: &str) -> Self {
        let names: Box<[Box<str>]> = strings(rule, field).map(Into::into).collect();
        // Validation ensures that the wildcard stands alone.
        match &*names {
            [all] if **all == *ALL => Names::All,
            _ => Names::These(names),
        }
    }

    fn contain(&self, matches: impl Fn(&str) -> bool) -> bool {
        match self {
            Names::All => true,
            Names::These(names) => names.iter().any(|name| matches(name)),
        }
    }
}

impl Url {
    fn new(url: &str) -> Self {
        if url == ALL {
            return Url::All;
        }
        let mut prefix = url.strip_suffix('*').unwrap_or(url).to_owned();
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        Url::Below { path: url.into(), prefix: prefix.into() }
    }

    fn matches(&self, asked: &str) -> bool {
        match self {
            Url::All => true,
            Url::Below { path, prefix } => **path == *asked || asked.starts_with(&**prefix),
        }
    }
}

fn strings<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule.list_at(&[field]).iter().filter_map(Value::as_str)
}
