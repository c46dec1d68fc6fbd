//! Servers say in which versions they store (`StorageVersionAPI`).

use kevel_test_support::Replicas;
use serde_json::{Value, json};

const FLAGS: &[&str] = &[
    "--feature-gates=StorageVersionAPI=true",
    "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
];
const STORAGE_VERSIONS: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readiness_waits_for_published_storage_versions() {
    let Some(replicas) = Replicas::new().await else { return };
    let servers = replicas.start_all(2, FLAGS).await;
    let admin = &servers[0].admin;
    let all = admin.get(STORAGE_VERSIONS).await.1["items"].as_array().unwrap().clone();
    let of = |name: &str| -> Value {
        let found = all.iter().find(|version| version["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {all:?}"))["status"].clone()
    };
    for (name, encoding, decodable, served) in [
        ("core.configmaps", "v1", json!(["v1"]), json!(["v1"])),
        // The same objects in two groups.
        ("core.events", "v1", json!(["v1", "events.k8s.io/v1"]), json!(["v1"])),
        (
            "autoscaling.horizontalpodautoscalers",
            "autoscaling/v2",
            json!(["autoscaling/v2", "autoscaling/v1"]),
            json!(["autoscaling/v2", "autoscaling/v1"]),
        ),
        (
            "apiextensions.k8s.io.customresourcedefinitions",
            "apiextensions.k8s.io/v1beta1",
            json!(["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"]),
            json!(["apiextensions.k8s.io/v1"]),
        ),
    ] {
        let status = of(name);
        assert_eq!(status["commonEncodingVersion"], encoding, "{name}");
        let condition = &status["conditions"][0];
        assert_eq!(condition["type"], "AllEncodingVersionsEqual");
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("True"), &json!("CommonEncodingVersionSet"))
        );
        let of_servers = status["storageVersions"].as_array().unwrap();
        assert_eq!(of_servers.len(), 2, "{status}");
        assert_ne!(of_servers[0]["apiServerID"], of_servers[1]["apiServerID"]);
        for server in of_servers {
            assert_eq!(server["encodingVersion"], encoding, "{name}");
            assert_eq!(server["decodableVersions"], decodable, "{name}");
            assert_eq!(server["servedVersions"], served, "{name}");
        }
    }
    for unknown in ["events.k8s.io.events", "core.componentstatuses", "core.bindings"] {
        assert!(all.iter().all(|version| version["metadata"]["name"] != unknown), "{unknown}");
    }
    let ready = admin.raw("GET", "/readyz?verbose", &[], "").await.into_body();
    let hook = "[+]poststarthook/built-in-resources-storage-version-updater ok";
    assert!(ready.contains(hook), "{ready}");
    for server in servers {
        server.stop().await;
    }
}
