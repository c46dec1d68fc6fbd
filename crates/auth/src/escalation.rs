//! Escalation check of roles and bindings: a user may grant only permissions that the user holds. The verbs `escalate` on a
//! role and `bind` on the role of a binding allow more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin};
use kevel_registry::selectors::NO_SELECTORS;
use kevel_registry::user::{PRIVILEGED, User};
use kevel_server::authorization::{self, Authorizer, Decision};

use crate::GROUP;
use crate::rbac::{Rbac, RoleRef, aggregate};
use crate::rule::{self, MAX_PERMISSIONS, PolicyRule, TooMany, quoted};

/// The check, as an admission plug-in that stands behind those that change objects.
pub struct Escalation {
    rbac: Arc<Rbac>,
    authorizer: Arc<dyn Authorizer>,
}

impl std::fmt::Debug for Escalation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Escalation")
    }
}

impl Escalation {
    /// Creates the plug-in. `rbac` has the rules of writers; `authorizer`, the server's whole one, decides on the verbs
    /// `escalate` and `bind`.
    pub fn new(rbac: Arc<Rbac>, authorizer: Arc<dyn Authorizer>) -> Self {
        Escalation { rbac, authorizer }
    }

    async fn check(&self, write: &Attributes<'_>, object: &Value) -> Result<(), StatusError> {
        let known = write.resource.kind.group == GROUP && write.subresource.is_empty();
        let writes = matches!(write.operation, Operation::Create | Operation::Update);
        // The server itself is one of the privileged, and they can do anything anyway.
        if !known || !writes || write.user.groups.iter().any(|group| group == PRIVILEGED) {
            return Ok(());
        }
        match write.resource.plural.as_str() {
            "roles" | "clusterroles" => self.check_role(write, object).await,
            "rolebindings" | "clusterrolebindings" => self.check_binding(write, object).await,
            _ => Ok(()),
        }
    }

    async fn check_role(&self, write: &Attributes<'_>, role: &Value) -> Result<(), StatusError> {
        // A role that is yet to be made has no name in the request.
        let name = if write.operation == Operation::Create { "" } else { write.name };
        let resource = write.resource.plural.as_str();
        if self.may(write, "escalate", GROUP, resource, name).await || write.only_collected(role) {
            return Ok(());
        }
        self.refresh().await?;
        self.confirm(write, &rule::rules(role)).map_err(|error| forbidden(write, role, error))?;
        let aggregates = |role: &Value| {
            let selectors = role.at(&["aggregationRule", "clusterRoleSelectors"]);
            selectors.is_some_and(|selectors| !selectors.is_empty())
        };
        // What a role gathers can be anything, and taking that from it can hide anything.
        if (aggregates(role) || write.old.is_some_and(aggregates))
            && self.confirm(write, &everything()).is_err()
        {
            let error = "must have cluster-admin privileges to use the aggregationRule";
            return Err(forbidden(write, role, error));
        }
        Ok(())
    }

    async fn check_binding(
        &self,
        write: &Attributes<'_>,
        binding: &Value,
    ) -> Result<(), StatusError> {
        if write.only_collected(binding) {
            return Ok(());
        }
        let role = RoleRef::of(binding);
        let Some(resource) = role.resource() else { return Err(not_found(&role)) };
        let group = binding.str_at(&["roleRef", "apiGroup"]);
        if self.may(write, "bind", group, resource, &role.name).await {
            return Ok(());
        }
        self.refresh().await?;
        let bound = self.rbac.role(&role, write.namespace).ok_or_else(|| not_found(&role))?;
        self.confirm(write, &bound.rules).map_err(|error| forbidden(write, binding, error))
    }

    /// Whether the writer may do something that is not a request of its own.
    async fn may(
        &self,
        write: &Attributes<'_>,
        verb: &str,
        group: &str,
        resource: &str,
        name: &str,
    ) -> bool {
        let asked = authorization::Attributes {
            user: write.user,
            verb,
            is_resource: true,
            path: "",
            group,
            version: "*",
            namespace: write.namespace,
            resource,
            subresource: "",
            name,
            selectors: &NO_SELECTORS,
        };
        let opinion = self.authorizer.authorize(&asked).await;
        if let Some(error) = &opinion.error {
            tracing::error!(user = write.user.name, verb, resource, name, error, "not authorized");
        }
        opinion.decision == Decision::Allow
    }

    /// A role that was made before this request began counts, however short before.
    async fn refresh(&self) -> Result<(), StatusError> {
        self.rbac.refresh().await.map_err(StatusError::internal)
    }

    /// Checks that the writer holds some rules; the error is the message of the refusal.
    fn confirm(&self, write: &Attributes<'_>, wanted: &[PolicyRule]) -> Result<(), String> {
        let held = self.rbac.rules_of(write.user, write.namespace);
        let missing = match held.uncovered(wanted) {
            Ok(missing) if missing.is_empty() => return Ok(()),
            Ok(missing) => describe(&missing),
            Err(TooMany) => format!("more than {MAX_PERMISSIONS} permissions"),
        };
        let User { name, groups, .. } = write.user;
        let mut message = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n\
             {missing}",
            quote(name),
            quoted(groups),
        );
        if let Some(error) = aggregate(held.missing().map(|role| not_found(role).to_string())) {
            message.push_str(&format!("; resolution errors: [{error}]"));
        }
        Err(message)
    }
}

impl Plugin for Escalation {
    fn name(&self) -> &'static str {
        "RBACEscalation"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        Box::pin(async move {
            match object {
                Some(object) => self.check(attributes, object).await,
                None => Ok(()),
            }
        })
    }
}

fn forbidden(write: &Attributes<'_>, object: &Value, error: impl std::fmt::Display) -> StatusError {
    let name = object.str_at(&["metadata", "name"]);
    StatusError::forbidden(&write.resource.group_resource(), name, error)
}

/// Error of a binding whose role does not exist.
fn not_found(role: &RoleRef) -> StatusError {
    match role.resource() {
        Some(resource) => StatusError::not_found(&GroupResource::new(GROUP, resource), &role.name),
        None => StatusError::unknown(500, role),
    }
}

/// Rules that allow everything: an aggregationRule can gather any rule.
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    let on_resources =
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
    let on_paths = PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() };
    [on_resources, on_paths]
}

/// Missing permissions, a line for each: those on one resource together.
fn describe(missing: &[PolicyRule]) -> String {
    let mut lines = BTreeSet::new();
    let mut by_resource: BTreeMap<_, PolicyRule> = BTreeMap::new();
    // The permissions of a rule on one resource follow each other.
    for same in missing.chunk_by(is_on_same) {
        let Some(first) = same.first() else { continue };
        if !first.non_resource_urls.is_empty() {
            lines.extend(same.iter().map(PolicyRule::to_string));
            continue;
        }
        let PolicyRule { api_groups, resources, resource_names, .. } = first;
        let resource = (api_groups, resources, resource_names);
        let verbs = same.iter().flat_map(|permission| permission.verbs.iter().cloned());
        let unsaid = || PolicyRule { verbs: Vec::new(), ..first.clone() };
        by_resource.entry(resource).or_insert_with(unsaid).verbs.extend(verbs);
    }
    lines.extend(by_resource.values().map(PolicyRule::to_string));
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

fn is_on_same(one: &PolicyRule, other: &PolicyRule) -> bool {
    one.api_groups == other.api_groups
        && one.resources == other.resources
        && one.resource_names == other.resource_names
        && one.non_resource_urls.is_empty() == other.non_resource_urls.is_empty()
}
