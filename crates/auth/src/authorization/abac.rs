//! ABAC authorizer: a file with a policy on every line, read once.

use std::path::Path;

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};
use kevel_component::future::Pending;
use kevel_registry::user::{ALL_AUTHENTICATED, User};
use kevel_server::authorization::{
    Attributes, Authorizer, NonResourceRule, Opinion, ResourceRule, Rules,
};

const GROUP: &str = "abac.authorization.kubernetes.io";
/// Wildcard for users, groups, namespaces, resources and paths.
const ALL: &str = "*";
/// Maximum length of a line.
const MAX_LINE: usize = 64 << 10;

/// The ABAC authorizer.
#[derive(Debug, Default)]
pub struct Abac {
    policies: Vec<Policy>,
}

/// Policy of one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Policy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    non_resource_path: String,
}

impl Abac {
    /// Loads a policy file: a JSON object per line, with empty lines and `#` comments.
    pub fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read(path).map_err(|error| format!("open {shown}: {error}"))?;
        let mut policies = Vec::new();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() >= MAX_LINE {
                let error = "bufio.Scanner: token too long";
                return Err(format!("error reading policy file {shown}: {error}"));
            }
            let trimmed = line.trim_ascii();
            if trimmed.is_empty() || trimmed.starts_with(b"#") {
                continue;
            }
            let policy = Policy::parse(line).map_err(|error| {
                let (number, line) = (index + 1, String::from_utf8_lossy(line));
                format!("error reading policy file {shown}, line {number}: {line}: {error}")
            })?;
            policies.push(policy);
        }
        Ok(Abac { policies })
    }
}

impl Authorizer for Abac {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        let opinion = match self.policies.iter().any(|policy| policy.allows(attributes)) {
            true => Opinion::allow(),
            false => Opinion::none("No policy matched."),
        };
        Box::pin(std::future::ready(opinion))
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let mut rules = Rules::default();
        let here = |policy: &&Policy| is(&policy.namespace, namespace) && policy.means(user);
        for policy in self.policies.iter().filter(here) {
            let verbs: &[&str] = if policy.readonly { &["get", "list", "watch"] } else { &[ALL] };
            let verbs = || verbs.iter().map(|&verb| verb.to_owned()).collect();
            if !policy.resource.is_empty() {
                rules.resource_rules.push(ResourceRule {
                    verbs: verbs(),
                    api_groups: vec![policy.api_group.clone()],
                    resources: vec![policy.resource.clone()],
                    resource_names: Vec::new(),
                });
            }
            if !policy.non_resource_path.is_empty() {
                rules.non_resource_rules.push(NonResourceRule {
                    verbs: verbs(),
                    non_resource_urls: vec![policy.non_resource_path.clone()],
                });
            }
        }
        rules
    }
}

impl Policy {
    fn parse(line: &[u8]) -> Result<Self, String> {
        let decoded = json::decode_any(line, Unknown::Ignore).map_err(|error| error.to_string())?;
        let object = decoded.value;
        let (version, kind) = (object.str_at(&["apiVersion"]), object.str_at(&["kind"]));
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        match (group, version, kind) {
            (GROUP, "v1beta1", "Policy") => Policy::v1beta1(&object),
            (_, "", _) | (GROUP, "v0", "" | "Policy") => Policy::unversioned(&object),
            (_, _, "") => Err("Object 'Kind' is missing".to_owned()),
            _ => {
                let version = object.str_at(&["apiVersion"]);
                let (kind, version) = (quote(kind), quote(version));
                Err(format!("no kind {kind} is registered for version {version}"))
            }
        }
    }

    fn v1beta1(object: &Value) -> Result<Self, String> {
        let none = Value::Map(kevel_api::value::Map::new());
        let mut policy = Policy::read(object.at(&["spec"]).unwrap_or(&none))?;
        policy.everybody();
        Ok(policy)
    }

