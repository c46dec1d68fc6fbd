//! The next step of an election: what there is to do about a lease and those who would like to have it. No state is kept:
//! everything is in the objects and the time.

use kevel_api::time::{MicroTime, Time};
use kevel_api::value::Value;

use super::OLDEST;
use super::version::Version;

/// For how long candidates may answer, and for how long an answer counts.
const ELECTION_SECONDS: i64 = 5;
/// For how long somebody who says nothing is a candidate.
const VALID_SECONDS: i64 = 30 * 60;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Step<'c> {
    /// Nothing: the holder is the right one.
    Nothing,
    /// Wait for candidates who were asked whether they are there; ask these, too.
    Ask(Vec<&'c Candidate>),
    /// Give the lease to the holder; to nobody where somebody else knows the strategy.
    Elect {
        /// How it was chosen.
        strategy: &'c str,
        /// Who was chosen.
        holder: Option<&'c str>,
    },
}

/// Somebody who would like to have a lease.
#[derive(Debug)]
pub(super) struct Candidate {
    pub name: String,
    strategy: String,
    emulation: Option<Version>,
    binary: Option<Version>,
    created: Time,
    asked: Option<MicroTime>,
    renewed: MicroTime,
    /// As it was read.
    pub object: Value,
}

impl Candidate {
    /// `None` if it has not been heard of for too long.
    pub fn new(object: Value, now: MicroTime) -> Option<Self> {
        let spec = |field| object.str_at(&["spec", field]);
        Some(Candidate {
            name: object.str_at(&["metadata", "name"]).to_owned(),
            strategy: spec("strategy").to_owned(),
            emulation: Version::parse(spec("emulationVersion")),
            binary: Version::parse(spec("binaryVersion")),
            created: object
                .str_at(&["metadata", "creationTimestamp"])
                .parse()
                .unwrap_or(Time::ZERO),
            asked: spec("pingTime").parse().ok(),
            renewed: still_valid(&object, now)?,
            object,
        })
    }

    /// Whether it was asked and has not answered.
    fn is_silent(&self) -> bool {
        self.asked.is_some_and(|asked| self.renewed < asked)
    }

    fn was_asked_lately(&self, now: MicroTime) -> bool {
        self.asked.is_some_and(|asked| asked.plus_seconds(ELECTION_SECONDS) > now)
    }

    fn has_answered_lately(&self, now: MicroTime) -> bool {
        self.renewed.plus_seconds(ELECTION_SECONDS) > now
    }
}

/// When a candidate was heard of, unless it is as good as gone.
fn still_valid(candidate: &Value, now: MicroTime) -> Option<MicroTime> {
    let renewed: MicroTime = candidate.str_at(&["spec", "renewTime"]).parse().ok()?;
    (renewed.plus_seconds(VALID_SECONDS) >= now).then_some(renewed)
}

/// Whether nobody has heard of a candidate for so long that it is as good as gone.
pub(super) fn has_expired(candidate: &Value, now: MicroTime) -> bool {
    still_valid(candidate, now).is_none()
}

/// Whether it was asked and has not answered: an election goes on already.
pub(super) fn is_pending(candidate: &Value) -> bool {
    let time = |field| candidate.str_at(&["spec", field]).parse::<MicroTime>().ok();
    time("renewTime").zip(time("pingTime")).is_some_and(|(renewed, asked)| renewed < asked)
}

/// Whether a lease is nobody's any more.
pub(super) fn lease_has_expired(lease: &Value, now: MicroTime) -> bool {
    let renewed = lease.str_at(&["spec", "renewTime"]).parse::<MicroTime>();
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_int);
    renewed.ok().zip(seconds).is_none_or(|(renewed, seconds)| renewed.plus_seconds(seconds) < now)
}

/// Who has a lease.
pub(super) fn holder(lease: &Value) -> &str {
    lease.str_at(&["spec", "holderIdentity"])
}

