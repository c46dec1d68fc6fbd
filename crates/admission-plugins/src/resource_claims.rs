//! Authorization of device use: admin access to devices, and changes of a claim's allocation. The reference checks this
//! in the strategies of the kinds; it cannot be switched off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::name;
use kevel_api::status::StatusError;
use kevel_api::value::{Value, equivalent};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Plugin};
use kevel_registry::selectors::NO_SELECTORS;
use kevel_registry::user::User;
use kevel_server::authorization::{self, Authorizer, Decision, forbidden};

use super::Context;
use kevel_controlplane::lister::Lister;
use kevel_features::Feature;

const GROUP: &str = "resource.k8s.io";
/// The label of namespaces whose claims may have access to devices that are in use.
const ADMIN_ACCESS: &str = "resource.kubernetes.io/admin-access";
/// Extra of a user with the node on which a token is used.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Authorizes writes of ResourceClaims that need more permissions than the write itself.
pub struct ResourceClaims {
    authorizer: Arc<dyn Authorizer>,
    namespaces: Lister,
    /// `DRAResourceClaimGranularStatusAuthorization`
    granular: bool,
}

impl ResourceClaims {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(ResourceClaims {
            authorizer: context.authorizer.clone(),
            namespaces: context.lister("", "namespaces")?,
            granular: (context.feature)(Feature::DRAResourceClaimGranularStatusAuthorization),
        })
    }

    async fn new_claim(&self, attributes: &Attributes<'_>, spec: Option<&Value>) -> Errors {
        let requests = spec.map_or(&[][..], |spec| spec.list_at(&["devices", "requests"]));
        let mut asked = requests.iter().map(|request| {
            let exactly = request.at(&["exactly", "adminAccess"]);
            exactly.or_else(|| request.at(&["adminAccess"])).and_then(Value::as_bool)
        });
        let Some(index) = asked.position(|asked| asked == Some(true)) else {
            return Ok(Vec::new());
        };
        let root = Path::new("spec");
        let place = root.child("devices.requests");
        let place = place.index(index);
        self.admin_access(attributes, &place.child("adminAccess")).await
    }

    async fn status(&self, attributes: &Attributes<'_>, claim: &Value, old: &Value) -> Errors {
        let (status, before) = (claim.at(&["status"]), old.at(&["status"]));
        let mut errors = Vec::new();
        if admin_result(before).is_none()
            && let Some(index) = admin_result(status)
        {
            let root = Path::new("status");
            let place = root.child("allocation.devices.results");
            let place = place.index(index);
            errors.extend(self.admin_access(attributes, &place.child("adminAccess")).await?);
        }
        if self.granular {
            errors.extend(self.binding(attributes, status, before).await);
            errors.extend(self.devices(attributes, status, before).await);
        }
        Ok(errors)
    }

    /// Devices that are in use are for namespaces that an administrator has marked.
    async fn admin_access(&self, attributes: &Attributes<'_>, place: &Path<'_>) -> Errors {
        let namespace = self.namespaces.object("", attributes.namespace).await?;
        if namespace.is_some_and(|namespace| namespace.label(ADMIN_ACCESS) == Some("true")) {
            return Ok(Vec::new());
        }
        let why = format!(
            "admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing \
             namespace"
        );
        Ok(vec![FieldError::forbidden(place, why)])
    }

    /// Authorizes changes of allocation and reservations (schedulers).
    async fn binding(
        &self,
        attributes: &Attributes<'_>,
        status: Option<&Value>,
        before: Option<&Value>,
    ) -> Option<FieldError> {
        let same = |field: &str| {
            let part = |status: Option<&Value>| status.and_then(|s| s.at(&[field])).cloned();
            equivalent(part(status).as_ref(), part(before).as_ref())
        };
        if same("allocation") && same("reservedFor") {
            return None;
        }
        let verb = attributes.verb.as_str();
        let refused = self.refused(attributes, verb, "binding", "", "").await?;
        let root = Path::new("status");
        Some(FieldError::forbidden(
            &root.child("allocation"),
            format!(
                "changing status.allocation or status.reservedFor requires \
                 resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {refused}"
            ),
        ))
    }

    /// Authorizes changes of device status (drivers, on their node).
    async fn devices(
        &self,
        attributes: &Attributes<'_>,
        status: Option<&Value>,
        before: Option<&Value>,
    ) -> Vec<FieldError> {
        let allocation = status.and_then(|status| status.at(&["allocation"]));
        let Some(allocation) = allocation else { return Vec::new() };
        let node = allocated_node(allocation);
        let there = node.is_some_and(|node| is_on_node(attributes.user, node));
        let prefixes: &[&str] =
            if there { &["associated-node:", "arbitrary-node:"] } else { &["arbitrary-node:"] };
        let verbs: Vec<String> =
            prefixes.iter().map(|prefix| format!("{prefix}{}", attributes.verb)).collect();
        let mut errors = Vec::new();
        for driver in changed_drivers(status, before) {
            let mut refusal = None;
            for verb in &verbs {
                let namespace = attributes.namespace;
                match self.refused(attributes, verb, "driver", namespace, driver).await {
                    Some(refused) => refusal = refusal.or(Some(refused)),
                    None => {
                        refusal = None;
                        break;
                    }
                }
            }
            let root = Path::new("status");
            errors.extend(refusal.map(|refused| {
                FieldError::forbidden(
                    &root.child("devices"),
                    format!(
                        "changing status.devices requires resource=\"resourceclaims/driver\", \
                         verb=\"[{}]\" permission: {refused}",
                        verbs.join(" ")
                    ),
                )
            }));
        }
        errors
    }

    /// Reason for a forbidden operation on a claim, with the authorizer's answer.
    async fn refused(
        &self,
        attributes: &Attributes<'_>,
        verb: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<StatusError> {
        let asked = authorization::Attributes {
            user: attributes.user,
            verb,
            is_resource: true,
            path: "",
            group: GROUP,
            version: &attributes.resource.kind.version,
            namespace,
            resource: "resourceclaims",
            subresource,
            name,
            selectors: &NO_SELECTORS,
        };
        let opinion = self.authorizer.authorize(&asked).await;
        if opinion.decision == Decision::Allow {
            return None;
        }
        let why = match (opinion.error, opinion.reason) {
            (Some(error), reason) if reason.is_empty() => error,
            (Some(error), reason) => format!("{error}: {reason}"),
            (None, reason) => reason,
        };
        Some(forbidden(&asked, &why))
    }
}