    /// Reads the unversioned form, in which omitted fields match everything.
    fn unversioned(object: &Value) -> Result<Self, String> {
        let mut policy = Policy::read(object)?;
        policy.non_resource_path = String::new();
        if policy.user.is_empty() && policy.group.is_empty() {
            policy.group = ALL_AUTHENTICATED.to_owned();
        }
        policy.everybody();
        if policy.namespace.is_empty() && policy.resource.is_empty() {
            policy.non_resource_path = ALL.to_owned();
        }
        for field in [&mut policy.namespace, &mut policy.resource] {
            if field.is_empty() {
                *field = ALL.to_owned();
            }
        }
        policy.api_group = ALL.to_owned();
        Ok(policy)
    }

    fn read(spec: &Value) -> Result<Self, String> {
        let spec = spec.as_map().ok_or("a policy must be an object")?;
        let text = |field: &str| match spec.get(field) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.to_string()),
            Some(_) => Err(format!("{field} must be a string")),
        };
        Ok(Policy {
            user: text("user")?,
            group: text("group")?,
            readonly: match spec.get("readonly") {
                None | Some(Value::Null) => false,
                Some(Value::Bool(readonly)) => *readonly,
                Some(_) => return Err("readonly must be true or false".to_owned()),
            },
            api_group: text("apiGroup")?,
            resource: text("resource")?,
            namespace: text("namespace")?,
            non_resource_path: text("nonResourcePath")?,
        })
    }

    /// Replaces the wildcard user or group by `system:authenticated`.
    fn everybody(&mut self) {
        if self.user == ALL || self.group == ALL {
            self.user.clear();
            self.group = ALL_AUTHENTICATED.to_owned();
        }
    }

    fn allows(&self, asked: &Attributes<'_>) -> bool {
        let read_only = matches!(asked.verb, "get" | "list" | "watch");
        if !self.means(asked.user) || (self.readonly && !read_only) {
            return false;
        }
        if asked.is_resource {
            return is(&self.namespace, asked.namespace)
                && is(&self.resource, asked.resource)
                && is(&self.api_group, asked.group);
        }
        let path = self.non_resource_path.as_str();
        path == asked.path
            || (path.ends_with('*') && asked.path.starts_with(path.trim_end_matches('*')))
    }

    /// True if the policy names the user: by each of user and group that is set, and at least one is.
    fn means(&self, user: &User) -> bool {
        let named = !self.user.is_empty() || !self.group.is_empty();
        named
            && (self.user.is_empty() || self.user == user.name)
            && (self.group.is_empty() || user.groups.contains(&self.group))
    }
}

