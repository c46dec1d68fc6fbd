//! Whether an extension server is available, and who is told.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;

use super::extension_server::{ExtensionServer, GROUP, PATH, own_address};
use super::{API_SERVICES, Aggregation as _, Ca, base64, start, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_says_what_is_missing() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(true).await;
    let because = async |reason: &str| {
        until(async || cluster.condition().await["reason"] == reason).await;
        cluster.condition().await["message"].as_str().unwrap().to_owned()
    };
    let made = cluster.create_api_service(json!({"caBundle": base64(&extension.ca)})).await;
    assert_eq!((&made["status"], &made["spec"]["service"]["port"]), (&json!({}), &json!(443)));
    assert_eq!(because("ServiceNotFound").await, "service/wardle in \"default\" is not present");
    let (code, text) = cluster.admin.get(PATH).await;
    assert_eq!((code, text), (503, json!("service unavailable\n")));

    let services = "/api/v1/namespaces/default/services";
    let service = |port: u16| json!({"metadata": {"name": "wardle"}, "spec": {"ports": [{"name": "https", "port": port}]}});
    cluster.admin.create(services, &service(80)).await;
    assert_eq!(
        because("ServicePortError").await,
        "service/wardle in \"default\" is not listening on port 443",
    );
    cluster.admin.delete(&format!("{services}/wardle")).await;
    cluster.admin.create(services, &service(443)).await;
    assert_eq!(
        because("EndpointsNotFound").await,
        "cannot find endpointslices for service/wardle in \"default\"",
    );
    cluster.admin.delete(&format!("{services}/wardle")).await;
    cluster.create_service(extension.address).await;
    assert_eq!(because("Passed").await, "all checks passed");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_is_unavailable_until_it_comes_back() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    assert_eq!(cluster.admin.get(PATH).await.0, 200);
    let failing = async || {
        until(async || {
            // Any change of the API service lets its server be looked at.
            let path = format!("{API_SERVICES}/v1alpha1.{GROUP}");
            let patch = json!({"metadata": {"annotations": {"touched": kevel_api::time::MicroTime::now(&kevel_clock::Clock::system()).to_string()}}});
            let headers = [("content-type", "application/merge-patch+json")];
            cluster.admin.send("PATCH", &path, &headers, &patch.to_string()).await;
            cluster.condition().await["status"] == "False"
        })
        .await;
        let condition = cluster.condition().await;
        assert_eq!(condition["reason"], "FailedDiscoveryCheck", "{condition}");
        condition["message"].as_str().unwrap().to_owned()
    };
    extension.state.broken.store(true, Ordering::Relaxed);
    let url = format!("https://{}{PATH}", extension.address);
    assert_eq!(
        failing().await,
        format!("failing or missing response from {url}: bad status from {url}: 500"),
    );
    extension.state.broken.store(false, Ordering::Relaxed);
    until(async || cluster.condition().await["status"] == "True").await;

    let address = extension.address;
    extension.stop();
    assert_eq!(
        failing().await,
        format!(
            "failing or missing response from {url}: Get \"{url}\": dial tcp {address}: connect: \
             connection refused"
        ),
    );
    until(async || cluster.admin.get(PATH).await == (503, json!("service unavailable\n"))).await;
    let again =
        ExtensionServer::start("wardle", &cluster.front_proxy(), true, address.port()).await;
    let patch = json!({"spec": {"caBundle": base64(&again.ca)}}).to_string();
    let headers = [("content-type", "application/merge-patch+json")];
    let path = format!("{API_SERVICES}/v1alpha1.{GROUP}");
    cluster.admin.send("PATCH", &path, &headers, &patch).await;
    until(async || cluster.admin.get(PATH).await.0 == 200).await;
    assert_eq!(cluster.condition().await["status"], "True");
    let metrics = cluster.admin.raw("GET", "/metrics", &[], "").await.into_body();
    for expected in [
        format!("aggregator_unavailable_apiservice{{name=\"v1alpha1.{GROUP}\"}} 0"),
        format!(
            "aggregator_unavailable_apiservice_total{{name=\"v1alpha1.{GROUP}\",\
             reason=\"FailedDiscoveryCheck\"}} 2"
        ),
    ] {
        assert!(metrics.contains(&expected), "{expected}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extension_server_needs_a_trusted_certificate() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(false).await;
    cluster.create_service(extension.address).await;
    let other = Ca::new("other");
    cluster.create_api_service(json!({"caBundle": base64(&other.pem)})).await;
    until(async || cluster.condition().await["reason"] == "FailedDiscoveryCheck").await;
    let message = cluster.condition().await["message"].as_str().unwrap().to_owned();
    let unknown =
        "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(message.ends_with(unknown), "{message}");
    let path = format!("{API_SERVICES}/v1alpha1.{GROUP}");
    cluster.admin.delete(&path).await;
    cluster.create_api_service(json!({"insecureSkipTLSVerify": true})).await;
    until(async || cluster.condition().await["reason"] == "Passed").await;
    cluster.stop().await;
}

/// An APIService is not unavailable merely because it was not checked yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_makes_no_service_unavailable() {
    let cluster = start(&["--storage=embedded"]).await;
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    let before = cluster.condition().await;
    let cluster = cluster.restart().await;
    assert_eq!(cluster.admin.get(PATH).await.0, 200);
    // Looked at once more.
    let name = format!("aggregator_unavailable_apiservice{{name=\"v1alpha1.{GROUP}\"}} 0");
    until(async || cluster.admin.raw("GET", "/metrics", &[], "").await.body().contains(&name))
        .await;
    assert_eq!(cluster.condition().await, before);
    let metrics = cluster.admin.raw("GET", "/metrics", &[], "").await.into_body();
    let total = format!("aggregator_unavailable_apiservice_total{{name=\"v1alpha1.{GROUP}\"");
    assert!(!metrics.contains(&total));
    cluster.stop().await;
}

/// Without routing to endpoints, a name outside the cluster is a place to ask at.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_be_a_name_outside() {
    let cluster = start(&["--enable-aggregator-routing=false"]).await;
    let extension = cluster.extension_server(true).await;
    let service = json!({
        "metadata": {"name": "wardle"},
        "spec": {"type": "ExternalName", "externalName": extension.address.ip()},
    });
    cluster.admin.create("/api/v1/namespaces/default/services", &service).await;
    let reference =
        json!({"namespace": "default", "name": "wardle", "port": extension.address.port()});
    let more = json!({"caBundle": base64(&extension.ca), "service": reference});
    cluster.create_api_service(more).await;
    until(async || cluster.condition().await["reason"] == "Passed").await;
    assert_eq!(cluster.admin.get(PATH).await.0, 200);
    cluster.stop().await;
}

/// Limit on the time until a restarted server is ready: less than the 5 s that a server outside has to answer.
const SOON_READY: Duration = Duration::from_secs(4);

/// A server that takes connections and says nothing: known to be unavailable, it is asked again after the start, not
/// before it.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_waits_for_no_server_known_to_hang() {
    let cluster = start(&["--storage=embedded"]).await;
    let silent = TcpListener::bind((own_address(), 0)).await.unwrap();
    let address = silent.local_addr().unwrap();
    cluster.create_service(address).await;
    cluster.create_api_service(json!({"insecureSkipTLSVerify": true})).await;
    until(async || cluster.condition().await["reason"] == "FailedDiscoveryCheck").await;
    let begun = kevel_clock::monotonic_now();
    let cluster = cluster.restart().await;
    until(async || cluster.admin.get("/readyz").await.0 == 200).await;
    let took = begun.elapsed();
    assert!(took < SOON_READY, "{took:?}");
    // It is listed all the same, as one that nothing new is known of.
    assert_eq!(cluster.condition().await["status"], "False");
    cluster.stop().await;
}
