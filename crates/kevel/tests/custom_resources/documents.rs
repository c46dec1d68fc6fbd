//! Documents about custom kinds: discovery, OpenAPI, tables.

use std::process::Command;

use kevel_test_support::{Cluster, program};
use serde_json::{Value, json};

use super::{CustomResources as _, version, widgets};

fn described() -> Value {
    let mut version =
        version("v1", json!({"size": {"type": "integer", "description": "How large it is."}}));
    version["subresources"] = json!({"status": {}});
    version["additionalPrinterColumns"] =
        json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    let mut definition = widgets(json!([version]));
    definition["spec"]["names"]["shortNames"] = json!(["wd"]);
    definition
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_come_and_go_with_definitions() {
    let cluster = Cluster::alone().await;
    assert_eq!(cluster.get("/apis/example.com/v1").await.0, 404);
    cluster.define(described()).await;
    let get = async |path: &str| -> Value {
        let (code, text) = cluster.get(path).await;
        assert_eq!(code, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    };
    let list = get("/apis/example.com/v1").await;
    let names: Vec<_> = list["resources"].as_array().unwrap().iter().map(|r| &r["name"]).collect();
    assert_eq!(names, ["widgets", "widgets/status"]);
    assert_eq!(list["resources"][0]["shortNames"], json!(["wd"]));
    let v3 = get("/openapi/v3/apis/example.com/v1").await;
    let widget = &v3["components"]["schemas"]["com.example.v1.Widget"];
    let size = "/properties/spec/properties/size/description";
    assert_eq!(widget.pointer(size).unwrap(), "How large it is.");
    let v2 = get("/openapi/v2").await;
    let widget = &v2["definitions"]["com.example.v1.Widget"];
    assert_eq!(widget.pointer(size).unwrap(), "How large it is.");
    let metadata = widget.pointer("/properties/metadata/$ref").unwrap();
    assert_eq!(metadata, "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selectable_fields_are_published_in_the_order_of_their_definition() {
    let cluster = Cluster::alone().await;
    let text = json!({"type": "string"});
    let fields = json!({"size": text, "color": text, "branded": text});
    let mut versions = [version("v1", fields.clone()), version("v2", fields)];
    versions[1]["storage"] = false.into();
    // Schemas that are equal would be one for all versions, which has no fields of each.
    versions[1]["schema"]["openAPIV3Schema"]["description"] = "The second version.".into();
    let declared = [["size", "color", "branded"], ["color", "branded", "size"]];
    for (version, fields) in versions.iter_mut().zip(declared) {
        let paths = fields.map(|field| json!({"jsonPath": format!(".spec.{field}")}));
        version["selectableFields"] = json!(paths);
    }
    cluster.define(widgets(json!(versions))).await;
    let key = "x-kubernetes-selectable-fields";
    for (name, fields) in ["v1", "v2"].into_iter().zip(declared) {
        let expected = json!(fields.map(|field| json!({"fieldPath": format!("spec.{field}")})));
        for kind in ["Widget", "WidgetList"] {
            let kind = format!("com.example.{name}.{kind}");
            let v3 = format!("GET /openapi/v3/apis/example.com/{name}");
            let published = |path: &str| format!("{path}/{kind}");
            let v3 = cluster.ok("admin", &v3, "").await;
            let v2 = cluster.ok("admin", "GET /openapi/v2", "").await;
            for (document, path) in [(v3, "/components/schemas"), (v2, "/definitions")] {
                let schema = document.pointer(&published(path)).unwrap();
                assert_eq!(schema[key], expected, "{path} {kind}");
            }
        }
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_explains_and_prints_custom_kinds() {
    let Some(program) = program("kubectl") else { return };
    let cluster = Cluster::alone().await;
    cluster.define(described()).await;
    let new = super::object("v1", "Widget", "a", json!({"size": 3}));
    let widgets = cluster.objects("v1", "Widget");
    widgets.create(&Default::default(), &new).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("--kubeconfig").arg(cluster.server.kubeconfig_path()).args(arguments);
        command.env("HOME", home.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let explained = kubectl(&["explain", "widgets.spec.size"]);
    assert!(explained.contains("How large it is."), "{explained}");
    let printed = kubectl(&["get", "wd"]);
    let lines: Vec<Vec<&str>> =
        printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [["NAME", "SIZE"], ["a", "3"]]);
    cluster.stop().await;
}