/// Says what to do about a lease, if there is one, and its candidates.
pub(super) fn step<'c>(
    lease: Option<&Value>,
    candidates: &'c [Candidate],
    now: MicroTime,
) -> Result<Step<'c>, String> {
    if candidates.is_empty() || !is_needed(lease, candidates, now)? {
        return Ok(Step::Nothing);
    }
    let waiting = candidates.iter().any(|who| who.is_silent() && who.was_asked_lately(now));
    // Who has not answered is not asked again.
    let unasked = candidates.iter().filter(|who| {
        !who.is_silent() && !who.was_asked_lately(now) && !who.has_answered_lately(now)
    });
    let unasked: Vec<&Candidate> = unasked.collect();
    if waiting || !unasked.is_empty() {
        return Ok(Step::Ask(unasked));
    }
    let present: Vec<&Candidate> =
        candidates.iter().filter(|candidate| candidate.has_answered_lately(now)).collect();
    let strategy = strategy(&present)?;
    let holder = if strategy == OLDEST { oldest(&present) } else { None };
    Ok(Step::Elect { strategy, holder: holder.map(|candidate| candidate.name.as_str()) })
}

/// Whether somebody should be elected.
fn is_needed(
    lease: Option<&Value>,
    candidates: &[Candidate],
    now: MicroTime,
) -> Result<bool, String> {
    let held = lease.filter(|lease| !lease_has_expired(lease, now) && !holder(lease).is_empty());
    let Some(lease) = held else { return Ok(true) };
    // Now and then everybody is asked, so that those who are there do not expire.
    let quiet = |who: &Candidate| who.renewed.plus_seconds(VALID_SECONDS / 2) < now;
    if candidates.iter().any(quiet) {
        return Ok(true);
    }
    let all: Vec<&Candidate> = candidates.iter().collect();
    if strategy(&all)? != OLDEST {
        return Ok(false);
    }
    Ok(oldest(&all).is_some_and(|best| best.name != holder(lease)))
}

/// The strategy of the newest binary. Those of one version have to agree.
fn strategy<'c>(candidates: &[&'c Candidate]) -> Result<&'c str, String> {
    let newest = |candidate: &&Candidate| candidate.binary.clone().unwrap_or_default();
    let newest = candidates.iter().map(newest).max().ok_or("no available candidates")?;
    let mut of_newest = candidates
        .iter()
        .filter(|candidate| candidate.binary.clone().unwrap_or_default() == newest);
    let first = of_newest.next().ok_or("no available candidates")?;
    match of_newest.find(|other| other.strategy != first.strategy) {
        None => Ok(&first.strategy),
        Some(other) => Err(format!(
            "candidates {:?}, {:?} at same binary version but received differing strategies {}, {}",
            first.name, other.name, first.strategy, other.strategy
        )),
    }
}