/// Field errors of a claim, or the authorizer's error.
type Errors = Result<Vec<FieldError>, StatusError>;

impl Plugin for ResourceClaims {
    fn name(&self) -> &'static str {
        "ResourceClaims"
    }

    fn has_rules(&self) -> bool {
        true
    }

    fn check_new<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Pending<'a, Errors> {
        let places =
            [("resourceclaims", &["spec"][..]), ("resourceclaimtemplates", &["spec", "spec"])];
        let place = places.into_iter().find(|(resource, _)| attributes.is(GROUP, resource));
        let Some((_, path)) = place else {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        };
        Box::pin(self.new_claim(attributes, object.at(path)))
    }

    fn check_update<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Pending<'a, Errors> {
        let status =
            attributes.subresource == "status" && attributes.concerns(GROUP, "resourceclaims");
        match attributes.old.filter(|_| status) {
            Some(old) => Box::pin(self.status(attributes, object, old)),
            None => Box::pin(std::future::ready(Ok(Vec::new()))),
        }
    }
}

/// The first device that was given although it is in use.
fn admin_result(status: Option<&Value>) -> Option<usize> {
    let results = status?.list_at(&["allocation", "devices", "results"]);
    results.iter().position(|r| r.at(&["adminAccess"]).and_then(Value::as_bool) == Some(true))
}

/// The drivers whose entries were added, changed or removed, sorted.
fn changed_drivers<'v>(status: Option<&'v Value>, before: Option<&'v Value>) -> BTreeSet<&'v str> {
    let devices = |status: Option<&'v Value>| {
        let list = status.map_or(&[][..], |status| status.list_at(&["devices"]));
        let key = |device: &'v Value| {
            ["driver", "pool", "device", "shareID"].map(|field| device.str_at(&[field]))
        };
        list.iter().map(|device| (key(device), device)).collect::<BTreeMap<_, _>>()
    };
    let (now, before) = (devices(status), devices(before));
    let written =
        now.iter().filter(|(key, device)| !equivalent(Some(device), before.get(*key).copied()));
    let removed = before.keys().filter(|key| !now.contains_key(*key));
    written.map(|(key, _)| key).chain(removed).map(|[driver, ..]| *driver).collect()
}

/// The one node that a claim's devices are on.
fn allocated_node(allocation: &Value) -> Option<&str> {
    let [term] = allocation.list_at(&["nodeSelector", "nodeSelectorTerms"]) else { return None };
    let [field] = term.list_at(&["matchFields"]) else { return None };
    let [node] = field.list_at(&["values"]) else { return None };
    let named = field.str_at(&["key"]) == "metadata.name" && field.str_at(&["operator"]) == "In";
    node.as_str().filter(|_| named && term.list_at(&["matchExpressions"]).is_empty())
}

/// Whether a service account's token is used on this node.
fn is_on_node(user: &User, node: &str) -> bool {
    let account = user.name.strip_prefix("system:serviceaccount:");
    let named = account.and_then(|account| account.split_once(':'));
    let account = named.is_some_and(|(namespace, name)| {
        name::name_is_dns_label(namespace, false).is_empty()
            && name::name_is_dns_subdomain(name, false).is_empty()
    });
    let mut names = user.extra.iter().filter(|(key, _)| key == NODE_NAME);
    let on = names.next().is_some_and(|(_, names)| names.len() == 1 && names[0] == node);
    account && on && name::name_is_dns_subdomain(node, false).is_empty()
}
