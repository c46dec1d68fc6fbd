//! Next step of a coordinated leader election for a Lease and its LeaseCandidates. Stateless: depends only on the
//! objects and the time.

use kevel_api::time::{MicroTime, Time};
use kevel_api::value::Value;

use super::OLDEST;
use super::version::Version;

/// Seconds for which candidates may answer a ping, and for which an answer counts.
const ELECTION_SECONDS: i64 = 5;
/// Seconds after which a candidate that does not renew is invalid.
const VALID_SECONDS: i64 = 30 * 60;

/// Action of the election controller.
#[derive(Debug)]
pub(super) enum Step<'c> {
    /// The holder is the right one.
    Nothing,
    /// Pinged candidates are awaited; ping these too.
    Ask(Vec<&'c Candidate>),
    /// Set the holder of the lease; `None` if another component implements the strategy.
    Elect {
        /// Strategy of the election.
        strategy: &'c str,
        /// Elected candidate.
        holder: Option<&'c str>,
    },
}

/// A LeaseCandidate.
#[derive(Debug)]
pub(super) struct Candidate {
    pub name: String,
    strategy: String,
    emulation: Option<Version>,
    binary: Option<Version>,
    created: Time,
    asked: Option<MicroTime>,
    renewed: MicroTime,
    /// The object as it was read.
    pub object: Value,
}

impl Candidate {
    /// Reads a candidate; `None` if it has not renewed for too long.
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

    /// True if the candidate was pinged and has not renewed since.
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

/// `renewTime` of a candidate; `None` if it has expired.
fn still_valid(candidate: &Value, now: MicroTime) -> Option<MicroTime> {
    let renewed: MicroTime = candidate.str_at(&["spec", "renewTime"]).parse().ok()?;
    (renewed.plus_seconds(VALID_SECONDS) >= now).then_some(renewed)
}

/// True if a candidate has not renewed for [`VALID_SECONDS`].
pub(super) fn has_expired(candidate: &Value, now: MicroTime) -> bool {
    still_valid(candidate, now).is_none()
}

/// True if a ping is unanswered: an election is in progress.
pub(super) fn is_pending(candidate: &Value) -> bool {
    let time = |field| candidate.str_at(&["spec", field]).parse::<MicroTime>().ok();
    time("renewTime").zip(time("pingTime")).is_some_and(|(renewed, asked)| renewed < asked)
}

/// True if a lease has expired.
pub(super) fn lease_has_expired(lease: &Value, now: MicroTime) -> bool {
    let renewed = lease.str_at(&["spec", "renewTime"]).parse::<MicroTime>();
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_int);
    renewed.ok().zip(seconds).is_none_or(|(renewed, seconds)| renewed.plus_seconds(seconds) < now)
}

/// `holderIdentity` of a lease.
pub(super) fn holder(lease: &Value) -> &str {
    lease.str_at(&["spec", "holderIdentity"])
}

/// Next step for a lease, which may not exist yet, and its candidates.
pub(super) fn step<'c>(
    lease: Option<&Value>,
    candidates: &'c [Candidate],
    now: MicroTime,
) -> Result<Step<'c>, String> {
    if candidates.is_empty() || !is_needed(lease, candidates, now)? {
        return Ok(Step::Nothing);
    }
    let waiting = candidates.iter().any(|who| who.is_silent() && who.was_asked_lately(now));
    // A candidate that has not answered is not pinged again.
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

/// True if an election is needed.
fn is_needed(
    lease: Option<&Value>,
    candidates: &[Candidate],
    now: MicroTime,
) -> Result<bool, String> {
    let held = lease.filter(|lease| !lease_has_expired(lease, now) && !holder(lease).is_empty());
    let Some(lease) = held else { return Ok(true) };
    // Ping all candidates from time to time, so that live ones do not expire.
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

/// Strategy of the newest binary version. Candidates of that version must agree.
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

/// Best candidate by `OldestEmulationVersion`: lowest emulation version, then lowest binary version, then oldest.
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
            // Candidates that have not renewed just now are pinged; a new one has.
            ("", "a 1.1.0/1.1.0 100,b 1.1.0/1.1.0 1", "ask a"),
            ("", "a 1.1.0/1.1.0 1,b 1.0.0/1.1.0 1", "elect b"),
            // A pinged candidate has five seconds; then the election continues without it.
            ("", "a 1.1.0/1.1.0 100 4,b 1.1.0/1.1.0 1 4", "ask "),
            ("", "a 1.0.0/1.1.0 100 6,b 1.1.0/1.1.0 1 6", "elect b"),
            ("", "a 1.0.0/1.1.0 100 6", "error no available candidates"),
            // A candidate whose answer is old is pinged again.
            ("", "a 1.0.0/1.1.0 100 100,b 1.1.0/1.1.0 1", "ask a"),
            // A held lease stays, unless another candidate is better.
            ("a 1", "a 1.0.0/1.1.0 100,b 1.1.0/1.1.0 1", "nothing"),
            ("b 1", "a 1.0.0/1.1.0 1,b 1.1.0/1.1.0 1", "elect a"),
            ("b 1", "a 1.1.0/1.1.0 1,b 1.1.0/1.2.0 1", "elect a"),
            ("b 1", "a /1.1.0 1,b 1.1.0/1.2.0 1", "nothing"),
            ("a 16", "a 1.0.0/1.1.0 1", "elect a"),
            (" 1", "a 1.0.0/1.1.0 1", "elect a"),
            // A candidate is pinged after half of its validity, and expired after all of it.
            ("a 1", "a 1.0.0/1.1.0 901", "ask a"),
            ("b 1", "a 1.0.0/1.1.0 1801,b 1.1.0/1.1.0 1", "nothing"),
            // The newest binary determines the strategy.
            ("", "a 1.0.0/1.1.0 1,@b 1.1.0/1.2.0 1", "elect none"),
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
                Ok(Step::Ask(asked)) => {
                    let names: Vec<&str> = asked.iter().map(|who| who.name.as_str()).collect();
                    format!("ask {}", names.join(" "))
                }
                Ok(Step::Elect { holder, .. }) => format!("elect {}", holder.unwrap_or("none")),
                Err(error) => format!("error {error}"),
            };
            assert_eq!(said, expected, "{held}: {who}");
        }
    }
}
