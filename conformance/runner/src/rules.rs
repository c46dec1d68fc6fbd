//! What the reference says about the cases of rules that stand beside the kinds.

/// Cases are read and played as the control plane's own tests do it.
#[path = "../../../crates/controlplane/tests/verbs/rules/case.rs"]
#[allow(clippy::unwrap_used)] // A mistake in a file of cases ends the command.
mod case;

use std::fs;

use http::Method;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any, encode_any};

use self::case::{Answer, Cases, FILES, GATED_FILES, GATES};
use crate::Result;
use crate::client::{Client, Request};
use crate::control_plane::{ControlPlane, Server, cache, tree};

/// Rules alone decide: what plug-ins add to pods would stand in messages.
const FLAGS: [&str; 2] = [
    "--disable-admission-plugins=DefaultTolerationSeconds,PersistentVolumeClaimResize,Priority,RuntimeClass,\
     ServiceAccount",
    "--allow-privileged=false",
];

/// Plays the cases of all files, or of those whose names have one of the words in them, on fresh references
/// and writes down what they say.
pub async fn run(words: &[String]) -> Result<bool> {
    let wanted = |file: &&str| words.is_empty() || words.iter().any(|word| file.contains(word));
    let chosen = |files: &[&'static str]| files.iter().copied().filter(wanted).collect::<Vec<_>>();
    let gates = GATES.iter().map(|gate| format!("{gate}=true")).collect::<Vec<_>>().join(",");
    let gated = [
        "--runtime-config=api/all=true".to_owned(),
        format!("--feature-gates={gates}"),
        "--disable-admission-plugins=PodGroupWorkloadExists".to_owned(),
    ];
    play(&chosen(FILES), &[]).await?;
    play(&chosen(GATED_FILES), &gated).await?;
    Ok(true)
}

async fn play(files: &[&str], flags: &[String]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let mut plane = ControlPlane::prepare(&cache().join("run").join("rules"))?;
    plane.flags = FLAGS.iter().map(|flag| (*flag).to_owned()).chain(flags.to_vec()).collect();
    plane.start_server(Server::Reference, true).await?;
    let recorded = record(files, &plane.client(1)?).await;
    plane.stop_all()?;
    recorded
}

async fn record(files: &[&str], client: &Client) -> Result<()> {
    let namespace = br#"{"metadata":{"name":"ns"}}"#.as_slice();
    let path = "/api/v1/namespaces".to_owned();
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let body = namespace.into();
    client.json(Request { method: Method::POST, path, headers, body }).await?;
    for file in files {
        let path = tree().join("crates/controlplane/src").join(file);
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
    }
    Ok(())
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

/// The text of a warning: `299 - "text"`.
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
