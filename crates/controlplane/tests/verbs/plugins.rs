//! Promises to admission plug-ins: which writes they see, in which rounds, and what they may make of an object.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::BodyExt as _;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Admission, Attributes, Plugin};
use kevel_registry::storage::{Format, Storage};
use kevel_server::authorization::AlwaysAllow;
use kevel_server::endpoints::{Endpoints, MIN_REQUEST_TIMEOUT};
use kevel_test_support::InMemory;

use crate::CM;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";
const DEPLOYMENT: &str = r#"{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

/// Change of objects by a plug-in, given how often it was asked before.
type ScriptedChange = Box<dyn Fn(&Attributes<'_>, &mut Value, usize) + Send + Sync>;

/// Plug-in of a test.
#[derive(Default)]
struct Script {
    /// Calls: `admit` or `validate`, operation, and round.
    calls: Mutex<Vec<String>>,
    refuses: Mutex<Option<&'static str>>,
    reinvokes: bool,
    change: Mutex<Option<ScriptedChange>>,
    admitted: AtomicUsize,
}

impl Script {
    fn call(&self, step: &'static str, attributes: &Attributes<'_>) -> Result<(), StatusError> {
        let round = attributes.reinvocation.map_or(0, |reinvocation| reinvocation.round());
        let call = format!("{step} {} {round}", attributes.operation.name());
        self.calls.lock().unwrap().push(call);
        match *self.refuses.lock().unwrap() == Some(step) {
            true => Err(attributes.forbidden(None, format!("refused by {step}"))),
            false => Ok(()),
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn set(&self, change: impl Fn(&Attributes<'_>, &mut Value, usize) + Send + Sync + 'static) {
        self.admitted.store(0, Ordering::SeqCst);
        *self.change.lock().unwrap() = Some(Box::new(change));
    }
}

impl Plugin for Script {
    fn name(&self) -> &'static str {
        "Script"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let refused = self.call("admit", attributes);
        if let (Some(change), Some(object)) = (&*self.change.lock().unwrap(), object) {
            change(attributes, object, self.admitted.fetch_add(1, Ordering::SeqCst));
        }
        if let Some(reinvocation) = attributes.reinvocation.filter(|_| self.reinvokes) {
            reinvocation.request();
        }
        Box::pin(std::future::ready(refused))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        Box::pin(std::future::ready(self.call("validate", attributes)))
    }
}

async fn server(script: Script) -> (InMemory, Arc<Script>) {
    let script = Arc::new(script);
    let plugins: Vec<Arc<dyn Plugin>> = vec![script.clone()];
    let server = InMemory::empty(Format::Json, |_| Endpoints {
        admission: Admission::new(plugins),
        authorizer: Some(Arc::new(AlwaysAllow)),
        min_request_timeout: MIN_REQUEST_TIMEOUT,
        connecters: Default::default(),
        features: Default::default(),
        shard_selectors: None,
    });
    (server.await, script)
}

async fn send(server: &InMemory, what: &str, body: &str, media: &str) -> (u16, String) {
    let response = server.send(what, body, media).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}

fn map(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"k":"v"}}}}"#
    )
}

