use kevel_server::audit::*;
use kevel_server::metrics::Metrics;
use kevel_server::request_info::RequestInfo;
use std::sync::Arc;
use std::time::Instant;
fn main() {
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async {
        let metrics = Metrics::default();
        let errors = Errors::new(&metrics);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let out = Output::open(
            path.to_str().unwrap(),
            Rotation { max_bytes: 100 << 20, max_backups: 2, ..Rotation::default() },
        )
        .unwrap();
        let log = Log::new(out, Format::Json, errors.clone());
        let user = kevel_server::user::User {
            name: "admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..Default::default()
        };
        let event = Event {
            level: Level::Metadata,
            audit_id: "0a6c7a4e-3f0a-4b8e-9a3b-1a2b3c4d5e6f".into(),
            stage: Stage::ResponseComplete,
            request_uri: "/api/v1/namespaces/default/pods?limit=500".into(),
            verb: "list",
            user: Some(Arc::new(user.clone())),
            user_agent: "kubectl/v1.36.3 (linux/amd64) kubernetes/abcdef".into(),
            source_ips: vec![[127, 0, 0, 1].into()],
            object_ref: Some(ObjectReference {
                resource: "pods".into(),
                namespace: "default".into(),
                api_version: "v1".into(),
                ..Default::default()
            }),
            response_status: Some(ResponseStatus::code(200)),
            annotations: [
                ("authorization.k8s.io/decision".to_string(), "allow".to_string()),
                ("authorization.k8s.io/reason".into(), "".into()),
            ]
            .into(),
            ..Event::default()
        };
        const N: u32 = 200_000;
        let t = Instant::now();
        let mut bytes = 0;
        for _ in 0..N {
            bytes += event.to_json().len();
        }
        println!("to_json {:?} ({} bytes)", t.elapsed() / N, bytes / N as usize);
        let t = Instant::now();
        for _ in 0..N {
            std::hint::black_box(Arc::new(event.clone()));
        }
        println!("clone {:?}", t.elapsed() / N);
        let event = [Arc::new(event)];
        let t = Instant::now();
        for _ in 0..N {
            log.process(&event).await;
        }
        println!("log, blocking {:?}", t.elapsed() / N);
        let rules: String = (0..30)
            .map(|i| {
                format!(
                    "- {{level: None, users: [u{i}], resources: [{{resources: [a{i}, b{i}]}}]}}\n"
                )
            })
            .collect();
        let policy = Policy::parse(
            format!(
                "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}- {{level: Metadata}}\n"
            )
            .as_bytes(),
        )
        .unwrap();
        let info = RequestInfo::new(
            &http::Method::GET,
            &"/api/v1/namespaces/default/pods".parse().unwrap(),
        );
        let t = Instant::now();
        for _ in 0..N {
            std::hint::black_box(policy.evaluate(&info, Some(&user)));
        }
        println!("policy of 31 rules {:?}", t.elapsed() / N);
    });
}
