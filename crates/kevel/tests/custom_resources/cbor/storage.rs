//! Custom objects in the store: in CBOR while the gate is on, and read in either form.

use kevel_codec::cbor;
use kevel_store::Engine as _;
use kevel_store::etcd::{self, Etcd};
use kevel_test_support::{Client, Cluster, Replicas, until};
use serde_json::json;

use super::super::CustomResources as _;
use super::{GATE, WIDGETS, scaled, send, tree, widget};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test(flavor = "multi_thread")]
async fn custom_objects_are_stored_as_the_gate_says() {
    let Some(replicas) = Replicas::new().await else { return };
    let endpoints = vec![replicas.etcd.endpoint.clone()];
    let options = etcd::Options { endpoints, compaction_interval: None, ..Default::default() };
    let store = Etcd::connect(options).await.unwrap();
    let stored = async |name: &str| {
        let key = format!("/registry/example.com/widgets/default/{name}");
        store.get(key.as_bytes(), None).await.unwrap().entry.unwrap().value
    };
    let is_cbor = async |name: &str| stored(name).await.starts_with(cbor::SELF_DESCRIBED);
    let served = async |flags: &[&str]| {
        let replica = replicas.start("a", flags).await;
        until(async || replica.admin.get(WIDGETS).await.0 == 200).await;
        replica
    };
    let read = async |admin: &Client, name: &str| {
        let (code, object) = admin.get(&format!("{WIDGETS}/{name}")).await;
        assert_eq!(code, 200, "{object}");
        object
    };
    // A write that changes nothing of the object.
    let rewrite = async |admin: &Client, name: &str| {
        let object = read(admin, name).await.to_string();
        let (code, made) = admin.send("PUT", &format!("{WIDGETS}/{name}"), &[], &object).await;
        assert_eq!(code, 200, "{made}");
    };
    let first = replicas.start("a", &[]).await;
    first.admin.create(DEFINITIONS, &scaled()).await;
    until(async || first.admin.get(WIDGETS).await.0 == 200).await;
    let specs = [json!({"size": 1, "ratio": 1.5}), json!({"size": 2, "ratio": 2.5})];
    first.admin.create(WIDGETS, &widget("json", specs[0].clone())).await;
    assert!(!is_cbor("json").await);
    first.stop().await;

    let second = served(&[GATE]).await;
    second.admin.create(WIDGETS, &widget("cbor", specs[1].clone())).await;
    assert!(is_cbor("cbor").await);
    let object = tree(&stored("cbor").await);
    assert_eq!((&object["kind"], &object["spec"]), (&json!("Widget"), &specs[1]));
    assert_eq!(read(&second.admin, "json").await["spec"], specs[0]);
    rewrite(&second.admin, "json").await;
    assert!(is_cbor("json").await);
    let revision = read(&second.admin, "json").await["metadata"]["resourceVersion"].clone();
    rewrite(&second.admin, "json").await;
    assert_eq!(read(&second.admin, "json").await["metadata"]["resourceVersion"], revision);
    second.stop().await;

    let third = served(&[]).await;
    assert_eq!(read(&third.admin, "cbor").await["spec"], specs[1]);
    rewrite(&third.admin, "cbor").await;
    assert!(!is_cbor("cbor").await && is_cbor("json").await);
    third.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_store_keeps_custom_objects_when_the_gate_goes() {
    let folder = tempfile::tempdir().unwrap();
    let flags = |more: &[&str]| {
        ["--storage=embedded"].iter().chain(more).map(|flag| (*flag).to_owned()).collect()
    };
    let cluster = Cluster::on(folder, flags(&[GATE])).await;
    cluster.define(scaled()).await;
    let made = send(&cluster, &format!("POST {WIDGETS}"), widget("a", json!({"size": 3}))).await;
    let made = made.cbor();
    let Cluster { server, admin, folder, .. } = cluster;
    drop(admin);
    server.stop().await.unwrap();
    let cluster = Cluster::on(folder, flags(&[])).await;
    let path = format!("{WIDGETS}/a");
    until(async || cluster.admin.get(&path).await.0 == 200).await;
    assert_eq!(cluster.admin.get(&path).await.1, made);
}
