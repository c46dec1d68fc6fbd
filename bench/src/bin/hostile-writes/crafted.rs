//! Cases that were found by thinking: what is quadratic in most programs, and what small requests can
//! make large.

use kevel_conformance::client::Request;
use serde_json::{Value, json};

use crate::fill::{SIZE, list, list_of, map, map_of, put};
use crate::world::World;
use crate::{Case, Undo};

pub fn cases(world: &World) -> Vec<Case> {
    let mut cases = Cases { world, all: Vec::new() };
    metadata(&mut cases);
    pods(&mut cases);
    services_and_roles(&mut cases);
    json_patches(&mut cases);
    merges(&mut cases);
    ownership(&mut cases);
    custom_objects(&mut cases);
    other_requests(&mut cases);
    cases.all
}

struct Cases<'w> {
    world: &'w World,
    all: Vec<Case>,
}

impl Cases<'_> {
    /// Makes an object of a kind: its text is that of the smallest with some fields more, of which one
    /// is filled.
    fn create(&mut self, what: &str, kind: &str, rest: Value, filling: fn() -> String) {
        self.write(what, kind, "POST", rest, filling);
    }

    /// Replaces the object that is there.
    fn update(&mut self, what: &str, kind: &str, rest: Value, filling: fn() -> String) {
        self.write(what, kind, "PUT", rest, filling);
    }

    fn write(
        &mut self,
        what: &str,
        kind: &str,
        method: &'static str,
        rest: Value,
        filling: fn() -> String,
    ) {
        let Some(object) = self.world.known(kind).cloned() else { return };
        let (name, path, after) = match method {
            "POST" => {
                let path = object.collection.clone();
                ("hostile", path, Undo::Delete(format!("{}/hostile", object.collection)))
            }
            _ => {
                let path = format!("{}/base", object.collection);
                ("base", path, Undo::Restore(object.place.unwrap_or_default()))
            }
        };
        let request = move || {
            let mut value = object.base.clone();
            merge(&mut value, &rest);
            value["metadata"]["name"] = name.into();
            object.send(method.parse().unwrap_or_default(), &path, put(&value, &filling()))
        };
        self.push(format!("{method} {kind}: {what}"), after, request);
    }

    /// Patches the object that is there.
    fn patch(&mut self, what: &str, kind: &str, media: &'static str, body: fn() -> String) {
        let Some(object) = self.world.known(kind).cloned() else { return };
        let after = Undo::Restore(object.place.unwrap_or_default());
        let query =
            if media == "apply-patch+yaml" { "?fieldManager=hostile&force=true" } else { "" };
        let path = format!("{}/base{query}", object.collection);
        let request = move || object.patch(&path, media, body());
        self.push(format!("PATCH {kind} {media}: {what}"), after, request);
    }

    /// Sends something to a path below the object that is there.
    fn post_below(&mut self, what: &str, kind: &str, below: &'static str, body: fn() -> String) {
        let Some(object) = self.world.known(kind).cloned() else { return };
        let path = format!("{}/base/{below}", object.collection);
        let after = Undo::Restore(object.place.unwrap_or_default());
        let request = move || object.send(http::Method::POST, &path, body());
        self.push(format!("POST {kind}/{below}: {what}"), after, request);
    }

    fn push(
        &mut self,
        name: String,
        after: Undo,
        request: impl Fn() -> Request + Send + Sync + 'static,
    ) {
        self.all.push(Case { name, request: Box::new(request), after });
    }
}

/// Lays fields over an object.
fn merge(value: &mut Value, rest: &Value) {
    match rest {
        Value::Object(fields) if value.is_object() => {
            fields.iter().for_each(|(name, rest)| merge(&mut value[name], rest));
        }
        rest => *value = rest.clone(),
    }
}

