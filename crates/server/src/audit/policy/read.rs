//! Parsing of a policy file.

use kevel_api::field_error::{BadValue, FieldError, Path, aggregate};
use kevel_api::name::name_is_dns_subdomain;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, strict_message};
use kevel_codec::yaml;

use super::{GroupResources, Policy, Rule};
use crate::audit::event::Stage;
use kevel_registry::audit::Level;

const API_VERSION: &str = "audit.k8s.io/v1";

/// Known fields of each type; others are warned about.
const POLICY: &[&str] =
    &["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];
const RULE: &[&str] = &[
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
];
const GROUP_RESOURCES: &[&str] = &["group", "resources", "resourceNames"];

/// Parses a policy, then validates it.
pub(super) fn policy(text: &[u8]) -> Result<Policy, String> {
    let undecoded = |error: String| format!("failed decoding: {error}");
    let decoded = yaml::decode_any(text, Unknown::Report);
    let decoded = decoded.map_err(|error| undecoded(error.to_string()))?;
    check_kind(&decoded.value).map_err(undecoded)?;
    let mut reader = Reader { unknown: decoded.strict, errors: Vec::new() };
    let policy = reader.policy(&decoded.value).map_err(undecoded)?;
    if !reader.unknown.is_empty() {
        let problems = strict_message(&reader.unknown);
        tracing::warn!(
            "Audit policy contains errors, falling back to lenient decoding: {problems}"
        );
    }
    if let Some(errors) = aggregate(&reader.errors) {
        return Err(errors);
    }
    if policy.rules.is_empty() {
        return Err("loaded illegal policy with 0 rules".to_owned());
    }
    Ok(policy)
}

fn check_kind(value: &Value) -> Result<(), String> {
    match (value.str_at(&["apiVersion"]), value.str_at(&["kind"])) {
        (API_VERSION, "Policy") => Ok(()),
        (_, "") => Err("Object 'Kind' is missing".to_owned()),
        ("", _) => Err("Object 'apiVersion' is missing".to_owned()),
        (version, kind) => Err(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
             \"k8s.io/apiserver/pkg/audit/scheme.go:30\""
        )),
    }
}

/// Collects unknown fields, which are allowed, and errors.
struct Reader {
    unknown: Vec<String>,
    errors: Vec<FieldError>,
}

impl Reader {
    fn policy(&mut self, value: &Value) -> Result<Policy, String> {
        let map = self.fields(value, &Path::NONE, POLICY)?;
        let omit_stages = self.stages(map, &Path::NONE)?;
        let path = Path::new("rules");
        let mut rules = Vec::new();
        for (index, rule) in list(map, "rules", &path)?.iter().enumerate() {
            rules.push(self.rule(rule, &path.index(index))?);
        }
        let omit_managed_fields =
            boolean(map, "omitManagedFields", &Path::NONE)?.unwrap_or_default();
        Ok(Policy { rules, omit_stages, omit_managed_fields })
    }

    fn rule(&mut self, value: &Value, path: &Path<'_>) -> Result<Rule, String> {
        let map = self.fields(value, path, RULE)?;
        let level = self.level(map, path)?;
        let non_resource_urls = strings(map, "nonResourceURLs", path)?;
        self.check_urls(&non_resource_urls, &path.child("nonResourceURLs"));
        let resources_path = path.child("resources");
        let mut resources = Vec::new();
        for (index, value) in list(map, "resources", &resources_path)?.iter().enumerate() {
            let map = self.fields(value, &resources_path.index(index), GROUP_RESOURCES)?;
            let resource = GroupResources {
                group: text(map, "group", path)?,
                resources: strings(map, "resources", &resources_path)?,
                resource_names: strings(map, "resourceNames", &resources_path)?,
            };
            self.check_resource(&resource, &resources_path);
            resources.push(resource);
        }
        let omit_stages = self.stages(map, path)?;
        let namespaces = strings(map, "namespaces", path)?;
        if !non_resource_urls.is_empty() && (!resources.is_empty() || !namespaces.is_empty()) {
            self.errors.push(FieldError::invalid(
                &path.child("nonResourceURLs"),
                BadValue::strings(&non_resource_urls),
                "rules cannot apply to both regular resources and non-resource URLs",
            ));
        }
        Ok(Rule {
            level,
            users: strings(map, "users", path)?,
            user_groups: strings(map, "userGroups", path)?,
            verbs: strings(map, "verbs", path)?,
            resources,
            namespaces,
            non_resource_urls,
            omit_stages,
            omit_managed_fields: boolean(map, "omitManagedFields", path)?,
        })
    }

