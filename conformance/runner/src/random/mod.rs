//! Random writes, sent to both servers, or to Kevel and compared with recorded answers of the reference.
//!
//! The requests are not selected by hand, so that a difference found here stands for more of its kind. A seed always
//! gives the same requests (`source`), so that their answers can be recorded.

mod mutate;
pub(crate) mod source;
mod writes;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

use crate::Result;
use crate::control_plane::{ControlPlane, Server, cache, tree};
use crate::difference::differences;
use crate::flags::ExtraFlags;
use crate::hooks::Hooks;
use crate::scenario::{self, Step};
use crate::store::StoreKind;

/// Seed of the recorded answers.
pub const SEED: u64 = 1;
/// Number of recorded answers.
pub const COUNT: usize = 600;
/// Placeholder of an answer that varies on the reference.
const UNSTABLE: &str = "~";
/// Limits on printed differences, and on lines of each.
const SHOWN: (usize, usize) = (40, 4);

/// Servers to ask, and the use of their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Asks both servers, started for the purpose.
    Both,
    /// Asks the reference and records its answers.
    Record,
    /// Asks Kevel and compares with the recorded answers. Fails on an unexpected difference.
    Recorded,
}

/// Sends the writes of a seed to fresh servers and prints where the answers differ.
pub async fn run(
    mode: Mode,
    store: StoreKind,
    seed: u64,
    count: usize,
    flags: ExtraFlags,
) -> Result<bool> {
    let bases = writes::bases(&flags)?;
    let (before, steps) = (writes::preparation(&bases), writes::writes(&bases, seed, count));
    match mode {
        Mode::Both => {
            let reference = answers(Server::Reference, store, &flags, &before, &steps).await?;
            let kevel = answers(Server::Kevel, store, &flags, &before, &steps).await?;
            Ok(compare(&steps, &reference, &kevel))
        }
        Mode::Record => {
            // Sent twice, because the reference reports errors about several keys of one map in any order.
            let twice: Vec<Step> = steps.iter().chain(&steps).cloned().collect();
            let answers = answers(Server::Reference, store, &flags, &before, &twice).await?;
            let (first, second) = answers.split_at(steps.len());
            let told = |(step, (first, second)): (&Step, (&Value, &Value))| match first == second {
                true => line(step, first),
                false => format!("{UNSTABLE}\n"),
            };
            let lines: String = steps.iter().zip(first.iter().zip(second)).map(told).collect();
            fs::create_dir_all(folder())?;
            fs::write(folder().join("recorded.txt"), format!("seed {seed}\n{lines}"))?;
            println!("{} answers", steps.len());
            Ok(true)
        }
        Mode::Recorded => recorded(store, &before, &bases).await,
    }
}

/// Sends all requests to a fresh server.
async fn answers(
    server: Server,
    store: StoreKind,
    flags: &ExtraFlags,
    before: &[Step],
    steps: &[Step],
) -> Result<Vec<Value>> {
    let folder = cache().join("run").join(format!("random-{}", server.name()));
    let mut plane = ControlPlane::prepare(&folder)?;
    plane.flags = flags.flags.clone();
    plane.start_fresh(server, store).await?;
    let (client, hooks) = (plane.client(1)?, Hooks::start().await?);
    let made = scenario::play(before, &client, &hooks).await?;
    for (step, answer) in before.iter().zip(&made) {
        if answer["code"] != 201 && answer["code"] != 409 {
            println!("{}: not made: {} {answer}", server.name(), step.title);
        }
    }
    let answers = scenario::play(steps, &client, &hooks).await;
    plane.stop_all()?;
    answers.map(|answers| answers.into_iter().map(masked).collect())
}

/// Masks values that depend on the server's build and its client, besides those that change between runs.
fn masked(answer: Value) -> Value {
    let text = answer.to_string();
    let text = PLACES
        .iter()
        .fold(text, |text, (regex, mask)| regex.replace_all(&text, *mask).into_owned());
    serde_json::from_str(&text).unwrap_or(answer)
}

static PLACES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let texts = [
        (r#"(in scheme \\+")[^"\\]+"#, "${1}<place>"),
        (r"X509SHA256=[0-9a-f]{64}", "X509SHA256=<hash>"),
    ];
    let compile = |(pattern, text)| Regex::new(pattern).ok().map(|regex| (regex, text));
    texts.into_iter().filter_map(compile).collect()
});

fn compare(steps: &[Step], reference: &[Value], kevel: &[Value]) -> bool {
    let mut failed = 0;
    for (step, (one, other)) in steps.iter().zip(reference.iter().zip(kevel)) {
        let differences = differences(one, other);
        if differences.is_empty() {
            continue;
        }
        failed += 1;
        if failed <= SHOWN.0 {
            println!("✗ {} {}", step.title, step.body());
            differences.iter().take(SHOWN.1).for_each(|line| println!("    {line}"));
        }
    }
    println!("{} passed, {failed} failed", steps.len() - failed);
    failed == 0
}

/// Compares Kevel with the recorded answers, and the differences with the expected ones.
async fn recorded(store: StoreKind, before: &[Step], bases: &[writes::Base]) -> Result<bool> {
    let text = fs::read_to_string(folder().join("recorded.txt"))?;
    let (head, lines) = text.split_once('\n').ok_or("nothing is recorded")?;
    let seed = head.strip_prefix("seed ").and_then(|seed| seed.parse().ok()).ok_or("no seed")?;
    let lines: Vec<&str> = lines.lines().collect();
    let steps = writes::writes(bases, seed, lines.len());
    let expected =
        fs::read_to_string(folder().join("expected-differences.txt")).unwrap_or_default();
    let expected: Vec<&str> = expected.lines().collect();
    let answers = answers(Server::Kevel, store, &ExtraFlags::default(), before, &steps).await?;
    let (mut known, mut failed) = (0, 0);
    for (number, (theirs, (step, answer))) in
        lines.iter().zip(steps.iter().zip(&answers)).enumerate()
    {
        let ours = line(step, answer);
        if *theirs == UNSTABLE {
            continue;
        }
        match (*theirs == ours.trim_end(), expected.contains(&(number + 1).to_string().as_str())) {
            (true, false) => {}
            (true, true) => println!("no longer differs: {}", number + 1),
            (false, true) => known += 1,
            (false, false) => {
                failed += 1;
                println!(
                    "✗ {} {}\n    reference: {theirs}\n    kevel:     {}",
                    number + 1,
                    step.body(),
                    ours.trim_end()
                );
            }
        }
    }
    println!("{known} answers differ as expected");
    println!("{} passed, {failed} failed", lines.len() - known - failed);
    Ok(failed == 0)
}

/// An answer in a line: the request, the code, a digest, and the beginning of the message.
fn line(step: &Step, answer: &Value) -> String {
    let said = answer["body"]["message"].as_str().unwrap_or_default();
    let said: String =
        said.chars().take(120).map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{} {} {:016x} {said}\n", step.title, answer["code"], digest(&answer.to_string()))
        .replace(" \n", "\n")
}

/// FNV-1a: the same on every machine; collisions are no concern here.
fn digest(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn folder() -> PathBuf {
    tree().join("conformance/random")
}