fn metadata(cases: &mut Cases<'_>) {
    let owners = json!({"metadata": {"ownerReferences": "@@"}});
    cases.create("owners that all control", "ConfigMap", owners.clone(), || {
        list(|i| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","name":"a","uid":"{i}","controller":true}}"#
            )
        })
    });
    cases.create("owners that are events", "ConfigMap", owners, || {
        list(|i| format!(r#"{{"apiVersion":"v1","kind":"Event","name":"a","uid":"{i}"}}"#))
    });
    let labels = json!({"metadata": {"labels": "@@"}});
    cases
        .create("labels that are none", "ConfigMap", labels, || map(|i| format!("\"-{i}\":\"-\"")));
    let notes = json!({"metadata": {"annotations": "@@"}});
    cases.create("annotations", "Pod", notes, || map(|i| format!("\"a{i}\":\"\"")));
    let finalizers = json!({"metadata": {"finalizers": "@@"}});
    cases.create("finalizers", "Widget", finalizers.clone(), || list(|i| format!("\"a.b/{i}\"")));
    cases.update("finalizers", "Widget", finalizers, || list(|i| format!("\"a.b/{i}\"")));
    let managers = json!({"metadata": {"managedFields": "@@"}});
    for kind in ["ConfigMap", "Widget"] {
        cases.update("managers of one field each", kind, managers.clone(), || {
            list(|i| manager("Update", "v1", i, &format!(r#"{{"f:a{i}":{{}}}}"#)))
        });
        cases.update("managers that apply", kind, managers.clone(), || {
            list(|i| manager("Apply", "v1", i, r#"{"f:data":{"f:a":{}}}"#))
        });
        cases.update("managers in versions that there are not", kind, managers.clone(), || {
            list(|i| manager("Update", &format!("v{i}"), i, r#"{"f:a":{}}"#))
        });
    }
    let both = json!({"metadata": {"managedFields": "@@"}, "data": (0..30_000)
        .map(|i| (format!("k{i}"), Value::from(""))).collect::<serde_json::Map<_, _>>()});
    cases.update("managers and changes", "ConfigMap", both, || {
        list_of(2 << 20, |i| {
            manager("Update", "v1", i, &format!(r#"{{"f:data":{{"f:k{i}":{{}}}}}}"#))
        })
    });
}

fn manager(operation: &str, version: &str, number: usize, fields: &str) -> String {
    format!(
        r#"{{"manager":"m{number}","operation":"{operation}","apiVersion":"{version}","fieldsType":"FieldsV1","fieldsV1":{fields},"time":"2020-01-01T00:00:00Z"}}"#
    )
}

fn pods(cases: &mut Cases<'_>) {
    let container =
        |field: &str| json!({"spec": {"containers": [{"name": "a", "image": "b", field: "@@"}]}});
    let spec = |field: &str| json!({"spec": {field: "@@"}});
    cases.create("ports of the host", "Pod", container("ports"), || {
        list(|i| {
            let (port, host) = (i % 65_000 + 1, i / 65_000);
            format!(r#"{{"containerPort":{port},"hostPort":{port},"hostIP":"1.1.1.{host}"}}"#)
        })
    });
    cases.create("one port, many addresses", "Pod", container("ports"), || {
        list(|i| format!(r#"{{"containerPort":1,"hostPort":1,"hostIP":"1.{i}"}}"#))
    });
    cases.create("one port again and again", "Pod", container("ports"), || {
        list(|_| r#"{"containerPort":1}"#.to_owned())
    });
    cases.create("names of ports", "Pod", container("ports"), || {
        list(|i| format!(r#"{{"containerPort":1,"name":"p{i}"}}"#))
    });
    cases
        .create("variables", "Pod", container("env"), || list(|i| format!(r#"{{"name":"V{i}"}}"#)));
    cases
        .create("one variable", "Pod", container("env"), || list(|_| r#"{"name":"A"}"#.to_owned()));
    cases.create("mounts", "Pod", container("volumeMounts"), || {
        list(|i| format!(r#"{{"name":"a{i}","mountPath":"/{i}"}}"#))
    });
    cases.create("devices", "Pod", container("volumeDevices"), || {
        list(|i| format!(r#"{{"name":"a{i}","devicePath":"/{i}"}}"#))
    });
    cases.create("requests", "Pod", container("resources"), || {
        format!(
            r#"{{"requests":{},"limits":{}}}"#,
            map_of(SIZE / 2, |i| format!(r#""a.b/{i}":"1""#)),
            map_of(SIZE / 2, |i| format!(r#""a.b/{i}":"1""#))
        )
    });
    cases.create("claims of resources", "Pod", container("resources"), || {
        format!(r#"{{"claims":{}}}"#, list(|i| format!(r#"{{"name":"a{i}"}}"#)))
    });
    cases.create("volumes", "Pod", spec("volumes"), || {
        list(|i| {
            format!(r#"{{"name":"v{i}","persistentVolumeClaim":{{"claimName":"hostile-v{i}"}}}}"#)
        })
    });
    cases.create("tolerations", "Pod", spec("tolerations"), || {
        list(|i| format!(r#"{{"key":"a{i}","operator":"Exists"}}"#))
    });
    cases.create("empty tolerations", "Pod", spec("tolerations"), || list(|_| "{}".to_owned()));
    cases.create("aliases", "Pod", spec("hostAliases"), || {
        list(|i| format!(r#"{{"ip":"1.1.1.{i}"}}"#))
    });
    cases.create("secrets for images", "Pod", spec("imagePullSecrets"), || {
        list(|i| format!(r#"{{"name":"a{i}"}}"#))
    });
    cases.create("gates", "Pod", spec("schedulingGates"), || {
        list(|i| format!(r#"{{"name":"a/{i}"}}"#))
    });
    cases.create("spread", "Pod", spec("topologySpreadConstraints"), || {
        list(|i| {
            format!(r#"{{"topologyKey":"a{i}","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}}"#)
        })
    });
    cases.create("containers", "Pod", spec("containers"), || {
        list(|i| format!(r#"{{"name":"c{i}","image":"b"}}"#))
    });
    cases.create("containers that ask", "Pod", spec("containers"), || {
        list(|i| {
            format!(r#"{{"name":"c{i}","image":"b","resources":{{"requests":{{"a.b/{i}":"1"}}}}}}"#)
        })
    });
    cases.create("sidecars that ask", "Pod", spec("initContainers"), || {
        list(|i| {
            let policy = if i % 2 == 0 { r#","restartPolicy":"Always""# } else { "" };
            format!(r#"{{"name":"c{i}","image":"b"{policy},"resources":{{"requests":{{"a.b/{i}":"1"}},"limits":{{"a.b/{i}":"1"}}}}}}"#)
        })
    });
    let armored = json!({"metadata": {"annotations": {
        "container.apparmor.security.beta.kubernetes.io/a": format!("localhost/{}", "x".repeat(200 << 10))}},
        "spec": {"containers": "@@"}});
    cases.create("a long profile for each container", "Pod", armored, || {
        list_of(2 << 20, |_| r#"{"name":"a","image":"b"}"#.to_owned())
    });
    let matched = json!({"metadata": {"labels": {"a": "x".repeat(1 << 20)}}, "spec": {"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", "labelSelector": {},
            "matchLabelKeys": "@@"}]}}}});
    cases.create("a long label for each key", "Pod", matched, || {
        list_of(1 << 20, |_| "\"a\"".to_owned())
    });
    let short = json!({"metadata": {"labels": {"a": "x"}}, "spec": {"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", "labelSelector": {},
            "matchLabelKeys": "@@"}]}}}});
    cases.create("one label for each key", "Pod", short, || list(|_| "\"a\"".to_owned()));
    let projected = json!({"spec": {"volumes": [{"name": "a", "projected": {"sources": "@@"}}]}});
    cases.create("projected paths", "Pod", projected, || {
        list(|i| format!(r#"{{"configMap":{{"name":"a","items":[{{"key":"a","path":"{i}"}}]}}}}"#))
    });
    let sysctls = json!({"spec": {"securityContext": {"sysctls": "@@"}}});
    cases.create("sysctls", "Pod", sysctls, || {
        list(|i| format!(r#"{{"name":"a.b{i}","value":""}}"#))
    });
    let rules = json!({"spec": {"podFailurePolicy": {"rules": "@@"}}});
    cases.create("failure rules", "Job", rules, || {
        list(|i| {
            format!(r#"{{"action":"Ignore","onExitCodes":{{"containerName":"c{i}","operator":"In","values":[1]}}}}"#)
        })
    });
}

fn services_and_roles(cases: &mut Cases<'_>) {
    let spec = |field: &str| json!({"spec": {field: "@@"}});
    cases.create("ports", "Service", spec("ports"), || {
        list(|i| format!(r#"{{"name":"p{i}","port":{}}}"#, i % 65_000 + 1))
    });
    cases.create("addresses", "Service", spec("externalIPs"), || list(|i| format!("\"1.{i}\"")));
    cases.create("families", "Service", spec("ipFamilies"), || list(|_| "\"IPv4\"".to_owned()));
    cases.update("cluster addresses", "Service", spec("clusterIPs"), || {
        list(|i| format!("\"1.{i}\""))
    });
    let subsets = json!({"subsets": [{"addresses": "@@", "ports": [{"port": 1}]}]});
    cases.create("addresses", "Endpoints", subsets, || list(|i| format!(r#"{{"ip":"1.{i}"}}"#)));
    cases.create("endpoints", "EndpointSlice", json!({"endpoints": "@@"}), || {
        list(|i| format!(r#"{{"addresses":["1.{i}"]}}"#))
    });
    cases.create("blocks", "NetworkPolicy", json!({"spec": {"ingress": [{"from": "@@"}]}}), || {
        list(|i| format!(r#"{{"ipBlock":{{"cidr":"1.1.{i}.0/24"}}}}"#))
    });
    let quota = json!({"spec": {"hard": (0..40_000).map(|i| (format!("hugepages-{i}"), Value::from("1")))
        .collect::<serde_json::Map<_, _>>(), "scopes": "@@"}});
    cases.create("scopes and resources", "ResourceQuota", quota, || {
        list_of(1 << 20, |_| "\"BestEffort\"".to_owned())
    });
    cases.create("limits", "LimitRange", spec("limits"), || {
        list(|i| format!(r#"{{"type":"a.b/{i}","max":{{"cpu":"1"}}}}"#))
    });
    cases.create("rules", "Role", json!({"rules": "@@"}), || {
        list(|i| format!(r#"{{"apiGroups":["g{i}"],"resources":["r"],"verbs":["get"]}}"#))
    });
    cases.create("one rule of everything", "Role", json!({"rules": "@@"}), || {
        let texts = |letter: char| list_of(SIZE / 4, |i| format!("\"{letter}{i}\""));
        format!(
            r#"[{{"apiGroups":{},"resources":{},"verbs":{},"resourceNames":{}}}]"#,
            texts('g'),
            texts('r'),
            texts('v'),
            texts('n')
        )
    });
    cases.create("subjects", "RoleBinding", json!({"subjects": "@@"}), || {
        list(|i| {
            format!(r#"{{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u{i}"}}"#)
        })
    });
}

fn json_patches(cases: &mut Cases<'_>) {
    const MEDIA: &str = "json-patch+json";
    cases.patch("items at the front of a long list", "Widget", MEDIA, || {
        let long = list_of(2 << 20, |_| "1".to_owned());
        let front = (0..9_999).map(|_| r#"{"op":"add","path":"/spec/numbers/0","value":1}"#);
        let front: Vec<&str> = front.collect();
        format!(r#"[{{"op":"add","path":"/spec/numbers","value":{long}}},{}]"#, front.join(","))
    });
    cases.patch("keys before many others", "Widget", MEDIA, || {
        let many = map_of(2 << 20, |i| format!(r#""k{i}":"""#));
        let keys: Vec<String> = (0..9_999)
            .map(|i| format!(r#"{{"op":"add","path":"/spec/free/a{}","value":""}}"#, 99_999 - i))
            .collect();
        format!(r#"[{{"op":"add","path":"/spec/free","value":{many}}},{}]"#, keys.join(","))
    });
    cases.patch("moves to and fro", "Widget", MEDIA, || {
        let many = map_of(2 << 20, |i| format!(r#""k{i}":"""#));
        let moves: Vec<String> = (0..9_999)
            .map(|i| match i % 2 {
                0 => r#"{"op":"move","from":"/spec/free/k0","path":"/spec/free/a"}"#.to_owned(),
                _ => r#"{"op":"move","from":"/spec/free/a","path":"/spec/free/k0"}"#.to_owned(),
            })
            .collect();
        format!(r#"[{{"op":"add","path":"/spec/free","value":{many}}},{}]"#, moves.join(","))
    });
    cases.patch("copies of copies", "Widget", MEDIA, || {
        let mut all = vec![r#"{"op":"add","path":"/spec/any","value":{"a":{}}}"#.to_owned()];
        for i in 0..9_000 {
            all.push(format!(r#"{{"op":"copy","from":"/spec/any/a","path":"/spec/any/a/k{i}"}}"#));
        }
        format!("[{}]", all.join(","))
    });
    cases.patch("tests of all", "Widget", MEDIA, || {
        let many = map_of(1 << 20, |i| format!(r#""k{i}":"""#));
        let test = r#"{"op":"test","path":"/spec/free/k1","value":""}"#;
        let tests: Vec<&str> = (0..9_998).map(|_| test).collect();
        format!(
            r#"[{{"op":"add","path":"/spec/free","value":{many}}},{},{{"op":"test","path":"/spec/free","value":{many}}}]"#,
            tests.join(",")
        )
    });
    cases.patch("too many operations", "ConfigMap", MEDIA, || {
        list(|_| r#"{"op":"test","path":"/a","value":1}"#.to_owned())
    });
    cases.patch("a long path", "ConfigMap", MEDIA, || {
        format!(r#"[{{"op":"add","path":"{}","value":1}}]"#, "/a".repeat(SIZE / 2))
    });
}

fn merges(cases: &mut Cases<'_>) {
    const STRATEGIC: &str = "strategic-merge-patch+json";
    cases.patch("one container again and again", "Pod", STRATEGIC, || {
        let part = |i| format!(r#"{{"name":"a","resources":{{"limits":{{"a.b/k{i}":"1"}}}}}}"#);
        format!(r#"{{"spec":{{"containers":{}}}}}"#, list(part))
    });
    cases.patch("containers that go", "Pod", STRATEGIC, || {
        let part = |i| format!(r#"{{"name":"c{i}","$patch":"delete"}}"#);
        format!(r#"{{"spec":{{"containers":{}}}}}"#, list(part))
    });
    cases.patch("an order", "Pod", STRATEGIC, || {
        let order = list_of(SIZE / 2, |i| format!(r#"{{"name":"c{i}"}}"#));
        let all = list_of(SIZE / 2, |i| format!(r#"{{"name":"c{i}"}}"#));
        format!(r#"{{"spec":{{"$setElementOrder/containers":{order},"containers":{all}}}}}"#)
    });
    cases.patch("finalizers that go", "ConfigMap", STRATEGIC, || {
        format!(
            r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":{},"finalizers":{}}}}}"#,
            list_of(SIZE / 2, |i| format!("\"a.b/{i}\"")),
            list_of(SIZE / 2, |i| format!("\"a.b/{i}\""))
        )
    });
    cases.patch("keys that stay", "ConfigMap", STRATEGIC, || {
        format!(
            r#"{{"data":{{"$retainKeys":{},{}}}"#,
            list_of(SIZE / 2, |i| format!("\"k{i}\"")),
            &map_of(SIZE / 2, |i| format!(r#""k{i}":"""#))[1..]
        )
    });
    for kind in ["ConfigMap", "Widget"] {
        cases.patch("nulls", kind, "merge-patch+json", || {
            format!(r#"{{"data":{}}}"#, map(|i| format!(r#""k{i}":null"#)))
        });
        cases.patch("deep", kind, "merge-patch+json", || {
            format!("{}1{}", r#"{"a":"#.repeat(900), "}".repeat(900))
        });
    }
}

fn ownership(cases: &mut Cases<'_>) {
    const APPLY: &str = "apply-patch+yaml";
    const WIDGET: &str = r#"{"apiVersion":"hostile.example.com/v1","kind":"Widget","metadata":{"name":"base"},"spec":"#;
    cases.patch("a map", "Widget", APPLY, || {
        format!(r#"{WIDGET}{{"map":{}}}}}"#, list(|i| format!(r#"{{"name":"n{i}"}}"#)))
    });
    cases.patch("a set", "Widget", APPLY, || {
        format!(r#"{WIDGET}{{"set":{}}}}}"#, list(|i| format!("\"n{i}\"")))
    });
    cases.patch("the same in a set", "Widget", APPLY, || {
        format!(r#"{WIDGET}{{"set":{}}}}}"#, list(|_| "\"n\"".to_owned()))
    });
    cases.patch("a long key with much below it", "Widget", APPLY, || {
        let inner = map_of(1 << 20, |i| format!(r#""k{i}":1"#));
        format!(r#"{WIDGET}{{"nested":{{"{}":{inner}}}}}}}"#, "x".repeat(1 << 20))
    });
    cases.patch("wrong types below a long key", "Widget", APPLY, || {
        let inner = map_of(1 << 20, |i| format!(r#""k{i}":"""#));
        format!(r#"{WIDGET}{{"nested":{{"{}":{inner}}}}}}}"#, "x".repeat(1 << 20))
    });
    cases.patch("keys of a map", "ConfigMap", APPLY, || {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"base"}},"data":{}}}"#,
            map(|i| format!(r#""k{i}":"""#))
        )
    });
    cases.patch("yaml", "ConfigMap", APPLY, || {
        let mut text =
            String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: base}\ndata:\n");
        for i in 0.. {
            text.push_str(&format!("  k{i}: \"\"\n"));
            if text.len() > SIZE {
                break;
            }
        }
        text
    });
}

fn custom_objects(cases: &mut Cases<'_>) {
    let spec = |field: &str| json!({"spec": {field: "@@"}});
    cases.create("an expression of braces", "Widget", spec("expression"), || {
        format!("\"{}\"", "{".repeat(SIZE))
    });
    cases.create("a shorter expression of braces", "Widget", spec("expression"), || {
        format!("\"{}\"", "{".repeat(60_000))
    });
    cases.create("an expression of groups", "Widget", spec("expression"), || {
        format!("\"{}\"", "(a|b)?".repeat(10_000))
    });
    cases
        .create("a text to match", "Widget", spec("text"), || format!("\"{}!\"", "a".repeat(SIZE)));
    cases.create("the same in a set", "Widget", spec("set"), || list(|_| "\"n\"".to_owned()));
    for method in ["POST", "PUT"] {
        cases.write("a set", "Widget", method, spec("set"), || list(|i| format!("\"n{i}\"")));
        cases.write("a map", "Widget", method, spec("map"), || {
            list(|i| format!(r#"{{"name":"n{i}"}}"#))
        });
        cases.write("the same in a map", "Widget", method, spec("map"), || {
            list(|_| r#"{"name":"n"}"#.to_owned())
        });
        cases.write("numbers that are none", "Widget", method, spec("numbers"), || {
            list(|_| "\"\"".to_owned())
        });
        cases.write("negative numbers", "Widget", method, spec("numbers"), || {
            list(|_| "-1".to_owned())
        });
    }
    cases.create("unknown fields", "Widget", json!({"spec": {"template": "@@"}}), || {
        map(|i| format!("\"k{i}\":{{}}"))
    });
    let below = json!({"spec": {"nested": "@@"}});
    cases.create("errors below a long key", "Widget", below, || {
        let inner = map_of(1 << 20, |i| format!(r#""k{i}":"""#));
        format!(r#"{{"{}":{inner}}}"#, "x".repeat(1 << 20))
    });
    let embedded = json!({"spec": {"template": {"apiVersion": "v1", "kind": "A", "metadata": {"ownerReferences": "@@"}}}});
    cases.create("owners of an object inside", "Widget", embedded, || {
        list(|_| r#"{"apiVersion":"v1","kind":"Event","controller":true}"#.to_owned())
    });
    cases.create("deep", "Widget", json!({"spec": {"any": "@@"}}), || {
        format!("{}1{}", r#"{"a":"#.repeat(900), "}".repeat(900))
    });
}

fn other_requests(cases: &mut Cases<'_>) {
    cases.post_below("targets", "Pod", "binding", || {
        format!(
            r#"{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"base","annotations":{}}},"target":{{"name":"n"}}}}"#,
            map(|i| format!(r#""a{i}":"""#))
        )
    });
    cases.post_below("labels", "Pod", "eviction", || {
        format!(
            r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"base","labels":{}}}}}"#,
            map(|i| format!(r#""a{i}":"""#))
        )
    });
    cases.post_below("audiences", "ServiceAccount", "token", || {
        format!(
            r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{{"audiences":{}}}}}"#,
            list(|i| format!("\"a{i}\""))
        )
    });
    for (kind, path) in [
        ("SelfSubjectAccessReview", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("SubjectAccessReview", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ] {
        let request = move || {
            let requirements =
                list(|i| format!(r#"{{"key":"k{i}","operator":"In","values":["a"]}}"#));
            let body = format!(
                r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"{kind}","spec":{{"user":"a","resourceAttributes":{{"verb":"list","resource":"pods","labelSelector":{{"requirements":{requirements}}}}}}}}}"#
            );
            Request::new(http::Method::POST, path).with_body("application/json", body)
        };
        cases.push(format!("POST {kind}: requirements"), Undo::Nothing, request);
    }
    if let Some(object) = cases.world.known("Deployment").cloned() {
        let after = Undo::Restore(object.place.unwrap_or_default());
        for below in ["status", "scale"] {
            let (sender, path) = (object.clone(), format!("{}/base/{below}", object.collection));
            let request = move || {
                let conditions = list(|i| format!(r#"{{"type":"a{i}","status":"True"}}"#));
                let (kind, version) = match below {
                    "scale" => ("Scale", "autoscaling/v1"),
                    _ => ("Deployment", "apps/v1"),
                };
                let body = format!(
                    r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"base","namespace":"hostile"}},"status":{{"conditions":{conditions}}}}}"#
                );
                sender.send(http::Method::PUT, &path, body)
            };
            cases.push(format!("PUT Deployment/{below}: conditions"), after.clone(), request);
        }
    }
    if let Some(object) = cases.world.known("ConfigMap").cloned() {
        let after = Undo::Restore(object.place.unwrap_or_default());
        for path in [format!("{}/base", object.collection), object.collection.clone()] {
            let (sender, named) = (object.clone(), path.clone());
            let request = move || {
                let body = format!(
                    r#"{{"apiVersion":"v1","kind":"DeleteOptions","dryRun":{}}}"#,
                    list(|_| "\"All\"".to_owned())
                );
                sender.send(http::Method::DELETE, &named, body)
            };
            cases.push(format!("DELETE {path}: options"), after.clone(), request);
        }
    }
}
