//! History of the store itself, which must agree with all other observations.

use std::path::Path;
use std::time::Duration;

use kevel_store::embedded::{self, Embedded, Options};
use kevel_store::etcd::{self, Etcd};
use kevel_store::{Engine, Error, Revision};

use crate::api::{NAMESPACE, NOT_OURS};
use crate::history::{History, Outcome};

/// Time limit of reading a history.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads the history of an embedded store that no server has open, after an integrity check.
pub async fn embedded(folder: &Path, history: &mut History) -> Result<(), String> {
    let report = embedded::check(folder).map_err(|error| error.to_string())?;
    if !report.damaged.is_empty() {
        return Err(format!("{:?}", report.damaged));
    }
    let options = Options { compaction_interval: None, ..Options::default() };
    let store = Embedded::open(folder, options).map_err(|error| error.to_string())?;
    let read = read(&store, report.compacted.max(Revision::INITIAL), history).await;
    store.close().await;
    read
}

/// Reads the history of an etcd, as far back as it goes.
pub async fn etcd(endpoints: &[String], history: &mut History) -> Result<(), String> {
    let options = etcd::Options {
        endpoints: endpoints.to_vec(),
        compaction_interval: None,
        ..etcd::Options::default()
    };
    let store = Etcd::connect(options).await.map_err(|error| error.to_string())?;
    let prefix = format!("/registry/configmaps/{NAMESPACE}/");
    let mut after = Revision::INITIAL;
    // The first available revision is found by a read.
    let opened = store.get(prefix.as_bytes(), Some(after.next())).await;
    if let Err(Error::Compacted { compacted, .. }) = opened {
        after = compacted;
    }
    let read = read(&store, after, history).await;
    store.close().await;
    // Compacted further in the meantime: then there is no history to read.
    match read {
        Err(why) if why.contains("compacted") => Ok(()),
        read => read,
    }
}

async fn read(store: &dyn Engine, after: Revision, history: &mut History) -> Result<(), String> {
    let prefix = format!("/registry/configmaps/{NAMESPACE}/");
    // The last observed revision: nothing was written since.
    let told = history.operations.iter().filter_map(|operation| match &operation.outcome {
        Outcome::Object(version) => Some(version.revision),
        _ => None,
    });
    let last = Revision(told.max().unwrap_or_default());
    let all = async {
        let mut watch = store.watch(prefix.as_bytes(), after).await?;
        let mut reached = after;
        while reached < last {
            let response = watch.next().await?;
            for event in &response.events {
                let key = String::from_utf8_lossy(&event.key);
                let Some(key) = key.strip_prefix(&prefix).filter(|key| *key != NOT_OURS) else {
                    continue;
                };
                let value = event.current.as_ref().map(|entry| value_in(&entry.value));
                history.stored.push((event.revision.0, key.to_owned(), value));
            }
            reached = reached.max(response.revision);
        }
        history.stored_range = Some((after.0, last.0));
        Ok::<(), kevel_store::Error>(())
    };
    let read = tokio::time::timeout(PATIENCE, all).await;
    read.map_err(|_| "the store's history cannot be read in time".to_owned())?
        .map_err(|error| error.to_string())
}

/// Value in a stored object of any encoding, recognized by its form.
fn value_in(stored: &[u8]) -> String {
    let text = String::from_utf8_lossy(stored);
    let mut found = String::new();
    for (start, _) in text.match_indices('c') {
        let rest = &text[start..];
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
        let word = &rest[..end];
        let parts: Vec<&str> = word.split('.').collect();
        if let [client, number, "in" | "out"] = parts[..]
            && client[1..].parse::<u64>().is_ok()
            && number.parse::<u64>().is_ok()
        {
            found = word.to_owned();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_any_encoding() {
        assert_eq!(value_in(br#"{"data":{"value":"c12.7.out"},"x":"c"}"#), "c12.7.out");
        assert_eq!(value_in(b"k8s\0\n\x0bvalue\x12\x06c1.2.in\x1a\0"), "c1.2.in");
    }
}
