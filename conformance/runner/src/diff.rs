//! Scenarios on both servers, or on one of them against recorded answers of the other.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::Result;
use crate::control_plane::{ControlPlane, Server, cache, tree};
use crate::difference::differences;
use crate::hooks::Hooks;
use crate::scenario::{self, Step};
use crate::store::StoreKind;

/// Limit on printed differences of one answer.
const SHOWN: usize = 12;

/// Servers to ask, and the use of their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Asks both servers, started for the purpose.
    Both,
    /// Asks the reference and records its answers beside the scenarios.
    Record,
    /// Asks Kevel and compares with the recorded answers. Fails on an unexpected difference.
    Recorded,
    /// Like `Recorded`, and the differences become the expected ones.
    Expect,
}

/// Plays scenarios (all if none is named) on fresh servers and prints where answers differ.
pub async fn run(mode: Mode, store: StoreKind, topics: &[String]) -> Result<bool> {
    let scenarios = load(topics)?;
    let recorded = matches!(mode, Mode::Recorded | Mode::Expect);
    let reference = if recorded {
        recall(&scenarios)?
    } else {
        answers(Server::Reference, store, &scenarios).await?
    };
    if mode == Mode::Record {
        return record(&scenarios, &reference).map(|()| true);
    }
    let kevel = answers(Server::Kevel, store, &scenarios).await?;

    let expected = if recorded { expected()? } else { BTreeSet::new() };
    let mut found = BTreeSet::new();
    let (mut equal, mut new) = (0, 0);
    for ((topic, steps), (ones, others)) in scenarios.iter().zip(reference.iter().zip(&kevel)) {
        for (number, (step, (one, other))) in steps.iter().zip(ones.iter().zip(others)).enumerate()
        {
            let name = format!("{topic} {} {}", number + 1, step.title);
            let differences = differences(one, other);
            if differences.is_empty() {
                equal += 1;
                if expected.contains(&name) {
                    println!("no longer differs: {name}");
                }
                continue;
            }
            if !expected.contains(&name) {
                new += 1;
                println!("✗ {name}");
                telling(one, other, differences)
                    .iter()
                    .take(SHOWN)
                    .for_each(|line| println!("    {line}"));
            }
            found.insert(name);
        }
    }
    if mode == Mode::Expect {
        let text: String = found.iter().map(|name| format!("{name}\n")).collect();
        fs::write(folder().join("expected-differences.txt"), text)?;
        new = 0;
    }
    println!("{} answers differ as expected", found.len() - new);
    println!("{equal} passed, {new} failed");
    Ok(new == 0)
}

/// Differences of answers with different codes: only the codes and messages.
fn telling(one: &Value, other: &Value, differences: Vec<String>) -> Vec<String> {
    if one["code"] == other["code"] {
        return differences;
    }
    let said = |answer: &Value| {
        let telling = [&answer["error"], &answer["body"]["message"], &answer["body"]["kind"]];
        let what = telling.into_iter().find(|what| !what.is_null()).unwrap_or(&answer["body"]);
        format!("{} {what}", answer["code"])
    };
    vec![format!("reference: {}", said(one)), format!("kevel:     {}", said(other))]
}

type Scenarios = Vec<(String, Vec<Step>)>;

fn load(topics: &[String]) -> Result<Scenarios> {
    let mut topics = topics.to_vec();
    if topics.is_empty() || topics.iter().any(|topic| topic == "all") {
        let files = fs::read_dir(folder())?.filter_map(|entry| Some(entry.ok()?.path()));
        let scenarios = files.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
        topics =
            scenarios.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
        topics.sort();
    }
    let read = |topic: String| {
        let steps = scenario::read(&folder().join(format!("{topic}.yaml")))?;
        Ok((topic, steps))
    };
    topics.into_iter().map(read).collect()
}

/// Plays all scenarios on a fresh server.
async fn answers(
    server: Server,
    store: StoreKind,
    scenarios: &Scenarios,
) -> Result<Vec<Vec<Value>>> {
    let folder = cache().join("run").join(format!("diff-{}", server.name()));
    let mut plane = ControlPlane::prepare(&folder)?;
    plane.start_fresh(server, store).await?;
    let client = plane.client(1)?;
    let hooks = Hooks::start().await?;
    let mut answers = Vec::new();
    for (_, steps) in scenarios {
        answers.push(scenario::play(steps, &client, &hooks).await?);
    }
    plane.stop_all()?;
    Ok(answers)
}

fn record(scenarios: &Scenarios, answers: &[Vec<Value>]) -> Result<()> {
    fs::create_dir_all(folder().join("recorded"))?;
    for ((topic, steps), answers) in scenarios.iter().zip(answers) {
        let played = steps.iter().zip(answers);
        let steps: Vec<Value> =
            played.map(|(step, answer)| json!({"do": step.title, "answer": answer})).collect();
        fs::write(recording(topic), serde_json::to_string_pretty(&steps)? + "\n")?;
        println!("{topic}: {} answers", steps.len());
    }
    Ok(())
}

fn recall(scenarios: &Scenarios) -> Result<Vec<Vec<Value>>> {
    let mut all = Vec::new();
    for (topic, steps) in scenarios {
        let missing = |error| format!("{topic}: {error}: conformance diff --record {topic}");
        let text = fs::read(recording(topic)).map_err(missing)?;
        let recorded: Vec<Value> = serde_json::from_slice(&text)?;
        let same = recorded.len() == steps.len()
            && recorded
                .iter()
                .zip(steps)
                .all(|(recorded, step)| recorded["do"] == step.title.as_str());
        if !same {
            return Err(
                format!("{topic} has changed since: conformance diff --record {topic}").into()
            );
        }
        all.push(recorded.into_iter().map(|mut step| step["answer"].take()).collect());
    }
    Ok(all)
}

fn expected() -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(folder().join("expected-differences.txt")).unwrap_or_default();
    Ok(text.lines().map(str::to_owned).collect())
}

fn folder() -> PathBuf {
    tree().join("conformance/scenarios")
}

fn recording(topic: &str) -> PathBuf {
    folder().join("recorded").join(format!("{topic}.json"))
}
