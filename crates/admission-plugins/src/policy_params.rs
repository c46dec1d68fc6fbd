//! Authorization of policy parameters: the author of a policy or binding must be allowed to read the objects it names
//! in `paramKind` and `paramRef`, because the policy's messages can disclose them. The reference checks this in the
//! kinds' strategies, so this plug-in cannot be disabled.

use std::sync::Arc;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_registry::resource::Resources;
use kevel_registry::selectors::NO_SELECTORS;
use kevel_registry::user::{PRIVILEGED, User};
use kevel_server::authorization::{self, Authorizer, Decision};

use super::Context;
use kevel_controlplane::lister::{Facts, Lister};

const GROUP: &str = "admissionregistration.k8s.io";

/// Resources of policies and of their bindings, with the wording of the reference's messages.
type Policies = (&'static str, &'static str, Words);

const POLICIES: [Policies; 2] = [
    (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        Words { failed: "failed to authorize request: ", user_first: true },
    ),
    (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        Words { failed: "", user_first: false },
    ),
];

/// Differences between the reference's two sets of messages.
#[derive(Clone, Copy)]
struct Words {
    failed: &'static str,
    /// The messages of one set print the user and the verb in swapped places.
    user_first: bool,
}

/// Plug-in that checks whether the author of a policy or binding may read the parameters.
pub struct PolicyParams {
    authorizer: Arc<dyn Authorizer>,
    /// Policies by the rows of [`POLICIES`]; `None` if not served.
    policies: [Option<Lister<PolicyKind>>; 2],
    /// Tables of served resources, to find the resource of a kind.
    tables: Vec<Arc<Resources>>,
}

/// `paramKind` of a policy.
#[derive(Debug)]
struct PolicyKind(Option<Value>);

impl Facts for PolicyKind {
    fn read(policy: &Value) -> Self {
        PolicyKind(policy.at(&["spec", "paramKind"]).cloned())
    }
}

impl PolicyParams {
    pub fn new(context: &Context<'_>) -> Self {
        let lister = |plural: &str| {
            let mut rows = context.rows.all();
            let row = rows.find(|row| row.kind.group == GROUP && row.plural == plural)?;
            row.storage.clone().map(Lister::new)
        };
        PolicyParams {
            authorizer: context.authorizer.clone(),
            policies: POLICIES.map(|(plural, ..)| lister(plural)),
            tables: context.tables.clone(),
        }
    }