/// Writes in every form: request, body, its media type, the operation, and the resource's collection.
fn writes() -> Vec<(String, String, &'static str, &'static str)> {
    let (changed, scale) = (r#"{"data":{"x":"y"}}"#, r#"{"spec":{"replicas":2}}"#);
    let json = r#"[{"op":"add","path":"/data/x","value":"y"}]"#;
    let status = r#"{"status":{"observedGeneration":9}}"#;
    let new = map("new");
    [
        (format!("POST {CM}"), &*new, JSON, "CREATE"),
        (format!("PATCH {CM}/new?fieldManager=m"), &*new, APPLY, "CREATE"),
        (format!("PUT {CM}/a"), &*map("a").replace(r#""v""#, r#""w""#), JSON, "UPDATE"),
        (format!("PATCH {CM}/a"), changed, MERGE, "UPDATE"),
        (format!("PATCH {CM}/a"), changed, STRATEGIC, "UPDATE"),
        (format!("PATCH {CM}/a"), json, JSON_PATCH, "UPDATE"),
        (format!("PATCH {CM}/a?fieldManager=m&force=true"), &*map("a"), APPLY, "UPDATE"),
        (format!("PATCH {DEPLOYMENTS}/d/status"), status, MERGE, "UPDATE"),
        (format!("PATCH {DEPLOYMENTS}/d/scale"), scale, MERGE, "UPDATE"),
        (format!("DELETE {CM}/a"), "", JSON, "DELETE"),
        (format!("DELETE {CM}?fieldSelector=metadata.name=a"), "", JSON, "DELETE"),
    ]
    .map(|(what, body, media, operation)| (what, body.to_owned(), media, operation))
    .into()
}

async fn state(server: &InMemory) -> String {
    let maps = server.ok(&format!("GET {CM}"), "", 200).await;
    // A list's own version counts the writes of all resources.
    let items = |list: &str| list.split_once(r#""items":"#).unwrap().1.to_owned();
    items(&maps) + &items(&server.ok(&format!("GET {DEPLOYMENTS}"), "", 200).await)
}

/// Plug-ins see every write: to change the object first, then to judge what will be stored. A refusal at either step
/// leaves everything as it was, and a dry run asks as the write does.
#[tokio::test]
async fn plugins_are_asked_about_every_form_of_write() {
    for (what, body, media, operation) in writes() {
        for dry_run in [true, false] {
            for refuses in [Some("admit"), Some("validate"), None] {
                let (server, script) = server(Script::default()).await;
                server.ok(&format!("POST {CM}"), &map("a"), 201).await;
                server.ok(&format!("POST {DEPLOYMENTS}"), DEPLOYMENT, 201).await;
                let before = state(&server).await;
                script.take();
                *script.refuses.lock().unwrap() = refuses;
                let what = match (dry_run, what.contains('?')) {
                    (false, _) => what.clone(),
                    (true, false) => format!("{what}?dryRun=All"),
                    (true, true) => format!("{what}&dryRun=All"),
                };
                let (code, answer) = send(&server, &what, &body, media).await;
                let said = format!("{what} {media}, refused by {refuses:?}: {answer}");
                let calls = script.take();
                let expected = match refuses {
                    Some("admit") => vec![format!("admit {operation} 0")],
                    _ => vec![format!("admit {operation} 0"), format!("validate {operation} 0")],
                };
                // What the cache has at hand may be refused once more when it is read again.
                assert!(calls.ends_with(&expected), "{calls:?} {said}");
                match refuses {
                    Some(step) => {
                        assert_eq!(code, 403, "{said}");
                        assert!(answer.contains(&format!("refused by {step}")), "{said}");
                    }
                    None => assert!(matches!(code, 200 | 201), "{code} {said}"),
                }
                let changes = refuses.is_none() && !dry_run;
                assert_eq!(state(&server).await != before, changes, "{said}");
            }
        }
    }
}

/// A plug-in that asks for it sees once more what became of the object, and no more often than that.
#[tokio::test]
async fn second_round_runs_once_and_only_on_request() {
    for reinvokes in [false, true] {
        let script = Script { reinvokes, ..Script::default() };
        let (server, script) = server(script).await;
        script.set(|_, object, asked| {
            let round = asked.to_string();
            object.make_map(&["metadata", "annotations"]).insert("rounds", round.as_str().into());
        });
        let made = server.ok(&format!("POST {CM}"), &map("a"), 201).await;
        let (last, calls) = match reinvokes {
            true => ("1", &["admit CREATE 0", "admit CREATE 1", "validate CREATE 0"][..]),
            false => ("0", &["admit CREATE 0", "validate CREATE 0"][..]),
        };
        assert!(made.contains(&format!(r#""rounds":"{last}""#)), "{made}");
        assert_eq!(script.take(), calls);
    }
}

/// Plug-ins may not make objects that are larger than etcd stores; a client's own large object is another matter.
#[tokio::test]
async fn plugins_make_no_object_too_large() {
    let (server, script) = server(Script::default()).await;
    server.ok(&format!("POST {CM}"), &map("a"), 201).await;
    for (size, fits) in [(1 << 10, true), (3 << 20, false)] {
        script.set(move |_, object, _| {
            let text = "x".repeat(size);
            object.make_map(&["data"]).insert("added", text.as_str().into());
        });
        let put = map("a").replace(r#""v""#, r#""w""#);
        for (what, body) in [
            (format!("POST {CM}?dryRun=All"), map("b")),
            (format!("PUT {CM}/a?dryRun=All"), put.clone()),
            (format!("POST {CM}"), map("b")),
            (format!("PUT {CM}/a"), put),
        ] {
            let (code, answer) = send(&server, &what, &body, JSON).await;
            let end = answer.get(..200).unwrap_or(&answer);
            match fits {
                true => assert!(matches!(code, 200 | 201), "{what}: {code} {end}"),
                false => {
                    assert_eq!(code, 500, "{what}: {end}");
                    assert!(answer.contains("etcdserver: request is too large"), "{what}: {end}");
                }
            }
        }
        *script.change.lock().unwrap() = None;
        for name in ["a", "b"] {
            send(&server, &format!("DELETE {CM}/{name}"), "", JSON).await;
        }
        server.ok(&format!("POST {CM}"), &map("a"), 201).await;
    }
    assert_eq!(state(&server).await.matches("\"added\"").count(), 0);
}

/// An object is written where it was authorized: a plug-in may neither move nor rename it.
#[tokio::test]
async fn plugins_move_no_object() {
    let (server, script) = server(Script::default()).await;
    server.ok(&format!("POST {CM}"), &map("a"), 201).await;
    let before = state(&server).await;
    let changed = r#"{"data":{"x":"y"}}"#;
    let other = map("a").replace(r#""v""#, r#""w""#);
    for field in ["namespace", "name"] {
        script.set(move |_, object, _| {
            object.make_map(&["metadata"]).insert(field, "other".into());
        });
        let mut requests = vec![
            (format!("PUT {CM}/a"), &*other, JSON, 422),
            (format!("PATCH {CM}/a"), changed, MERGE, 422),
            (format!("PATCH {CM}/a?fieldManager=m&force=true"), &other, APPLY, 422),
        ];
        // A new object has no name yet that a plug-in could change.
        let new = map("b");
        if field == "namespace" {
            requests.push((format!("POST {CM}"), &new, JSON, 400));
        }
        let immutable =
            format!(r#"metadata.{field}: Invalid value: \"other\": field is immutable"#);
        let moved = "does not match the namespace sent on the request";
        for (what, body, media, code) in requests {
            let said = if code == 422 { &*immutable } else { moved };
            let (found, answer) = send(&server, &what, body, media).await;
            assert!(found == code && answer.contains(said), "{what} {field}: {found} {answer}");
            assert_eq!(state(&server).await, before, "{what} {field}");
            let other = "/api/v1/namespaces/other/configmaps";
            let elsewhere = server.ok(&format!("GET {other}"), "", 200).await;
            assert!(elsewhere.contains(r#""items":[]"#), "{what} {field}: {elsewhere}");
        }
    }
}

/// A made-up name that is taken is made up again, seven times; a name that the client chose is refused at once.
#[tokio::test]
async fn taken_generated_name_is_made_up_again() {
    for (taken, code, attempts) in [(0, 201, 1), (1, 201, 2), (7, 201, 8), (8, 409, 8)] {
        for generated in [true, false] {
            let (server, script) = server(Script::default()).await;
            for number in 0..taken {
                server.ok(&format!("POST {CM}"), &map(&format!("n-{number}")), 201).await;
            }
            script.set(|_, object, asked| {
                let metadata = object.make_map(&["metadata"]);
                if !metadata.contains_key("name") {
                    metadata.insert("name", format!("n-{asked}").as_str().into());
                }
            });
            let name = if generated { r#""generateName":"n-""# } else { r#""name":"n-0""# };
            let body = format!(r#"{{"metadata":{{{name}}}}}"#);
            let (found, answer) = send(&server, &format!("POST {CM}"), &body, JSON).await;
            let asked = script.admitted.load(Ordering::SeqCst);
            let expected = match generated {
                true => (code, attempts),
                false if taken == 0 => (201, 1),
                false => (409, 1),
            };
            assert_eq!((found, asked), expected, "{taken} {generated}: {answer}");
            if found == 409 {
                assert!(answer.contains(r#""reason":"AlreadyExists""#), "{answer}");
            }
        }
    }
}

/// A collection is deleted to its end, though some of its objects are deleted by others meanwhile.
#[tokio::test]
async fn collection_is_deleted_beside_other_deletions() {
    struct Rival(Mutex<Option<Arc<Storage>>>);

    impl Plugin for Rival {
        fn name(&self) -> &'static str {
            "Rival"
        }

        fn validate<'a>(
            &'a self,
            attributes: &'a Attributes<'a>,
            _: Option<&'a Value>,
        ) -> Pending<'a, Result<(), StatusError>> {
            let first = attributes.old.is_some_and(|o| o.str_at(&["metadata", "name"]) == "m0");
            Box::pin(async move {
                let storage = self.0.lock().unwrap().clone().filter(|_| first);
                if let Some(storage) = storage {
                    storage.discard("ns", "m1").await?;
                    storage.discard("ns", "m3").await?;
                }
                Ok(())
            })
        }
    }

    let rival = Arc::new(Rival(Mutex::default()));
    let plugins: Vec<Arc<dyn Plugin>> = vec![rival.clone()];
    let server = InMemory::empty(Format::Json, |storages| {
        *rival.0.lock().unwrap() = storages.get("", "configmaps").cloned();
        Endpoints {
            admission: Admission::new(plugins),
            authorizer: Some(Arc::new(AlwaysAllow)),
            min_request_timeout: MIN_REQUEST_TIMEOUT,
            connecters: Default::default(),
            features: Default::default(),
            shard_selectors: None,
        }
    })
    .await;
    assert!(rival.0.lock().unwrap().is_some(), "there are config maps");
    for number in 0..5 {
        server.ok(&format!("POST {CM}"), &map(&format!("m{number}")), 201).await;
    }
    let deleted = server.ok(&format!("DELETE {CM}"), "", 200).await;
    assert_eq!(deleted.matches(r#"{"metadata":{"name":"m"#).count(), 5, "{deleted}");
    let left = server.ok(&format!("GET {CM}"), "", 200).await;
    assert!(left.contains(r#""items":[]"#), "{left}");
}
