//! Objects in files, and their creation on a server.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::client::{Client, Request};

/// Time limit for an object to become creatable.
const PATIENCE: Duration = Duration::from_secs(60);

/// Objects of a file: a list in YAML.
pub fn read(file: &Path) -> Result<Vec<Value>> {
    let json = kevel_codec::yaml::to_json(&fs::read(file)?).map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&json.text)?)
}

/// Creates an object as soon as possible: a custom object has to wait for its definition, a pod for its service
/// account.
pub async fn create(client: &Client, object: &Value) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let created = match path(client, object).await {
            Ok(path) => client.send(Request::post(path, object)).await?,
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        match created.code {
            201 => return Ok(()),
            403 | 404 if Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            code => return Err(format!("{code} {}", String::from_utf8_lossy(&created.body)).into()),
        }
    }
}

/// Collection path of an object's kind, by discovery.
async fn path(client: &Client, object: &Value) -> Result<String> {
    let version = object["apiVersion"].as_str().ok_or("no apiVersion")?;
    let root =
        if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let list = client.json(Request::get(root.clone())).await?;
    let resources = list["resources"].as_array().ok_or("no resources")?;
    let plain = |name: &Value| name.as_str().is_some_and(|name| !name.contains('/'));
    let found = resources.iter().find(|row| row["kind"] == object["kind"] && plain(&row["name"]));
    let name = found.and_then(|row| row["name"].as_str()).ok_or("no such kind yet")?;
    Ok(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{name}"),
        None => format!("{root}/{name}"),
    })
}
