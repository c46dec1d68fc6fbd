//! Verification of a store after a fault: all acknowledged writes are there, no write that was not attempted, and no
//! gap.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use kevel_store::embedded::{self, Embedded, Options};
use kevel_store::{Engine, Error, Revision};

/// Output of the driver, complete or up to a point.
#[derive(Debug, Default)]
pub struct Said {
    /// Acknowledged keys and values by revision; `None` for a deletion.
    pub acknowledged: BTreeMap<u64, (String, Option<String>)>,
    /// Attempted keys and values.
    pub tried: HashSet<(String, Option<String>)>,
}

impl Said {
    /// Parses the lines. An incomplete line is ignored.
    pub fn read(text: &str) -> Said {
        let mut said = Said::default();
        let value = |value: &str| (value != "-").then(|| value.to_owned());
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["try", key, v] => drop(said.tried.insert((key.to_owned(), value(v)))),
                ["ack", revision, key, v] => {
                    let revision = revision.parse().unwrap_or_default();
                    said.acknowledged.insert(revision, (key.to_owned(), value(v)));
                }
                _ => {}
            }
        }
        said
    }
}

/// Opens the store and compares it with the driver's output.
pub async fn verify(store: &Path, said: &Said) -> Result<(), String> {
    if !store.join("kevel.db").exists() {
        return match said.acknowledged.is_empty() {
            true => Ok(()),
            false => Err("there is no store any more".to_owned()),
        };
    }
    let opened = Embedded::open(store, Options { compaction_interval: None, ..Options::default() });
    let opened = opened.map_err(|error| format!("it cannot be opened: {error}"))?;
    let verified = contents(&opened, said).await;
    opened.close().await;
    verified?;
    let report = embedded::check(store).map_err(|error| format!("check: {error}"))?;
    match report.damaged.first() {
        None => Ok(()),
        Some(damaged) => Err(format!("damaged: {damaged}")),
    }
}

async fn contents(store: &Embedded, said: &Said) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let last = store.current_revision().await.map_err(failed)?;
    if let Some((newest, _)) = said.acknowledged.last_key_value()
        && *newest > last.0
    {
        return Err(format!("revision {newest} was acknowledged, the store is at {last}"));
    }
    let compacted = store.compacted_revision().max(Revision::INITIAL);
    let mut watch = store.watch(b"", compacted).await.map_err(failed)?;
    let mut next = compacted.0 + 1;
    let mut present: HashMap<String, u64> = HashMap::new();
    while next <= last.0 {
        for event in watch.next().await.map_err(failed)?.events {
            if event.revision.0 != next {
                return Err(format!("revision {} comes after {}", event.revision, next - 1));
            }
            next += 1;
            let key = String::from_utf8_lossy(&event.key).into_owned();
            let value = event.current.as_ref().map(|entry| text(&entry.value));
            if let Some(acknowledged) = said.acknowledged.get(&event.revision.0)
                && *acknowledged != (key.clone(), value.clone())
            {
                return Err(format!("{acknowledged:?} was acknowledged, {key} {value:?} is there"));
            }
            present.insert(key.clone(), event.revision.0);
            if !said.tried.contains(&(key.clone(), value.clone())) {
                return Err(format!("{key} {value:?} was never written"));
            }
        }
    }
    // Compacted writes are checked by the remaining state: the last value of each key.
    let mut newest: HashMap<&str, (u64, &Option<String>)> = HashMap::new();
    for (revision, (key, value)) in &said.acknowledged {
        newest.insert(key, (*revision, value));
    }
    for (key, (revision, value)) in newest {
        let entry = store.get(key.as_bytes(), None).await.map_err(failed)?.entry;
        let found = entry.as_ref().map(|entry| text(&entry.value));
        let later = present.get(key).is_some_and(|at| *at > revision);
        if !later && found != *value {
            return Err(format!(
                "{key}: {value:?} was acknowledged at {revision}, {found:?} is there"
            ));
        }
    }
    Ok(())
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end().to_owned()
}
