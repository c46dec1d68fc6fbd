//! Authorization matrix: every form of request by users with every kind of rights, to both servers, or to Kevel and
//! compared with recorded answers of the reference. Kevel must never serve what the reference forbids.

mod answer;
mod cases;
mod fixtures;
mod record;
mod users;
mod wire;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use self::answer::Answer;
use self::cases::Case;
use self::record::Answers;
use self::wire::{Kept, Wire};
use crate::Result;
use crate::client::{Client, Request};
use crate::control_plane::{ControlPlane, Server, cache, tree};
use crate::store::StoreKind;

/// Number of concurrent requests.
const AT_A_TIME: usize = 8;
/// Limit on printed differences.
const SHOWN: usize = 100;

/// Servers to ask, and the use of their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Asks both servers, started for the purpose.
    Both,
    /// Asks the reference and records its answers.
    Record,
    /// Asks Kevel and compares with the recorded answers.
    Recorded,
}

/// Sends all cases, and prints where answers differ. Returns whether Kevel serves nothing that the reference refuses,
/// and differs only as expected.
pub async fn run(mode: Mode, store: StoreKind) -> Result<bool> {
    let cases = Arc::new(cases::all());
    let reference = match mode {
        Mode::Recorded => record::read(&cases, &fs::read_to_string(recording())?)?,
        Mode::Both | Mode::Record => answers(Server::Reference, store, &cases).await?,
    };
    if mode == Mode::Record {
        fs::create_dir_all(folder())?;
        fs::write(recording(), record::write(&cases, &reference))?;
        return Ok(true);
    }
    let kevel = answers(Server::Kevel, store, &cases).await?;
    compare(&cases, &reference, &kevel)
}

fn compare(cases: &[Case], reference: &[Answers], kevel: &[Answers]) -> Result<bool> {
    let expected = fs::read_to_string(folder().join("expected-differences.txt"))?;
    let expected = expected.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let expected: BTreeSet<&str> = expected.collect();
    let mut differs = BTreeSet::new();
    let (mut equal, mut known, mut let_in, mut failed) = (0, 0, 0, 0);
    for (case, (theirs, ours)) in cases.iter().zip(reference.iter().zip(kevel)) {
        let title = case.title();
        for (user, (theirs, ours)) in case.users.iter().zip(theirs.iter().zip(ours)) {
            if theirs == ours {
                equal += 1;
                continue;
            }
            differs.insert(title.clone());
            let lets_in = ours.lets_in(theirs);
            if expected.contains(title.as_str()) && !lets_in {
                known += 1;
                continue;
            }
            let_in += usize::from(lets_in);
            failed += 1;
            if failed <= SHOWN {
                let mark = if lets_in { "✗ LETS IN" } else { "✗" };
                println!("{mark} {user} {title}\n    reference: {theirs}\n    kevel:     {ours}");
            }
        }
    }
    let gone = expected.iter().filter(|title| !differs.contains(**title));
    gone.for_each(|title| println!("no longer differs: {title}"));
    println!("{known} answers differ as expected, {let_in} were allowed");
    println!("{equal} passed, {failed} failed");
    Ok(failed == 0)
}

/// Sends all cases to a fresh server.
async fn answers(server: Server, store: StoreKind, cases: &Arc<Vec<Case>>) -> Result<Vec<Answers>> {
    let folder = cache().join("run").join(format!("matrix-{}", server.name()));
    let mut plane = ControlPlane::prepare(&folder)?;
    let tokens = folder.join("tokens.csv");
    fs::write(&tokens, users::tokens())?;
    plane.flags = vec![
        format!("--token-auth-file={}", tokens.display()),
        // In addition to RBAC.
        "--authorization-mode=Node".to_owned(),
    ];
    plane.start_fresh(server, store).await?;
    let client = plane.client(1)?;
    let wire = Wire::new(&folder.join("pki"), plane.port)?;
    fixtures::make(&client).await?;
    users::grant(&client, &wire).await?;
    let begun = Instant::now();
    let answers = ask_all(&wire, &client, cases).await?;
    let asked: usize = cases.iter().map(|case| case.users.len()).sum();
    println!("{}: {asked} requests in {:.1?}", server.name(), begun.elapsed());
    plane.stop_all()?;
    Ok(answers)
}

async fn ask_all(wire: &Wire, client: &Client, cases: &Arc<Vec<Case>>) -> Result<Vec<Answers>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (wire, cases, next) = (wire.clone(), cases.clone(), next.clone());
        workers.spawn(async move {
            let mut kept = None;
            let mut answered = Vec::new();
            while let Some((index, case)) = take(&cases, &next) {
                if !case.real {
                    answered.push((index, ask(&wire, &mut kept, case).await));
                }
            }
            answered
        });
    }
    let mut all: Vec<Answers> = cases.iter().map(|_| Vec::new()).collect();
    for (index, answers) in workers.join_all().await.into_iter().flatten() {
        all[index] = answers;
    }
    // One after the other, from the same state.
    for (case, answers) in cases.iter().zip(&mut all).filter(|(case, _)| case.real) {
        let mut kept = None;
        for user in case.users {
            let answer = ask_one(wire, &mut kept, case, user).await;
            answers.push(answer.then(&restore(client).await?));
        }
    }
    Ok(all)
}

fn take<'c>(cases: &'c [Case], next: &AtomicUsize) -> Option<(usize, &'c Case)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, cases.get(index)?))
}

async fn ask(wire: &Wire, kept: &mut Kept, case: &Case) -> Answers {
    let mut answers = Vec::new();
    for user in case.users {
        answers.push(ask_one(wire, kept, case, user).await);
    }
    answers
}

async fn ask_one(wire: &Wire, kept: &mut Kept, case: &Case, user: &str) -> Answer {
    match wire.ask(kept, case, user).await {
        Ok(response) => Answer::of(&response),
        Err(error) => Answer(format!("no answer: {error}")),
    }
}

/// Collections that real writes change.
const WRITTEN: [&str; 2] =
    ["/api/v1/namespaces/a/configmaps", "/apis/coordination.k8s.io/v1/namespaces/a/leases"];

/// Restores the collections; returns the additional and the missing objects.
async fn restore(client: &Client) -> Result<String> {
    let should = BTreeSet::from(["foo".to_owned(), "bar".to_owned()]);
    let mut found = Vec::new();
    for path in WRITTEN {
        let list = client.json(Request::get(path)).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let names = items.iter().filter_map(|item| item["metadata"]["name"].as_str());
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        for name in names.difference(&should) {
            found.push(format!("+{name}"));
            client.json(Request::delete(format!("{path}/{name}"))).await?;
        }
        for name in should.difference(&names) {
            found.push(format!("-{name}"));
            let object = serde_json::json!({"metadata": {"name": name}});
            client.json(Request::post(path, &object)).await?;
        }
    }
    Ok(if found.is_empty() { "nothing".to_owned() } else { found.join(" ") })
}

fn folder() -> PathBuf {
    tree().join("conformance/matrix")
}

fn recording() -> PathBuf {
    folder().join("recorded.txt")
}