    /// The map of an object; its unknown fields are recorded.
    fn fields<'v>(
        &mut self,
        value: &'v Value,
        path: &Path<'_>,
        known: &[&str],
    ) -> Result<&'v Map, String> {
        let map = value.as_map().ok_or_else(|| mistyped(path, "an object"))?;
        for (name, _) in map.iter().filter(|(name, _)| !known.contains(name)) {
            self.unknown.push(format!("unknown field \"{}\"", path.child(name)));
        }
        Ok(map)
    }

    fn level(&mut self, map: &Map, path: &Path<'_>) -> Result<Level, String> {
        let name = text(map, "level", path)?;
        let found = Level::ALL.into_iter().find(|level| level.name() == name);
        let path = path.child("level");
        match found {
            Some(_) => {}
            None if name.is_empty() => self.errors.push(FieldError::required(&path, "")),
            None => {
                let levels = Level::ALL.map(Level::name);
                let name = BadValue::named_string(&name);
                self.errors.push(FieldError::not_supported(&path, name, levels));
            }
        }
        Ok(found.unwrap_or_default())
    }

    fn stages(&mut self, map: &Map, path: &Path<'_>) -> Result<Vec<Stage>, String> {
        let names = strings(map, "omitStages", path)?;
        let path = path.child("omitStages");
        let mut stages = Vec::new();
        for (index, name) in names.iter().enumerate() {
            match Stage::ALL.into_iter().find(|stage| stage.name() == name) {
                Some(stage) => stages.push(stage),
                None => {
                    let all = Stage::ALL.map(Stage::name).join(",");
                    let detail = format!("allowed stages are {all}");
                    let path = path.index(index);
                    self.errors.push(FieldError::invalid(&path, name.as_str(), detail));
                }
            }
        }
        Ok(stages)
    }

    fn check_urls(&mut self, urls: &[String], path: &Path<'_>) {
        for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            let mut wrong = |detail: &'static str| {
                self.errors.push(FieldError::invalid(&path.index(index), url.as_str(), detail));
            };
            if !url.starts_with('/') {
                wrong("non-resource URL rules must begin with a '/' character");
            }
            if url.find('*').is_some_and(|at| at + 1 < url.len()) {
                wrong("non-resource URL wildcards '*' must be the final character of the rule");
            }
        }
    }

    fn check_resource(&mut self, resource: &GroupResources, path: &Path<'_>) {
        let group = &resource.group;
        if !group.is_empty() && group != "*" {
            let problems = name_is_dns_subdomain(group, false);
            if !problems.is_empty() {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                let path = path.child("group");
                self.errors.push(FieldError::invalid(&path, group.as_str(), problems.join(",")));
            }
        }
        if !resource.resource_names.is_empty() && resource.resources.is_empty() {
            self.errors.push(FieldError::invalid(
                &path.child("resourceNames"),
                BadValue::strings(&resource.resource_names),
                "using resourceNames requires at least one resource",
            ));
        }
    }
}

fn mistyped(path: &Path<'_>, expected: &str) -> String {
    match path.to_string().as_str() {
        "" => format!("expected {expected}"),
        path => format!("{path}: expected {expected}"),
    }
}

/// A field that is present and not null.
fn field<'v>(map: &'v Map, name: &str) -> Option<&'v Value> {
    map.get(name).filter(|value| !value.is_null())
}

