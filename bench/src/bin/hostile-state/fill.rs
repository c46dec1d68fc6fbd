//! Large objects, and the assertion that they are stored.

use kevel_conformance::Result;
use kevel_conformance::client::Request;
use serde_json::Value;

use crate::world::HostileCluster;

/// Objects of a row that are stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredBytes {
    pub objects: usize,
    pub bytes: usize,
}

/// A JSON list or map of about so many bytes, of parts made of their number.
pub fn text(brackets: (char, char), size: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(size + 64);
    text.push(brackets.0);
    for index in 0.. {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&part(index));
        if text.len() >= size {
            break;
        }
    }
    text.push(brackets.1);
    text
}

/// The same as a value.
pub fn list(size: usize, part: impl Fn(usize) -> String) -> Value {
    serde_json::from_str(&text(('[', ']'), size, part)).unwrap_or_default()
}

/// The same as a map.
pub fn map(size: usize, part: impl Fn(usize) -> String) -> Value {
    serde_json::from_str(&text(('{', '}'), size, part)).unwrap_or_default()
}

/// Creates the largest object that is stored, of the sizes that are tried in their order; the last error if none is.
pub async fn store_largest(
    world: &HostileCluster,
    path: &str,
    sizes: &[usize],
    object: impl Fn(usize) -> Value,
) -> Result<StoredBytes> {
    let mut outcome = Err("no size".into());
    for size in sizes {
        let size = world.part(*size);
        outcome = store(world, path, &object(size), size).await;
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Creates an object as the attacker and reads it back; how many bytes it has as JSON. Fails where it is refused, or
/// has less than `least`.
pub async fn store(
    world: &HostileCluster,
    path: &str,
    object: &Value,
    least: usize,
) -> Result<StoredBytes> {
    let answer = world.create(path, object).await?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if answer.code != 201 {
        let text: String = String::from_utf8_lossy(&answer.body).chars().take(300).collect();
        return Err(format!("fill {path}/{name}: {} {text}", answer.code).into());
    }
    let read = world.admin.send(Request::get(format!("{path}/{name}"))).await?;
    if read.code != 200 || read.body.len() < least {
        let bytes = read.body.len();
        return Err(format!("fill {path}/{name}: {bytes} bytes stored of {least}").into());
    }
    Ok(StoredBytes { objects: 1, bytes: read.body.len() })
}