fn is(policy: &str, asked: &str) -> bool {
    policy == ALL || policy == asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_registry::selectors::NO_SELECTORS;
    use kevel_server::authorization::Decision;

    fn load(text: &str) -> Result<Abac, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.jsonl");
        std::fs::write(&path, text).unwrap();
        let shown = path.display().to_string();
        Abac::load(&path).map_err(|error| error.replace(&shown, "FILE"))
    }

    /// Request as `verb group/resource namespace`, with `-` for empty parts, or `verb /path`.
    fn decide(abac: &Abac, user: &str, what: &str) -> bool {
        let mut groups = user.split(',').map(str::to_owned);
        let user =
            User { name: groups.next().unwrap(), groups: groups.collect(), ..User::default() };
        let parts: Vec<&str> = what.split(' ').collect();
        let is_resource = parts.len() == 3;
        let (group, resource) = parts[1].split_once('/').unwrap();
        let empty = |text: &'static str| text;
        let attributes = Attributes {
            user: &user,
            verb: parts[0],
            is_resource,
            path: if is_resource { empty("") } else { parts[1] },
            group: group.trim_matches('-'),
            version: "v1",
            namespace: parts.get(2).map_or("", |namespace| namespace.trim_matches('-')),
            resource,
            subresource: "",
            name: "",
            selectors: &NO_SELECTORS,
        };
        let pending = abac.authorize(&attributes);
        let opinion = futures_util::FutureExt::now_or_never(pending).unwrap();
        opinion.decision == Decision::Allow
    }

    const V1BETA1: &str =
        r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":"#;

    #[test]
    fn a_policy_allows_what_it_says() {
        let all = "jane,system:authenticated";
        for (spec, user, what, allowed) in [
            (r#"{"user":"jane"}"#, all, "get -/pods a", false),
            (
                r#"{"user":"jane","namespace":"*","resource":"*","apiGroup":"*"}"#,
                all,
                "create apps/x a",
                true,
            ),
            (
                r#"{"user":"joe","namespace":"*","resource":"*","apiGroup":"*"}"#,
                all,
                "get -/pods a",
                false,
            ),
            (r#"{"user":"jane","namespace":"a","resource":"pods"}"#, all, "create -/pods a", true),
            (r#"{"user":"jane","namespace":"a","resource":"pods"}"#, all, "create -/pods b", false),
            (
                r#"{"user":"jane","namespace":"a","resource":"pods"}"#,
                all,
                "create apps/pods a",
                false,
            ),
            (r#"{"user":"jane","namespace":"a","resource":"pods"}"#, all, "get /api", false),
            (
                r#"{"user":"jane","readonly":true,"namespace":"*","resource":"*","apiGroup":"*"}"#,
                all,
                "watch -/pods -",
                true,
            ),
            (
                r#"{"user":"jane","readonly":true,"namespace":"*","resource":"*","apiGroup":"*"}"#,
                all,
                "delete -/pods -",
                false,
            ),
            (r#"{"group":"dev","nonResourcePath":"/x*"}"#, "a,dev", "get /xyz", true),
            (r#"{"group":"dev","nonResourcePath":"/x*"}"#, "a,ops", "get /xyz", false),
            (r#"{"user":"b","group":"dev","nonResourcePath":"*"}"#, "a,dev", "get /xyz", false),
            (r#"{"user":"*","nonResourcePath":"*"}"#, all, "post /xyz", true),
            (r#"{"user":"*","nonResourcePath":"*"}"#, "system:anonymous", "get /xyz", false),
            (r#"{"nonResourcePath":"*"}"#, all, "get /xyz", false),
        ] {
            let abac = load(&format!("# comment\n\n{V1BETA1}{spec}}}\r\n")).unwrap();
            assert_eq!(decide(&abac, user, what), allowed, "{spec} {user} {what}");
        }
    }

    #[test]
    fn what_an_unversioned_policy_leaves_out_is_all() {
        for (policy, user, what, allowed) in [
            (r#"{"user":"jane"}"#, "jane", "create apps/x a", true),
            (r#"{"user":"jane"}"#, "jane", "post /x", true),
            (r#"{"user":"jane","resource":"pods"}"#, "jane", "get /x", false),
            (r#"{"user":"jane","resource":"pods"}"#, "jane", "get -/pods -", true),
            (r#"{"readonly":true}"#, "a,system:authenticated", "get -/pods b", true),
            (r#"{"readonly":true}"#, "a,system:authenticated", "update -/pods b", false),
            (r#"{"readonly":true}"#, "a", "get -/pods b", false),
            (r#"{"user":"*"}"#, "a", "get -/pods b", false),
        ] {
            assert_eq!(decide(&load(policy).unwrap(), user, what), allowed, "{policy} {what}");
        }
    }

    #[test]
    fn a_broken_line_is_an_error() {
        for (text, expected) in [
            (
                "\n{\"user\":1}",
                "error reading policy file FILE, line 2: {\"user\":1}: user must be a string",
            ),
            (
                r#"{"apiVersion":"v2","kind":"Policy"}"#,
                r#"error reading policy file FILE, line 1: {"apiVersion":"v2","kind":"Policy"}: no kind "Policy" is registered for version "v2""#,
            ),
        ] {
            assert_eq!(load(text).unwrap_err(), expected);
        }
        for text in ["x", "[]", "{", r#"{"readonly":"yes"}"#, &format!("#{}", "x".repeat(MAX_LINE))]
        {
            assert!(load(text).is_err(), "{text:.20}");
        }
    }
}
