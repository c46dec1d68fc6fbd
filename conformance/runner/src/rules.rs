//! Cases of validation rules, which are beside the kinds: recorded from the reference, and compared with Kevel on
//! either store.

/// Decodes and plays cases as the control plane's own tests do.
#[path = "../../../crates/controlplane/tests/verbs/rules/case.rs"]
#[allow(clippy::unwrap_used)] // A mistake in a file of cases ends the command.
mod case;

use std::fs;
use std::path::PathBuf;

use http::Method;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any, encode_any};
use serde_json::json;

use self::case::{Answer, Cases, FILES, GATED_FILES, GATES};
use crate::Result;
use crate::client::{Client, Request};
use crate::control_plane::{ControlPlane, Server, cache, tree};
use crate::store::StoreKind;

/// Flags that leave the decision to validation: plug-ins would change pods, and so the messages.
const FLAGS: [&str; 2] = [
    "--disable-admission-plugins=DefaultTolerationSeconds,PersistentVolumeClaimResize,Priority,RuntimeClass,\
     ServiceAccount",
    "--allow-privileged=false",
];

/// Plays the cases of all files, or of files whose names contain one of the words, on fresh references and records
/// their answers.
pub async fn record(words: &[String]) -> Result<bool> {
    for (files, flags) in servers(words) {
        let mut plane = start(Server::Reference, StoreKind::Etcd, flags).await?;
        let recorded = record_files(&plane, &files).await;
        plane.stop_all()?;
        recorded?;
    }
    Ok(true)
}

/// Plays the same cases on fresh Kevel servers and prints differences from the recording.
pub async fn compare(store: StoreKind, words: &[String]) -> Result<bool> {
    let (mut passed, mut failed) = (0, 0);
    for (files, flags) in servers(words) {
        let mut plane = start(Server::Kevel, store, flags).await?;
        let compared = compare_files(&plane, &files).await;
        plane.stop_all()?;
        let (same, others) = compared?;
        (passed, failed) = (passed + same, failed + others);
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// Selected files, with the flags of their server.
fn servers(words: &[String]) -> Vec<(Vec<&'static str>, Vec<String>)> {
    let wanted = |file: &&str| words.is_empty() || words.iter().any(|word| file.contains(word));
    let chosen = |files: &[&'static str]| files.iter().copied().filter(wanted).collect::<Vec<_>>();
    let gates = GATES.iter().map(|gate| format!("{gate}=true")).collect::<Vec<_>>().join(",");
    let gated = vec![
        "--runtime-config=api/all=true".to_owned(),
        format!("--feature-gates={gates}"),
        "--disable-admission-plugins=PodGroupWorkloadExists".to_owned(),
    ];
    let mut servers = vec![(chosen(FILES), Vec::new()), (chosen(GATED_FILES), gated)];
    servers.retain(|(files, _)| !files.is_empty());
    servers
}

/// Starts a server with the namespace of the cases.
async fn start(server: Server, store: StoreKind, flags: Vec<String>) -> Result<ControlPlane> {
    let folder = cache().join("run").join(format!("rules-{}", server.name()));
    let mut plane = ControlPlane::prepare(&folder)?;
    plane.flags = FLAGS.iter().map(|flag| (*flag).to_owned()).chain(flags).collect();
    plane.start_fresh(server, store).await?;
    let namespace = json!({"metadata": {"name": "ns"}});
    let made = plane.client(1)?.json(Request::post("/api/v1/namespaces", &namespace)).await;
    match made {
        Ok(_) => Ok(plane),
        Err(error) => plane.stop_all().and(Err(error)),
    }
}

async fn record_files(plane: &ControlPlane, files: &[&str]) -> Result<()> {
    let client = plane.client(1)?;
    for file in files {
        record_file(file, &client).await?;
    }
    Ok(())
}

/// Numbers of cases with the recorded outcome, and with another.
async fn compare_files(plane: &ControlPlane, files: &[&str]) -> Result<(usize, usize)> {
    let client = plane.client(1)?;
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        let (same, others) = compare_file(file, &client).await?;
        (passed, failed) = (passed + same, failed + others);
    }
    Ok((passed, failed))
}

async fn record_file(file: &str, client: &Client) -> Result<()> {
    let path = path(file);
    let text = fs::read_to_string(&path)?;
    let cases = Cases::read(&text);
    let mut outcomes = Vec::new();
    for number in 0..cases.cases.len() {
        outcomes.push(cases.play(number, client).await);
    }
    let known = cases.cases.iter().map(|case| &case.expected);
    let changed = known.zip(&outcomes).filter(|(known, found)| known != found).count();
    fs::write(&path, cases.record(&outcomes))?;
    println!("{file}: {} cases, {changed} with other answers than before", outcomes.len());
    Ok(())
}

/// Numbers of cases of one file with the recorded outcome, and with another.
async fn compare_file(file: &str, client: &Client) -> Result<(usize, usize)> {
    let text = fs::read_to_string(path(file))?;
    let cases = Cases::read(&text);
    let mut failed = 0;
    for (number, case) in cases.cases.iter().enumerate() {
        let found = cases.play(number, client).await;
        if found != case.expected {
            failed += 1;
            println!("✗ {file}\n{}\n    kevel: {found:?}", case.text);
        }
    }
    Ok((cases.cases.len() - failed, failed))
}

fn path(file: &str) -> PathBuf {
    tree().join("crates/controlplane/src").join(file)
}

impl case::Server for Client {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let mut text = Vec::new();
        encode_any(body, &mut text);
        let request = Request {
            method: if method == "POST" { Method::POST } else { Method::PUT },
            path: path.to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: text.into(),
        };
        match self.send(request).await {
            Ok(answer) => match decode_any(&answer.body, Unknown::Ignore) {
                Ok(decoded) => {
                    let warnings = answer.headers.get_all("warning").into_iter();
                    let warnings = warnings.filter_map(|warning| unquoted(warning.to_str().ok()?));
                    Answer { code: answer.code, warnings: warnings.collect(), body: decoded.value }
                }
                Err(error) => panic!("{path}: {error}"),
            },
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

/// Text of a warning: `299 - "text"`.
fn unquoted(warning: &str) -> Option<String> {
    let text = warning.split_once(" \"")?.1.strip_suffix('"')?;
    let (mut out, mut escaped) = (String::new(), false);
    for c in text.chars() {
        match (c, escaped) {
            ('\\', false) => escaped = true,
            (c, _) => {
                out.push(c);
                escaped = false;
            }
        }
    }
    Some(out)
}