/// The best by `OldestEmulationVersion`: the oldest version emulated, of those the oldest binary, of those who came first.
fn oldest<'c>(candidates: &[&'c Candidate]) -> Option<&'c Candidate> {
    let versions = |who: &&'c Candidate| Some((who.emulation.clone()?, who.binary.clone()?));
    let known = candidates.iter().copied().filter(|who| versions(who).is_some());
    known.min_by_key(|who| (versions(who), who.created))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json;

    const NOW: &str = "2026-01-01T12:00:00.000000Z";

    /// `name emulation/binary renewed [asked]`, in seconds before now; `@name` has another strategy.
    fn candidates(text: &str) -> Vec<Candidate> {
        let now: MicroTime = NOW.parse().unwrap();
        let ago = |seconds: &str| now.plus_seconds(-seconds.parse::<i64>().unwrap()).to_string();
        let candidate = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (emulation, binary) = words[1].split_once('/').unwrap();
            let strategy = if words[0].starts_with('@') { "example.com/own" } else { OLDEST };
            let asked = words.get(3).map(|asked| format!(r#","pingTime":"{}""#, ago(asked)));
            let text = format!(
                r#"{{"metadata":{{"name":"{}","creationTimestamp":"2026-01-01T00:00:00Z"}},
                    "spec":{{"strategy":"{strategy}","emulationVersion":"{emulation}",
                    "binaryVersion":"{binary}","renewTime":"{}"{}}}}}"#,
                words[0],
                ago(words[2]),
                asked.unwrap_or_default()
            );
            json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value
        };
        let objects = text.split(',').map(candidate);
        objects.filter_map(|object| Candidate::new(object, now)).collect()
    }

    /// `holder renewed`, in seconds before now.
    fn lease(text: &str) -> Option<Value> {
        let (holder, renewed) = text.split_once(' ')?;
        let now: MicroTime = NOW.parse().unwrap();
        let renewed = now.plus_seconds(-renewed.parse::<i64>().unwrap());
        let text = format!(
            r#"{{"spec":{{"holderIdentity":"{holder}","leaseDurationSeconds":15,"renewTime":"{renewed}"}}}}"#
        );
        Some(json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value)
    }

    #[test]
    fn an_election_goes_step_by_step() {
        for (held, who, expected) in [
            ("", "", "nothing"),
            // Everybody is asked who has not just been heard of; somebody new has.
            ("", "a 1.1.0/1.1.0 100,b 1.1.0/1.1.0 1", "ask a"),
            ("", "a 1.1.0/1.1.0 1,b 1.0.0/1.1.0 1", "elect b"),
            // Who was asked may take five seconds; then it goes on without.
            ("", "a 1.1.0/1.1.0 100 4,b 1.1.0/1.1.0 1 4", "ask "),
            ("", "a 1.0.0/1.1.0 100 6,b 1.1.0/1.1.0 1 6", "elect b"),
            ("", "a 1.0.0/1.1.0 100 6", "error no available candidates"),
            // Who answered long ago is asked again.
            ("", "a 1.0.0/1.1.0 100 100,b 1.1.0/1.1.0 1", "ask a"),
            // A lease that is held stays, unless somebody is better.
            ("a 1", "a 1.0.0/1.1.0 100,b 1.1.0/1.1.0 1", "nothing"),
            ("b 1", "a 1.0.0/1.1.0 1,b 1.1.0/1.1.0 1", "elect a"),
            ("b 1", "a 1.1.0/1.1.0 1,b 1.1.0/1.2.0 1", "elect a"),
            ("b 1", "a /1.1.0 1,b 1.1.0/1.2.0 1", "nothing"),
            ("a 16", "a 1.0.0/1.1.0 1", "elect a"),
            (" 1", "a 1.0.0/1.1.0 1", "elect a"),
            // Who was not heard of for half of the time is asked, who was not for all of it is gone.
            ("a 1", "a 1.0.0/1.1.0 901", "ask a"),
            ("b 1", "a 1.0.0/1.1.0 1801,b 1.1.0/1.1.0 1", "nothing"),
            // The newest binary says how.
            ("", "a 1.0.0/1.1.0 1,@b 1.1.0/1.2.0 1", "elect nobody"),
            ("a 1", "a 1.0.0/1.1.0 1,@b 1.1.0/1.2.0 1", "nothing"),
            (
                "",
                "a 1.0.0/1.1.0 1,@b 1.0.0/1.1.0 1",
                "error candidates \"a\", \"@b\" at same binary version but received differing \
                 strategies OldestEmulationVersion, example.com/own",
            ),
        ] {
            let candidates = if who.is_empty() { Vec::new() } else { candidates(who) };
            let said = match step(lease(held).as_ref(), &candidates, NOW.parse().unwrap()) {
                Ok(Step::Nothing) => "nothing".to_owned(),
                Ok(Step::Ask(whom)) => {
                    let names: Vec<&str> = whom.iter().map(|who| who.name.as_str()).collect();
                    format!("ask {}", names.join(" "))
                }
                Ok(Step::Elect { holder, .. }) => format!("elect {}", holder.unwrap_or("nobody")),
                Err(error) => format!("error {error}"),
            };
            assert_eq!(said, expected, "{held}: {who}");
        }
    }
}
