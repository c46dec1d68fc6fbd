//! Rules of aggregated ClusterRoles.

use kevel_auth::aggregate_cluster_roles;
use kevel_controller_runtime::Backoff;

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::unavailable::Unavailable;

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let roles = context.storage("rbac.authorization.k8s.io", "clusterroles")?;
    let queue = context.queue("ClusterRoleAggregator", Backoff::default());
    let client = context.client("clusterrole-aggregation-controller");
    Ok(Box::pin(aggregate_cluster_roles(client, roles, queue)))
}