    /// Checks a policy: needs `get` on all objects of its `paramKind`.
    async fn policy(&self, attributes: &Attributes<'_>, policy: &Value) -> Option<String> {
        let kind = policy.at(&["spec", "paramKind"])?;
        if attributes.old.and_then(|old| old.at(&["spec", "paramKind"])) == Some(kind) {
            return None;
        }
        let user = attributes.user;
        let params = self.resolve(kind);
        let (allowed, error) = self.may(user, "get", &params, "*", "*").await;
        if error.is_some() || allowed {
            return error;
        }
        let (name, version) = (kind.str_at(&["kind"]), kind.str_at(&["apiVersion"]));
        Some(format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind \
             (kind={name}, apiVersion={version})",
            shown(user)
        ))
    }

    /// Checks a binding: needs `get` on the object that its `paramRef` names, or `list` if it names none.
    async fn binding(
        &self,
        attributes: &Attributes<'_>,
        binding: &Value,
        policies: Option<&Lister<PolicyKind>>,
        words: Words,
    ) -> Result<Option<String>, StatusError> {
        let Some(reference) = binding.at(&["spec", "paramRef"]) else { return Ok(None) };
        let name = binding.str_at(&["spec", "policyName"]);
        let policy = match policies {
            Some(policies) => policies.find("", name).await?,
            None => None,
        };
        let kind = policy.as_ref().and_then(|policy| policy.0.as_ref());
        let params = kind.map_or_else(Params::anything, |kind| self.resolve(kind));
        let object = reference.str_at(&["name"]);
        let verb = if object.is_empty() { "list" } else { "get" };
        let namespace = reference.str_at(&["namespace"]);
        let (allowed, error) = self.may(attributes.user, verb, &params, namespace, object).await;
        if let Some(error) = error {
            return Ok(Some(format!("{}{error}", words.failed)));
        }
        if allowed {
            return Ok(None);
        }
        let user = shown(attributes.user);
        let lacks = format!(
            "to determine minimum required permissions and user {user} does not have \"{verb}\" \
             permission for all groups, versions and resources"
        );
        Ok(Some(match kind {
            _ if policy.is_none() => format!("unable to get policy {name} {lacks}"),
            Some(kind) if params.resource == "*" => {
                let (version, kind) = (kind.str_at(&["apiVersion"]), kind.str_at(&["kind"]));
                format!("unable to resolve paramKind &{{{version} {kind}}} {lacks}")
            }
            _ => {
                let (who, what) = if words.user_first { (&*user, verb) } else { (verb, &*user) };
                format!(
                    "user {who} does not have \"{what}\" permission on the object referenced by \
                     paramRef"
                )
            }
        }))
    }

    /// Resource of a kind; `*` if no table serves it.
    fn resolve(&self, kind: &Value) -> Params {
        let Ok(version) = kind.str_at(&["apiVersion"]).parse::<GroupVersion>() else {
            return Params::anything();
        };
        let kind = version.with_kind(kind.str_at(&["kind"]));
        let resource = self.tables.iter().find_map(|table| plural(table, &kind));
        let resource = resource.unwrap_or_else(|| "*".to_owned());
        Params { group: kind.group.to_string(), version: kind.version.to_string(), resource }
    }

    /// Decision of the authorizer, with its error.
    async fn may(
        &self,
        user: &User,
        verb: &str,
        params: &Params,
        namespace: &str,
        name: &str,
    ) -> (bool, Option<String>) {
        if user.groups.iter().any(|group| group == PRIVILEGED) {
            return (true, None);
        }
        let asked = authorization::Attributes {
            user,
            verb,
            is_resource: true,
            path: "",
            group: &params.group,
            version: &params.version,
            namespace,
            resource: &params.resource,
            subresource: "",
            name,
            selectors: &NO_SELECTORS,
        };
        let opinion = self.authorizer.authorize(&asked).await;
        (opinion.decision == Decision::Allow, opinion.error)
    }
}

/// Group, version and resource of the parameters.
struct Params {
    group: String,
    version: String,
    resource: String,
}

impl Params {
    /// Wildcards, for an invalid `apiVersion`.
    fn anything() -> Self {
        let [group, version, resource] = ["*"; 3].map(str::to_owned);
        Params { group, version, resource }
    }
}

fn plural(table: &Resources, kind: &GroupVersionKind) -> Option<String> {
    let rows = table.current();
    let mut rows = rows.version(&kind.group, &kind.version)?.values();
    rows.find(|row| row.kind == *kind).map(|row| row.plural.clone())
}

/// User as the reference's messages print it.
fn shown(user: &User) -> String {
    let mut extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    extra.sort();
    let (groups, extra) = (user.groups.join(" "), extra.join(" "));
    format!("&{{{} {} [{groups}] map[{extra}]}}", user.name, user.uid)
}

impl Plugin for PolicyParams {
    fn name(&self) -> &'static str {
        "PolicyParams"
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        let ours = written && attributes.resource.kind.group == GROUP;
        let Some(object) = object.filter(|_| ours) else { return ready(Ok(())) };
        let each = POLICIES.iter().zip(&self.policies);
        for ((policies, bindings, words), lister) in each {
            if attributes.is(GROUP, policies) && object.at(&["spec", "paramKind"]).is_some() {
                return Box::pin(async move {
                    let why = self.policy(attributes, object).await;
                    refuse(attributes, object, "paramKind", why)
                });
            }
            if attributes.is(GROUP, bindings) && object.at(&["spec", "paramRef"]).is_some() {
                return Box::pin(async move {
                    let why = self.binding(attributes, object, lister.as_ref(), *words).await?;
                    refuse(attributes, object, "paramRef", why)
                });
            }
        }
        ready(Ok(()))
    }
}

fn refuse(
    attributes: &Attributes<'_>,
    object: &Value,
    field: &'static str,
    why: Option<String>,
) -> Result<(), StatusError> {
    let Some(why) = why else { return Ok(()) };
    let error = FieldError::forbidden(&Path::new("spec").child(field), why);
    let name = object.str_at(&["metadata", "name"]);
    Err(StatusError::invalid(&attributes.resource.group_kind(), name, vec![error]))
}
