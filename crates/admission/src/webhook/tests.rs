//! Tests of the plug-ins before their configurations are known.

use kevel_registry::admission::Plugin;
use kevel_server::authorization::AlwaysAllow;
use kevel_server::egress::EgressSelector;
use kevel_server::metrics::Metrics;

use super::*;
use crate::predicates::GROUP;
use crate::predicates::tests::World;

impl World {
    /// Dependencies of a plug-in, which reads its configurations from here.
    fn webhooks(&self) -> Config {
        let rows = self.rows.current();
        let row = rows.get(GROUP, "v1", "validatingwebhookconfigurations").unwrap();
        let metrics = Metrics::default();
        let resolve: Resolve = Arc::new(|_, name, _| Err(format!("service \"{name}\" not found")));
        let clients = ClientManager::new(None, resolve, EgressSelector::default()).unwrap();
        Config {
            configurations: row.storage.clone().unwrap(),
            matcher: self.matcher.clone(),
            authorizer: Arc::new(AlwaysAllow),
            manifests: None,
            clients: Arc::new(clients),
            metrics: WebhookMetrics::new(&metrics),
            match_conditions: MatchConditionMetrics::new(&metrics),
        }
    }

    /// Result of both steps of a plug-in.
    async fn judged(&self, plugin: &dyn Plugin, write: &str) -> String {
        let judged = self.with(write, async |subject, object| {
            let mut object = object.cloned();
            plugin.admit(subject.attributes, object.as_mut()).await?;
            plugin.validate(subject.attributes, object.as_ref()).await
        });
        judged.await.err().map_or(String::new(), |error: StatusError| error.to_string())
    }
}

/// A write must not go past webhooks that the server does not know yet; their configurations can be repaired meanwhile.
#[tokio::test]
async fn writes_wait_until_webhooks_are_known() {
    let world = World::new().await;
    let refused = r#"pods "x" is forbidden: not yet ready to handle request"#;
    let (pod, hooks) = ("CREATE v1 pods a/x with app=web", "admissionregistration.k8s.io/v1");
    for is_known in [false, true] {
        let (mutating, first) = MutatingAdmissionWebhook::new(world.webhooks()).unwrap();
        let (validating, second) = ValidatingAdmissionWebhook::new(world.webhooks()).unwrap();
        // Without their tasks, the plug-ins never learn anything.
        match is_known {
            true => [first, second].into_iter().for_each(|task| drop(tokio::spawn(task))),
            false => drop((first, second)),
        }
        for plugin in [&mutating as &dyn Plugin, &validating] {
            let expected = if is_known { "" } else { refused };
            assert_eq!(world.judged(plugin, pod).await, expected, "{}", plugin.name());
            for resource in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
                let write = format!("UPDATE {hooks} {resource} /x");
                assert_eq!(world.judged(plugin, &write).await, "", "{write}");
            }
        }
    }
}
