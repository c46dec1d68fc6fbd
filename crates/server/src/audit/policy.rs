//! Audit policy: the level of each request.

mod read;

use std::path::Path;

use super::event::Stage;
use crate::request_info::RequestInfo;
use kevel_registry::audit::Level;
use kevel_registry::user::User;

/// A `Policy` of `audit.k8s.io/v1`: the first rule that matches a request decides.
///
/// ```
/// use kevel_server::audit::Policy;
/// let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]";
/// assert!(Policy::parse(policy.as_bytes()).is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

/// Result of the policy for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'p> {
    /// Audit level.
    pub level: Level,
    /// Whether objects are recorded without `metadata.managedFields`.
    pub omit_managed_fields: bool,
    /// Omitted stages: the policy's and the rule's.
    omit_stages: [&'p [Stage]; 2],
}

impl Verdict<'_> {
    /// Omitted stages.
    pub fn omitted(&self) -> impl Iterator<Item = Stage> {
        self.omit_stages.into_iter().flatten().copied()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    level: Level,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    non_resource_urls: Vec<String>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

impl Policy {
    /// Loads a policy file; the errors are the reference's.
    pub fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read(path)
            .map_err(|error| format!("failed to read file path \"{shown}\": {error}"))?;
        Policy::parse(&text).map_err(|error| format!("{error}: from file {shown}"))
    }

    /// Parses a policy. Unknown fields are logged as warnings.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        read::policy(text)
    }

    /// Evaluates the policy for a request.
    pub fn evaluate(&self, info: &RequestInfo, user: Option<&User>) -> Verdict<'_> {
        let rule = self.rules.iter().find(|rule| rule.matches(info, user));
        Verdict {
            level: rule.map_or(Level::None, |rule| rule.level),
            omit_managed_fields: rule
                .and_then(|rule| rule.omit_managed_fields)
                .unwrap_or(self.omit_managed_fields),
            omit_stages: [&self.omit_stages, rule.map_or(&[], |rule| &rule.omit_stages)],
        }
    }
}

impl Rule {
    fn matches(&self, info: &RequestInfo, user: Option<&User>) -> bool {
        let any = |wanted: &[String], found: &str| wanted.iter().any(|wanted| wanted == found);
        let is = |wanted: &[String], found: &str| wanted.is_empty() || any(wanted, found);
        let in_group = |user: &User| user.groups.iter().any(|group| any(&self.user_groups, group));
        if !self.users.is_empty() && !user.is_some_and(|user| any(&self.users, &user.name))
            || !self.user_groups.is_empty() && !user.is_some_and(in_group)
            || !is(&self.verbs, info.verb.as_str())
        {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            let resource = || self.resources.iter().any(|resource| resource.matches(info));
            return info.is_resource
                && is(&self.namespaces, &info.namespace)
                && (self.resources.is_empty() || resource());
        }
        if !self.non_resource_urls.is_empty() {
            let urls = &self.non_resource_urls;
            return !info.is_resource && urls.iter().any(|url| path_matches(url, &info.path));
        }
        true
    }
}

impl GroupResources {
    fn matches(&self, info: &RequestInfo) -> bool {
        let (resource, subresource) = (info.resource.as_str(), info.subresource.as_str());
        let named = self.resource_names.is_empty() || self.resource_names.contains(&info.name);
        let matches = |wanted: &String| match wanted.split_once('/') {
            // Everything, including all subresources.
            _ if wanted == "*" => true,
            None => subresource.is_empty() && wanted == resource,
            Some(("*", wanted)) if !subresource.is_empty() && wanted == subresource => true,
            Some((wanted, "*")) => wanted == resource,
            Some((wanted, sub)) => {
                !subresource.is_empty() && wanted == resource && sub == subresource
            }
        };
        (self.group == info.group || self.group == "*")
            && (self.resources.is_empty() || named && self.resources.iter().any(matches))
    }
}