fn list<'v>(map: &'v Map, name: &str, path: &Path<'_>) -> Result<&'v [Value], String> {
    match field(map, name) {
        None => Ok(&[]),
        Some(value) => value.as_list().ok_or_else(|| mistyped(path, "a list")),
    }
}

fn text(map: &Map, name: &str, path: &Path<'_>) -> Result<String, String> {
    match field(map, name) {
        None => Ok(String::new()),
        Some(value) => {
            let text = value.as_str().map(str::to_owned);
            text.ok_or_else(|| mistyped(&path.child(name), "a string"))
        }
    }
}

fn boolean(map: &Map, name: &str, path: &Path<'_>) -> Result<Option<bool>, String> {
    let value = field(map, name);
    let wrong = || mistyped(&path.child(name), "true or false");
    value.map(|value| value.as_bool().ok_or_else(wrong)).transpose()
}

fn strings(map: &Map, name: &str, path: &Path<'_>) -> Result<Vec<String>, String> {
    let path = path.child(name);
    let items = list(map, name, &path)?.iter().enumerate();
    let item = |(index, value): (usize, &Value)| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| mistyped(&path.index(index), "a string"))
    };
    items.map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_policy_is_refused_in_the_reference_s_words() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        let rule = |rule: &str| format!("{head}rules: [{{{rule}}}]");
        for (text, expected) in [
            (String::new(), "failed decoding: Object 'Kind' is missing"),
            ("kind: Policy".into(), "failed decoding: Object 'apiVersion' is missing"),
            (
                "{apiVersion: audit.k8s.io/v1beta1, kind: Policy}".into(),
                "failed decoding: no kind \"Policy\" is registered for version \
                 \"audit.k8s.io/v1beta1\" in scheme \"k8s.io/apiserver/pkg/audit/scheme.go:30\"",
            ),
            (head.into(), "loaded illegal policy with 0 rules"),
            (rule(""), "rules[0].level: Required value"),
            (
                rule("level: FooBar"),
                "rules[0].level: Unsupported value: \"FooBar\": supported values: \"None\", \
                 \"Metadata\", \"Request\", \"RequestResponse\"",
            ),
            (
                rule("level: None, nonResourceURLs: [logs, '/a*b', '/ok*']"),
                "[rules[0].nonResourceURLs[0]: Invalid value: \"logs\": non-resource URL rules \
                 must begin with a '/' character, rules[0].nonResourceURLs[1]: Invalid value: \
                 \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule]",
            ),
            (
                rule("level: None, nonResourceURLs: [/a], namespaces: [b]"),
                "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both \
                 regular resources and non-resource URLs",
            ),
            (
                rule("level: None, resources: [{resourceNames: [leader]}]"),
                "rules[0].resources.resourceNames: Invalid value: [\"leader\"]: using \
                 resourceNames requires at least one resource",
            ),
            (
                rule("level: None, omitStages: [foo]"),
                "rules[0].omitStages[0]: Invalid value: \"foo\": allowed stages are \
                 RequestReceived,ResponseStarted,ResponseComplete,Panic",
            ),
            (rule("level: 1"), "failed decoding: rules[0].level: expected a string"),
            (
                rule("level: None, users: [1]"),
                "failed decoding: rules[0].users[0]: expected a string",
            ),
        ] {
            assert_eq!(policy(text.as_bytes()).unwrap_err(), expected, "{text}");
        }
        let version = rule("level: None, resources: [{group: rbac.authorization.k8s.io/v1beta1}]");
        let error = policy(version.as_bytes()).unwrap_err();
        let start =
            "rules[0].resources.group: Invalid value: \"rbac.authorization.k8s.io/v1beta1\"";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn what_is_unknown_is_no_error() {
        let text = "
apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {name: x}
rules: [{level: None, level: Metadata, verb: [get]}]
";
        let policy = policy(text.as_bytes()).unwrap();
        assert_eq!(policy.rules, [Rule { level: Level::Metadata, ..Rule::default() }]);
    }
}
