use super::{PODS, cluster, pod};
use kevel_test_support::Cluster;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_alone_has_what_pods_need_in_every_namespace() {
    let cluster = Cluster::alone().await;
    cluster.ok("admin", "POST /api/v1/namespaces", r#"{"metadata":{"name":"new"}}"#).await;
    let account = "GET /api/v1/namespaces/new/serviceaccounts/default";
    cluster.until(account, |answer| answer.0 == 200).await;
    let made = cluster.ok("admin", "POST /api/v1/namespaces/new/pods", &pod("")).await;
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    let authorities = "GET /api/v1/namespaces/new/configmaps/kube-root-ca.crt";
    cluster.until(authorities, |answer| answer.0 == 200).await;
    let config_map = cluster.ok("admin", authorities, "").await;
    assert!(config_map["data"]["ca.crt"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    // A deleted default service account comes back.
    let old = cluster.ok("admin", &format!("GET {ACCOUNTS}/default"), "").await;
    cluster.ok("admin", &format!("DELETE {ACCOUNTS}/default"), "").await;
    let uid = old["metadata"]["uid"].as_str().unwrap().to_owned();
    let account = format!("GET {ACCOUNTS}/default");
    cluster.until(&account, |answer| answer.0 == 200 && !answer.1.contains(&uid)).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_keys_for_accounts_leaves_them_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    std::fs::write(&key, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let key = key.display();
    let cluster = Cluster::start(&[
        &format!("--service-account-key-file={key}"),
        &format!("--service-account-signing-key-file={key}"),
        "--service-account-issuer=https://issuer",
    ])
    .await;
    assert_eq!(
        cluster.refused("admin", &format!("POST {PODS}"), &pod("")).await,
        r#"403 pods "p" is forbidden: error looking up service account default/default: serviceaccount "default" not found"#
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_finds_the_token_of_its_account() {
    let cluster = cluster(&[]).await;
    let made = cluster.ok("admin", &format!("POST {PODS}?dryRun=All"), &pod("")).await;
    let volume = &made["spec"]["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
    assert_eq!(
        volume["projected"].to_string(),
        r#"{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},{"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}"#
    );
    let mount = &made["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(
        mount.to_string(),
        format!(
            r#"{{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"{name}","readOnly":true}}"#
        )
    );
    let account = r#"{"metadata":{"name":"quiet"},"automountServiceAccountToken":false,"imagePullSecrets":[{"name":"a"}]}"#;
    cluster.ok("admin", &format!("POST {ACCOUNTS}"), account).await;
    let quiet = pod(r#""serviceAccount":"quiet""#);
    let made = cluster.ok("admin", &format!("POST {PODS}?dryRun=All"), &quiet).await;
    assert!(made["spec"]["volumes"].is_null());
    assert_eq!(made["spec"]["serviceAccountName"], "quiet");
    assert_eq!(made["spec"]["imagePullSecrets"][0]["name"], "a");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_can_say_which_secrets_its_pods_name() {
    let cluster = cluster(&[]).await;
    let account = r#"{"metadata":{"name":"strict","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},"secrets":[{"name":"mine"}]}"#;
    cluster.ok("admin", &format!("POST {ACCOUNTS}"), account).await;
    let not_allowed =
        "is not allowed because service account strict does not reference that secret";
    for (spec, error) in [
        (r#""volumes":[{"name":"v","secret":{"secretName":"mine"}}]"#, ""),
        (
            r#""volumes":[{"name":"v","secret":{"secretName":"theirs"}}]"#,
            r#"volume with secret.secretName="theirs""#,
        ),
        (
            r#""containers":[{"name":"c","image":"i","envFrom":[{"secretRef":{"name":"theirs"}}]}]"#,
            r#"container c with envFrom referencing secret.secretName="theirs""#,
        ),
        (
            r#""initContainers":[{"name":"n","image":"i","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"theirs","key":"k"}}}]}]"#,
            r#"init container n with envVar E referencing secret.secretName="theirs""#,
        ),
    ] {
        let body = pod(&format!(r#"{spec},"serviceAccountName":"strict""#));
        let what = format!("POST {PODS}?dryRun=All");
        match error {
            "" => drop(cluster.ok("admin", &what, &body).await),
            error => assert_eq!(
                cluster.refused("admin", &what, &body).await,
                format!(r#"403 pods "p" is forbidden: {error} {not_allowed}"#)
            ),
        }
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_its_account_makes_too_large_is_refused() {
    let cluster = cluster(&[]).await;
    let secrets = (0..90_000).map(|number| format!(r#"{{"name":"secret-{number:06}"}}"#));
    let secrets = secrets.collect::<Vec<_>>().join(",");
    let account = format!(r#"{{"metadata":{{"name":"large"}},"imagePullSecrets":[{secrets}]}}"#);
    cluster.ok("admin", &format!("POST {ACCOUNTS}"), &account).await;
    let refused = cluster
        .refused("admin", &format!("POST {PODS}"), &pod(r#""serviceAccountName":"large""#))
        .await;
    assert_eq!(refused, "500 etcdserver: request is too large");
    let own = r#""serviceAccountName":"large","imagePullSecrets":[{"name":"own"}]"#;
    cluster.ok("admin", &format!("POST {PODS}"), &pod(own)).await;
    cluster.stop().await;
}