fn path_matches(wanted: &str, path: &str) -> bool {
    wanted == "*"
        || wanted == path
        || wanted.ends_with('*') && path.starts_with(wanted.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rules: &str) -> Policy {
        let text = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{rules}]}}");
        Policy::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let namespaced = "GET /api/v1/namespaces/default/pods/busybox";
        let cluster = "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/edit";
        let plain = "GET /logs/a";
        let subresource = "GET /api/v1/namespaces/default/pods/busybox/log";
        for (rule, asked, expected) in [
            ("level: Metadata", namespaced, true),
            ("level: Metadata", plain, true),
            ("users: [tim]", namespaced, true),
            ("users: [sally]", namespaced, false),
            ("userGroups: [humans, sally]", namespaced, true),
            ("userGroups: [sally]", namespaced, false),
            ("verbs: [get]", plain, true),
            ("verbs: [list, watch]", namespaced, false),
            ("namespaces: [default]", namespaced, true),
            ("namespaces: [default]", cluster, false),
            ("namespaces: ['']", cluster, true),
            ("namespaces: ['']", plain, false),
            ("resources: [{resources: [pods]}]", namespaced, true),
            ("resources: [{resources: [pods]}]", subresource, false),
            ("resources: [{resources: [pods/log]}]", subresource, true),
            ("resources: [{resources: [pods/log]}]", namespaced, false),
            ("resources: [{resources: [pods/*]}]", subresource, true),
            ("resources: [{resources: [pods/*]}]", namespaced, true),
            ("resources: [{resources: ['*/log']}]", subresource, true),
            ("resources: [{resources: ['*/log']}]", namespaced, false),
            ("resources: [{resources: ['*/status']}]", subresource, false),
            ("resources: [{resources: ['*']}]", subresource, true),
            ("resources: [{group: apps}]", namespaced, false),
            ("resources: [{group: ''}]", subresource, true),
            ("resources: [{group: '*', resources: [clusterroles]}]", cluster, true),
            ("resources: [{group: rbac.authorization.k8s.io}]", cluster, true),
            ("resources: [{resources: [pods], resourceNames: [busybox]}]", namespaced, true),
            ("resources: [{resources: [pods], resourceNames: [other]}]", namespaced, false),
            ("resources: [{resources: [pods/log], resourceNames: [busybox]}]", subresource, true),
            ("resources: [{group: ''}]", plain, false),
            ("nonResourceURLs: ['/logs*']", plain, true),
            ("nonResourceURLs: ['/logs/a']", plain, true),
            ("nonResourceURLs: [/logs]", plain, false),
            ("nonResourceURLs: ['*']", plain, true),
            ("nonResourceURLs: ['*']", namespaced, false),
            ("nonResourceURLs: [/healthz, '/logs/*'], users: [tim]", plain, true),
            ("nonResourceURLs: ['/logs/*'], users: [sally]", plain, false),
        ] {
            let policy = match rule.contains("level") {
                true => parse(&format!("{{{rule}}}")),
                false => parse(&format!("{{level: Metadata, {rule}}}")),
            };
            let (method, uri) = asked.split_once(' ').unwrap();
            let info = RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap()).unwrap();
            let tim = User {
                name: "tim".into(),
                groups: vec!["system:authenticated".into(), "humans".into()],
                ..User::default()
            };
            let level = if expected { Level::Metadata } else { Level::None };
            assert_eq!(policy.evaluate(&info, Some(&tim)).level, level, "{rule} {asked}");
            let anybody = !rule.contains("user");
            assert_eq!(policy.evaluate(&info, None).level == level, anybody || !expected, "{rule}");
        }
        let policy = parse("{level: None, verbs: [watch]}, {level: Request}, {level: Metadata}");
        for (uri, expected) in [
            ("/api/v1/pods", Level::Request),
            ("/api/v1/pods?watch=1", Level::None),
            ("/version", Level::Request),
        ] {
            let info = RequestInfo::new(&http::Method::GET, &uri.parse().unwrap()).unwrap();
            assert_eq!(policy.evaluate(&info, None).level, expected, "{uri}");
        }
    }

    #[test]
    fn omitted_stages_are_those_of_policy_and_rule() {
        let policy = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Metadata, verbs: [get], omitStages: [Panic], omitManagedFields: false}
- {level: Request}
";
        let policy = Policy::parse(policy.as_bytes()).unwrap();
        let verdict = |method: http::Method| {
            let info = RequestInfo::new(&method, &"/a".parse().unwrap()).unwrap();
            let verdict = policy.evaluate(&info, None);
            (verdict.omitted().collect::<Vec<_>>(), verdict.omit_managed_fields)
        };
        let get = vec![Stage::RequestReceived, Stage::Panic];
        assert_eq!(verdict(http::Method::GET), (get, false));
        assert_eq!(verdict(http::Method::POST), (vec![Stage::RequestReceived], true));
    }
}
