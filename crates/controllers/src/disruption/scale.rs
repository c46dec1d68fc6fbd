//! Number of pods that the owners of some pods want.

use std::collections::BTreeMap;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_controller_runtime::Client;

use crate::context::ControllerContext;
use crate::discovery::preferred_resources;
use crate::lister::CacheLister;
use crate::object::{controller_of, int_at, name, namespace, uid, unless_gone};
use crate::reconcile_error::ReconcileError;
use crate::unavailable::Unavailable;

/// Owners whose replicas are known without a request.
pub(super) struct Scales {
    client: Client,
    replication_controllers: CacheLister,
    replica_sets: CacheLister,
    deployments: CacheLister,
    stateful_sets: CacheLister,
}

impl Scales {
    pub fn new(context: &ControllerContext, account: &str) -> Result<Self, Unavailable> {
        let lister = |group, plural| context.storage(group, plural).map(CacheLister::new);
        Ok(Scales {
            client: context.client(account),
            replication_controllers: lister("", "replicationcontrollers")?,
            replica_sets: lister("apps", "replicasets")?,
            deployments: lister("apps", "deployments")?,
            stateful_sets: lister("apps", "statefulsets")?,
        })
    }

    /// Sum of the replicas of the pods' owners, and whether some pods have no owner.
    pub async fn expected(&self, pods: &[Value]) -> Result<(i64, bool), ReconcileError> {
        let (mut scales, mut unmanaged) = (BTreeMap::new(), false);
        for pod in pods {
            kevel_compute::charge(1);
            let Some(owner) = controller_of(pod) else {
                unmanaged = true;
                continue;
            };
            if scales.contains_key(owner.str_at(&["uid"])) {
                continue;
            }
            let Some((of, replicas)) = self.of(owner, namespace(pod)).await? else {
                let message = format!("found no controllers for pod {:?}", name(pod));
                return Err(ReconcileError::Objects(message));
            };
            scales.insert(of, replicas);
        }
        Ok((scales.values().sum(), unmanaged))
    }

    /// UID and replicas of an owner: of the Deployment, where it is a Deployment's ReplicaSet.
    async fn of(
        &self,
        owner: &Value,
        space: &str,
    ) -> Result<Option<(String, i64)>, ReconcileError> {
        let replicas =
            |owner: Value| (uid(&owner).to_owned(), int_at(&owner, &["spec", "replicas"]));
        let group = group_of(owner);
        let found = match (owner.str_at(&["kind"]), group) {
            ("ReplicationController", "") => find(&self.replication_controllers, owner, space)?,
            ("StatefulSet", "apps") => find(&self.stateful_sets, owner, space)?,
            ("ReplicaSet", "apps" | "extensions") => {
                match find(&self.replica_sets, owner, space)? {
                    Some(set) => match controller_of(&set) {
                        Some(above) if above.str_at(&["kind"]) == "Deployment" => {
                            if ["apps", "extensions"].contains(&group_of(above)) {
                                find(&self.deployments, above, space)?
                            } else {
                                None
                            }
                        }
                        _ => Some(set),
                    },
                    None => None,
                }
            }
            _ => None,
        };
        match found {
            Some(found) => Ok(Some(replicas(found))),
            None => self.by_subresource(owner, group, space).await,
        }
    }

    async fn by_subresource(
        &self,
        owner: &Value,
        group: &str,
        space: &str,
    ) -> Result<Option<(String, i64)>, ReconcileError> {
        let (kind, api_version) = (owner.str_at(&["kind"]), owner.str_at(&["apiVersion"]));
        let resources = preferred_resources(&self.client).await?.resources;
        let resource = resources.iter().find(|known| known.group == group && known.kind == kind);
        let Some(resource) = resource else {
            let message = format!("no matches for kind {kind:?} in version {api_version:?}");
            return Err(ReconcileError::Objects(message));
        };
        let path = format!("{}/{}/scale", resource.path(space), owner.str_at(&["name"]));
        if let Some(scale) = unless_gone(self.client.get(&path).await)? {
            let known = (uid(&scale) == owner.str_at(&["uid"])).then(|| uid(&scale).to_owned());
            return Ok(known.map(|known| (known, int_at(&scale, &["spec", "replicas"]))));
        }
        let document = match resource.group.as_str() {
            "" => format!("/api/{}", resource.version),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let document = self.client.get(&document).await?;
        let subresource = format!("{}/scale", resource.plural);
        let mut names =
            document.list_at(&["resources"]).iter().map(|known| known.str_at(&["name"]));
        if names.any(|known| known == subresource) {
            return Ok(None);
        }
        let shown = if group.is_empty() { String::new() } else { format!(".{group}") };
        let message =
            format!("{}{shown} does not implement the scale subresource", resource.plural);
        Err(ReconcileError::Objects(message))
    }
}

fn group_of(owner: &Value) -> &str {
    owner.str_at(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group)
}

/// The owner that a reference means: of that name and UID.
fn find(lister: &CacheLister, owner: &Value, space: &str) -> Result<Option<Value>, StatusError> {
    let found = lister.get(space, owner.str_at(&["name"]))?;
    Ok(found.filter(|found| uid(found) == owner.str_at(&["uid"])))
}

/// A number, or a percentage of a total, rounded up (upstream: `GetScaledValueFromIntOrPercent`).
pub(super) fn scaled(value: &Value, total: i64) -> Result<i64, ReconcileError> {
    if let Some(number) = value.as_int() {
        return Ok(number);
    }
    let text = value.as_str().unwrap_or_default();
    let invalid = |why: &str| {
        ReconcileError::Objects(format!("invalid value for IntOrString: invalid type: {why}"))
    };
    let percent = text.strip_suffix('%').ok_or_else(|| invalid("string is not a percentage"))?;
    let percent: i64 = percent.parse().map_err(|_| invalid("string is not a percentage"))?;
    Ok(percent.saturating_mul(total).saturating_add(99).div_euclid(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up() {
        for (value, total, expected) in
            [("50%", 7, Some(4)), ("0%", 7, Some(0)), ("100%", 7, Some(7)), ("half", 7, None)]
        {
            assert_eq!(scaled(&value.into(), total).ok(), expected, "{value}");
        }
        assert_eq!(scaled(&Value::Int(3), 7).ok(), Some(3));
    }
}
