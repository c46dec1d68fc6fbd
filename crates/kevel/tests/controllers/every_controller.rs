//! A case for each controller, which fails without that controller.

use std::pin::Pin;

use kevel_controllers::CONTROLLERS;
use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::certificates::{REQUESTS, ask_approved, ask_as_kubelet, ask_denied, has};
use super::endpoints::{MANAGED_BY, SLICES, point, select};
use super::policy_status::{POLICIES, create_policy};
use super::service_cidr::{RANGES, create_range};
use super::tokens::{CLUSTER_INFO, create_bootstrap_token, create_cluster_info, create_token};
use super::{
    ALL, create_namespace, create_owned, disruption, ephemeral_volume, exists, gated,
    node_lifecycle, owner, pod_garbage_collector, resource_claim, storage_version_migrator,
    taint_eviction, ttl_after_finished, volume_binder, volume_protection,
};

type Step<T> = for<'a> fn(&'a Cluster) -> Pin<Box<dyn Future<Output = T> + 'a>>;

/// Work of a controller: how it is caused, and how it shows.
struct Case {
    controller: &'static str,
    cause: Step<()>,
    is_done: Step<bool>,
}

macro_rules! case {
    ($controller:literal, $cause:expr, $is_done:expr) => {
        Case {
            controller: $controller,
            cause: |cluster| Box::pin(($cause)(cluster)),
            is_done: |cluster| Box::pin(($is_done)(cluster)),
        }
    };
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const QUOTAS: &str = "/api/v1/namespaces/quota/resourcequotas";

/// Controllers that act on old objects alone: the test of each moves a clock, and fails without it.
const LATER: &[&str] =
    &["legacy-serviceaccount-token-cleaner-controller", "podcertificaterequest-cleaner-controller"];

const CASES: &[Case] = &[
    case!(
        "bootstrap-signer-controller",
        async |cluster: &Cluster| {
            create_cluster_info(cluster).await;
            create_bootstrap_token(cluster, "signer", "2999-01-01T00:00:00Z").await;
        },
        async |cluster: &Cluster| {
            let (_, info) = cluster.admin.get(CLUSTER_INFO).await;
            info["data"]["jws-kubeconfig-signer"].is_string()
        }
    ),
    case!(
        "certificatesigningrequest-approving-controller",
        async |cluster: &Cluster| drop(ask_as_kubelet(cluster, "of-kubelet").await),
        async |cluster: &Cluster| {
            has(&cluster.admin.get(&format!("{REQUESTS}/of-kubelet")).await.1, "Approved")
        }
    ),
    case!(
        "certificatesigningrequest-cleaner-controller",
        async |cluster: &Cluster| ask_denied(cluster, "denied").await,
        async |cluster: &Cluster| !exists(cluster, &format!("{REQUESTS}/denied")).await
    ),
    case!(
        "certificatesigningrequest-signing-controller",
        async |cluster: &Cluster| ask_approved(cluster, "approved").await,
        async |cluster: &Cluster| {
            let (_, request) = cluster.admin.get(&format!("{REQUESTS}/approved")).await;
            request["status"]["certificate"].is_string()
        }
    ),
    case!("clusterrole-aggregation-controller", aggregate, async |cluster: &Cluster| {
        let (_, role) = cluster.admin.get(&format!("{ROLES}/sum")).await;
        role["rules"].as_array().is_some_and(|rules| rules.len() == 1)
    }),
    case!(
        "endpoints-controller",
        async |cluster: &Cluster| select(cluster, "selects").await,
        async |cluster: &Cluster| {
            exists(cluster, "/api/v1/namespaces/default/endpoints/selects").await
        }
    ),
    case!(
        "endpointslice-controller",
        async |cluster: &Cluster| select(cluster, "sliced").await,
        async |cluster: &Cluster| has_slice(cluster, "sliced", "endpointslice").await
    ),
    case!(
        "endpointslice-mirroring-controller",
        async |cluster: &Cluster| point(cluster, "mirrored").await,
        async |cluster: &Cluster| has_slice(cluster, "mirrored", "endpointslicemirroring").await
    ),
    case!("disruption-controller", disruption::create_empty_budget, disruption::budget_is_observed),
    case!(
        "ephemeral-volume-controller",
        ephemeral_volume::create_pod_with_volume,
        ephemeral_volume::claim_exists
    ),
    case!("garbage-collector-controller", delete_owner, async |cluster: &Cluster| {
        !exists(cluster, "/api/v1/namespaces/default/configmaps/dependent").await
    }),
    case!(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        async |_: &Cluster| {},
        gated::bundle_is_published
    ),
    case!("namespace-controller", delete_namespace, async |cluster: &Cluster| {
        !exists(cluster, "/api/v1/namespaces/doomed").await
    }),
    case!(
        "node-lifecycle-controller",
        node_lifecycle::create_labelled_node,
        node_lifecycle::node_is_labelled
    ),
    case!(
        "persistentvolume-binder-controller",
        volume_binder::create_free_volume,
        volume_binder::volume_is_available
    ),
    case!(
        "persistentvolume-protection-controller",
        volume_protection::delete_unused_volume,
        volume_protection::volume_is_gone
    ),
    case!(
        "persistentvolumeclaim-protection-controller",
        volume_protection::delete_unused_claim,
        volume_protection::claim_is_gone
    ),
    case!(
        "pod-garbage-collector-controller",
        pod_garbage_collector::delete_unscheduled,
        pod_garbage_collector::unscheduled_has_failed
    ),
    case!("podgroup-protection-controller", gated::delete_unused_group, gated::group_is_gone),
    case!(
        "resourceclaim-controller",
        resource_claim::create_pod_with_claim,
        resource_claim::claim_is_made
    ),
    case!(
        "resourcepoolstatusrequest-controller",
        gated::ask_pools_of_no_driver,
        gated::pools_are_counted
    ),
    case!("resourcequota-controller", limit, async |cluster: &Cluster| {
        let (_, quota) = cluster.admin.get(&format!("{QUOTAS}/maps")).await;
        quota["status"]["used"]["count/configmaps"] != Value::Null
    }),
    case!(
        "root-ca-certificate-publisher-controller",
        async |cluster: &Cluster| create_namespace(cluster, "authorities").await,
        async |cluster: &Cluster| {
            exists(cluster, "/api/v1/namespaces/authorities/configmaps/kube-root-ca.crt").await
        }
    ),
    case!(
        "service-cidr-controller",
        async |cluster: &Cluster| create_range(cluster, "ready", "192.168.7.0/24").await,
        async |cluster: &Cluster| {
            let (_, range) = cluster.admin.get(&format!("{RANGES}/ready")).await;
            range["metadata"]["finalizers"].is_array()
        }
    ),
    case!(
        "serviceaccount-controller",
        async |cluster: &Cluster| create_namespace(cluster, "accounts").await,
        async |cluster: &Cluster| {
            exists(cluster, "/api/v1/namespaces/accounts/serviceaccounts/default").await
        }
    ),
    case!(
        "serviceaccount-token-controller",
        async |cluster: &Cluster| create_token(cluster, "tokens").await,
        async |cluster: &Cluster| {
            let (_, secret) = cluster.admin.get("/api/v1/namespaces/default/secrets/tokens").await;
            secret["data"]["token"].is_string()
        }
    ),
    case!(
        "token-cleaner-controller",
        async |cluster: &Cluster| {
            create_bootstrap_token(cluster, "oldold", "2020-01-01T00:00:00Z").await;
        },
        async |cluster: &Cluster| {
            !exists(cluster, "/api/v1/namespaces/kube-system/secrets/bootstrap-token-oldold").await
        }
    ),
    case!(
        "validatingadmissionpolicy-status-controller",
        async |cluster: &Cluster| create_policy(cluster, "checked", "object.spec.replica > 1")
            .await,
        async |cluster: &Cluster| {
            let (_, policy) = cluster.admin.get(&format!("{POLICIES}/checked")).await;
            policy["status"]["observedGeneration"] == 1
        }
    ),
    case!(
        "storage-version-migrator-controller",
        storage_version_migrator::migrate_config_maps,
        storage_version_migrator::config_maps_are_migrated
    ),
    case!(
        "storageversion-garbage-collector-controller",
        gated::register_lost_server,
        gated::lost_server_is_forgotten
    ),
    case!(
        "taint-eviction-controller",
        taint_eviction::create_intolerant_pod,
        taint_eviction::pod_is_deleted
    ),
    case!(
        "ttl-after-finished-controller",
        ttl_after_finished::finish_job,
        ttl_after_finished::job_is_deleted
    ),
    case!(
        "volumeattributesclass-protection-controller",
        volume_protection::delete_unused_class,
        volume_protection::class_is_gone
    ),
];

async fn aggregate(cluster: &Cluster) {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let part = json!({"metadata": {"name": "part", "labels": {"of": "sum"}}, "rules": rules});
    cluster.admin.create(ROLES, &part).await;
    let selectors = json!([{"matchLabels": {"of": "sum"}}]);
    let rule = json!({"clusterRoleSelectors": selectors});
    let sum = json!({"metadata": {"name": "sum"}, "aggregationRule": rule});
    cluster.admin.create(ROLES, &sum).await;
}

/// Whether a Service has a slice of a controller.
async fn has_slice(cluster: &Cluster, service: &str, controller: &str) -> bool {
    let labels =
        format!("kubernetes.io/service-name={service},{MANAGED_BY}={controller}-controller.k8s.io");
    let (_, slices) = cluster.admin.get(&format!("{SLICES}?labelSelector={labels}")).await;
    slices["items"].as_array().is_some_and(|slices| !slices.is_empty())
}

async fn delete_owner(cluster: &Cluster) {
    let map = create_owned(cluster, "default", "owner", &[]).await;
    create_owned(cluster, "default", "dependent", &[owner(&map, false)]).await;
    cluster.admin.delete("/api/v1/namespaces/default/configmaps/owner").await;
}

async fn delete_namespace(cluster: &Cluster) {
    create_namespace(cluster, "doomed").await;
    create_owned(cluster, "doomed", "content", &[]).await;
    cluster.admin.delete("/api/v1/namespaces/doomed").await;
}

async fn limit(cluster: &Cluster) {
    create_namespace(cluster, "quota").await;
    let hard = json!({"count/configmaps": "5"});
    let quota = json!({"metadata": {"name": "maps"}, "spec": {"hard": hard}});
    cluster.admin.create(QUOTAS, &quota).await;
}

#[test]
fn every_controller_has_a_case() {
    let cases = CASES.iter().map(|case| case.controller);
    let mut tested: Vec<&str> = cases.chain(LATER.iter().copied()).collect();
    tested.sort_unstable();
    let all: Vec<&str> = CONTROLLERS.iter().map(|descriptor| descriptor.name).collect();
    assert_eq!(tested, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_controller_works() {
    let cluster = super::cluster().await;
    for case in CASES {
        (case.cause)(&cluster).await;
    }
    for case in CASES {
        until(async || (case.is_done)(&cluster).await).await;
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_controller_each_case_fails() {
    for (case, next) in CASES.iter().zip(CASES.iter().cycle().skip(1)) {
        let cluster = super::cluster_with(&format!("-{},{ALL}", case.controller)).await;
        (case.cause)(&cluster).await;
        // Another controller has worked on what came later.
        (next.cause)(&cluster).await;
        until(async || (next.is_done)(&cluster).await).await;
        assert!(!(case.is_done)(&cluster).await, "{} is not needed", case.controller);
        cluster.stop().await;
    }
}
