//! Planted errors: the cases of the built-in kinds' rules, with the answers of the reference, as manifests.

#[path = "../../../controlplane/tests/verbs/rules/case.rs"]
#[allow(dead_code)] // Recording is the business of `conformance rules`.
mod case;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use kevel_api::builtin;
use kevel_api::value::Value;
use kevel_codec::yaml;

use crate::check;
use case::{Answer, Cases, FILES};

/// Plug-ins that would change objects, and so the messages: the answers were recorded without them.
const FLAGS: &str = "--disable-admission-plugins=DefaultTolerationSeconds,PersistentVolumeClaimResize,Priority,\
                     RuntimeClass,ServiceAccount";
/// Network of the Services of the reference that was asked.
const RANGE: &str = "--service-cluster-ip-range=10.96.0.0/16";
/// Error of a server that allows no privileged containers. Clusters do, and so does the check.
const PRIVILEGED: &str = "disallowed by cluster policy";

/// Takes the objects that cases create, and answers nothing.
#[derive(Default)]
struct Recorder(RefCell<Vec<(String, Value)>>);

impl case::Server for Recorder {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        assert_eq!(method, "POST");
        self.0.borrow_mut().push((path.to_owned(), body.clone()));
        Answer { code: 201, warnings: Vec::new(), body: Value::Null }
    }
}

/// A manifest, and what the reference has said about it.
struct Planted {
    name: String,
    text: String,
    errors: Vec<String>,
    warnings: Vec<String>,
}

async fn planted(file: &str) -> Vec<Planted> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controlplane/src");
    let text = fs::read_to_string(sources.join(file)).unwrap();
    let cases = Cases::read(&text);
    let mut planted = Vec::new();
    for (number, case) in cases.cases.iter().enumerate() {
        let (errors, warnings) = (&case.expected.errors, &case.expected.warnings);
        let foreign = errors.iter().any(|error| error.contains(PRIVILEGED));
        if !case.text.starts_with("create") || (errors.is_empty() && warnings.is_empty()) || foreign
        {
            continue;
        }
        let recorder = Recorder::default();
        cases.play(number, &recorder).await;
        let (path, mut object) = recorder.0.into_inner().pop().unwrap();
        let (api_version, kind) = kind_at(&path);
        let fields = object.make_map(&[]);
        fields.insert("apiVersion", api_version.as_str().into());
        fields.insert("kind", kind.into());
        if let Some((_, rest)) = path.split_once("/namespaces/") {
            let namespace = rest.split('/').next().unwrap();
            let metadata = object.make_map(&["metadata"]);
            if !metadata.contains_key("namespace") {
                metadata.insert("namespace", namespace.into());
            }
        }
        let mut text = Vec::new();
        yaml::encode_any(&object, &mut text).unwrap();
        planted.push(Planted {
            name: object.str_at(&["metadata", "name"]).to_owned(),
            text: String::from_utf8(text).unwrap(),
            errors: errors.clone(),
            warnings: warnings.clone(),
        });
    }
    planted
}

/// `apiVersion` and `kind` of the objects that are created at a path.
fn kind_at(path: &str) -> (String, &'static str) {
    let path = path.split('?').next().unwrap();
    let mut words = path.trim_start_matches('/').split('/');
    let group = if words.next() == Some("api") { "" } else { words.next().unwrap() };
    let (version, plural) = (words.next().unwrap(), path.rsplit('/').next().unwrap());
    let is_it =
        |of: &&builtin::Resource| of.group == group && of.version == version && of.path == plural;
    let resource = builtin::resources().iter().find(is_it).unwrap();
    let separator = if group.is_empty() { "" } else { "/" };
    (format!("{group}{separator}{version}"), resource.kind)
}

/// A message of the command as the cases have it: without the object, on one line.
fn cause(message: &str) -> String {
    let message = message.split_once(" is invalid: ").map_or(message, |(_, cause)| cause);
    case::without_uids(message.replace('\n', "\\n").trim_end())
}

#[tokio::test]
async fn planted_errors_have_the_messages_of_the_reference() {
    let (mut errors, mut wrong, mut lines) = (0, Vec::new(), 0);
    for file in FILES {
        let planted = planted(file).await;
        if planted.is_empty() {
            continue;
        }
        let text: String = planted.iter().map(|one| format!("{}---\n", one.text)).collect();
        let arguments = ["-f", "-", "-o", "json", "--validate=warn", RANGE, FLAGS];
        let checked = check(&arguments, text.as_bytes());
        let report: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
        let mut found: HashMap<u64, Vec<&serde_json::Value>> = HashMap::new();
        for finding in report["findings"].as_array().unwrap() {
            let line = finding["documentLine"].as_u64().unwrap();
            found.entry(line).or_default().push(finding);
        }
        let mut line = 1;
        for one in &planted {
            let findings = found.remove(&line).unwrap_or_default();
            line += one.text.lines().count() as u64 + 1;
            let of = |level: &str| {
                let of_level = findings.iter().filter(|finding| finding["level"] == level);
                let said = of_level.map(|finding| cause(finding["message"].as_str().unwrap()));
                said.collect::<BTreeSet<String>>()
            };
            // The command has them in the order of the lines.
            let expected = [&one.errors, &one.warnings].map(|all| all.iter().cloned().collect());
            let found = [of("error"), of("warning")];
            if found != expected {
                wrong.push(format!("{file} {}\n  {expected:?}\n  {found:?}", one.name));
            }
            errors += one.errors.len() + one.warnings.len();
            lines += findings.iter().filter(|finding| is_at_its_line(finding, &text)).count();
        }
    }
    assert!(wrong.is_empty(), "{} of {errors}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(errors >= 1000, "{errors}");
    assert!(lines >= 500, "{lines}");
}

/// Whether the line of a finding has the field that it names. The others name a field that is missing.
fn is_at_its_line(finding: &serde_json::Value, text: &str) -> bool {
    let Some(field) = finding["field"].as_str() else { return false };
    let line = usize::try_from(finding["line"].as_u64().unwrap()).unwrap();
    let line = text.lines().nth(line - 1).unwrap();
    let last = field.rsplit(['.', '[']).next().unwrap().trim_end_matches(']');
    match last.parse::<usize>() {
        Ok(_) => line.trim_start().starts_with("- "),
        Err(_) => line.contains(&format!("{last}:")),
    }
}
