//! Aggregated ClusterRoles, such as `admin`, `edit` and `view`: their rules are the union of the selected roles'
//! rules.
//!
//! In a cluster the controller manager does this; a server that runs alone does it itself.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use kevel_api::selector::label::LabelSelector;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Client, Informer, WorkQueue, run};
use kevel_registry::query::escape_path;
use kevel_registry::storage::Storage;
use kevel_store::cache::At;

use crate::GROUP;
use crate::rule::{self, PolicyRule};

/// Field manager of the rules.
const MANAGER: &str = "clusterrole-aggregation-controller";
/// Single key of the work queue: roles depend on each other, so that all are reconciled together.
const ALL: &str = "clusterroles";

/// Controller that keeps the rules of aggregated ClusterRoles.
pub fn aggregate_cluster_roles(
    client: Client,
    cluster_roles: Arc<Storage>,
    queue: Arc<WorkQueue>,
) -> impl Future<Output = ()> + Send + 'static {
    let heard = queue.clone();
    let informer = Informer::new(cluster_roles.cache.clone()).for_each(move |_| heard.add(ALL));
    let reconcile = move |_| {
        let (client, cluster_roles) = (client.clone(), cluster_roles.clone());
        async move { reconcile(&client, &cluster_roles).await }
    };
    async move {
        tokio::join!(informer, run(queue, MANAGER, 1, reconcile));
    }
}

async fn reconcile(client: &Client, cluster_roles: &Storage) -> Result<(), String> {
    let snapshot = cluster_roles.cache.snapshot(At::Any).await.map_err(|e| e.to_string())?;
    let read = |wire: &[u8]| cluster_roles.read(wire).ok();
    let roles: Vec<Value> =
        snapshot.range("", None).filter_map(|object| read(object.wire().ok()?)).collect();
    for (name, rules) in aggregated(&roles)? {
        let metadata = Map::from_iter([("name", Value::from(name))]);
        let version = format!("{GROUP}/v1");
        let rules = rules.iter().map(PolicyRule::to_value).collect();
        let role = Map::from_iter([
            ("apiVersion", version.as_str().into()),
            ("kind", "ClusterRole".into()),
            ("metadata", metadata.into()),
            ("rules", Value::List(rules)),
        ]);
        let path = format!("/apis/{GROUP}/v1/clusterroles/{}", escape_path(name));
        client.apply(&path, &role.into(), MANAGER).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Roles whose aggregated rules differ from their present ones, by name, with those rules.
pub(crate) fn aggregated(roles: &[Value]) -> Result<Vec<(&str, Vec<PolicyRule>)>, String> {
    let mut changed = Vec::new();
    for role in roles {
        let selectors = role.at(&["aggregationRule", "clusterRoleSelectors"]);
        if role.at(&["aggregationRule"]).is_none() {
            continue;
        }
        let name = role.str_at(&["metadata", "name"]);
        let (mut gathered, mut known) = (Vec::new(), HashSet::new());
        for selector in selectors.and_then(Value::as_list).unwrap_or_default() {
            let selector = LabelSelector::from_value(Some(selector));
            let selector = selector.map_err(|error| format!("{name}: {error}"))?;
            for other in roles.iter().filter(|other| selector.selects(*other)) {
                if other.str_at(&["metadata", "name"]) == name {
                    continue;
                }
                let new = |rule: &PolicyRule| known.insert(rule.clone());
                gathered.extend(rule::rules(other).into_iter().filter(new));
            }
        }
        if gathered != rule::rules(role) {
            changed.push((name, gathered));
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::{Unknown, decode_any};

    fn role(name: &str, rest: &str) -> Value {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"for-{name}":"x","to":"{name}"}}}}{rest}}}"#
        );
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    #[test]
    fn a_role_gathers_the_rules_of_those_it_selects() {
        let rules = |verbs: &str| {
            format!(r#","rules":[{{"verbs":["{verbs}"],"apiGroups":[""],"resources":["pods"]}}]"#)
        };
        let selects = |selectors: &str| {
            format!(r#","aggregationRule":{{"clusterRoleSelectors":[{selectors}]}}"#)
        };
        let a_or_b = r#"{"matchExpressions":[{"key":"to","operator":"In","values":["a","b"]}]}"#;
        let c = r#"{"matchLabels":{"for-c":"x"}}"#;
        for (selectors, has, expected) in [
            (selects(a_or_b), "", Some("get list")),
            (selects(&format!("{c},{a_or_b}")), "", Some("watch get list")),
            // Each rule once, without the role's own.
            (selects(&format!("{a_or_b},{{}}")), "", Some("get list watch")),
            (selects(c), &rules("watch"), None),
            (selects(c), &rules("get"), Some("watch")),
            // A role whose selectors match no role loses its rules.
            (selects(""), &rules("get"), Some("")),
            (String::new(), &rules("get"), None),
        ] {
            let roles = [
                role("a", &rules("get")),
                role("b", &rules("list")),
                role("c", &rules("watch")),
                role("all", &format!("{selectors}{has}")),
            ];
            let found = aggregated(&roles).unwrap();
            let verbs = found.first().map(|(_, rules)| {
                let verbs: Vec<&str> = rules.iter().map(|rule| rule.verbs[0].as_str()).collect();
                verbs.join(" ")
            });
            assert_eq!(verbs.as_deref(), expected, "{selectors}{has}");
        }
    }
}
