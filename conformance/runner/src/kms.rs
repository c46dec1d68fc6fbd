//! Secrets encrypted by a KMS plug-in of either version: each server reads the Secrets that the other wrote.

use std::fs;
use std::path::Path;

use kevel_test_support::KmsPlugin;
use serde_json::{Value, json};

use crate::Result;
use crate::client::{Client, Request};
use crate::control_plane::{ControlPlane, Server, cache};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// Plaintext that must not be in the store, as text and in base64.
const PLAIN: [&str; 2] = ["correct-horse-battery", "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"];
/// Number of Secrets that each server writes.
const EACH: usize = 20;
/// Servers that run in turn on the same etcd. Each reads the Secrets of those before it, and writes more.
const TURNS: [Server; 4] = [Server::Reference, Server::Kevel, Server::Reference, Server::Kevel];

/// Runs both versions. Returns whether every server could read all Secrets.
pub async fn run() -> Result<bool> {
    let mut well = true;
    for version in ["v1", "v2"] {
        let mut plane = ControlPlane::prepare(&cache().join("run").join(format!("kms-{version}")))?;
        let result = take_turns(&mut plane, version).await;
        plane.stop_all()?;
        match result {
            Ok(said) => println!("✓ KMS {version}: {said}"),
            Err(error) => {
                well = false;
                println!("✗ KMS {version}: {error}");
            }
        }
    }
    Ok(well)
}

async fn take_turns(plane: &mut ControlPlane, version: &str) -> Result<String> {
    // An abstract socket: the reference's v1 client sends the socket's path as host name, which is not valid for the
    // plug-in's HTTP/2.
    let name = format!("kevel-kms-{version}-{}", std::process::id());
    let plugin = KmsPlugin::start(Path::new(&format!("\0{name}")), "key-0");
    let file = plane.folder.join("encryption.yaml");
    let config = format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n\
         - resources: [secrets]\n  providers:\n  \
         - kms: {{apiVersion: {version}, name: vault, endpoint: 'unix:///@{name}', timeout: 5s}}\n"
    );
    fs::write(&file, config)?;
    plane.flags = vec![
        "--feature-gates=KMSv1=true".to_owned(),
        format!("--encryption-provider-config={}", file.display()),
    ];
    let mut written: Vec<String> = Vec::new();
    for (turn, server) in TURNS.into_iter().enumerate() {
        // Only v2 has key rotation; Secrets under an earlier key stay readable.
        plugin.rotate(&format!("key-{}", turn / 2));
        plane.start_server(server, true).await?;
        let client = plane.client(1)?;
        read(&client, &written).await.map_err(|error| format!("{}: {error}", server.name()))?;
        // Existing Secrets are written again, under the current key.
        for name in &written {
            write(&client, name).await?;
        }
        for number in 0..EACH {
            let name = format!("secret-{turn}-{number}");
            let secret = json!({"metadata": {"name": name}, "data": {"password": PLAIN[1]}});
            client.json(Request::post(SECRETS, &secret)).await?;
            written.push(name);
        }
        plane.stop(server.name())?;
    }
    let store = plane.folder.join("etcd");
    for text in PLAIN {
        if holds(&store, text)? {
            return Err(format!("{text} is in the store").into());
        }
    }
    let prefix = format!("k8s:enc:kms:{version}:vault:");
    if !holds(&store, &prefix)? {
        return Err(format!("there is no {prefix} in the store").into());
    }
    let (sealed, opened) = (plugin.calls("Encrypt"), plugin.calls("Decrypt"));
    Ok(format!(
        "{} Secrets, {} servers in turn, each read all before it; the plug-in has encrypted {sealed} and decrypted \
         {opened} times",
        written.len(),
        TURNS.len()
    ))
}

/// Reads every Secret, by itself and in a list.
async fn read(client: &Client, names: &[String]) -> Result<()> {
    let check = |secret: &Value| match secret["data"]["password"] == PLAIN[1] {
        true => Ok(()),
        false => Err(format!("not what was written: {secret}")),
    };
    for name in names {
        check(&client.json(Request::get(format!("{SECRETS}/{name}"))).await?)?;
    }
    let list = client.json(Request::get(SECRETS)).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().try_for_each(check)?;
    match items.len() == names.len() {
        true => Ok(()),
        false => Err(format!("{} Secrets, not {}", items.len(), names.len()).into()),
    }
}

async fn write(client: &Client, name: &str) -> Result<()> {
    let path = format!("{SECRETS}/{name}");
    let found = client.json(Request::get(&path)).await?;
    client.json(Request::put(&path, &found)).await.map(|_| ())
}

/// Whether a file in a folder, at any depth, contains a text.
fn holds(folder: &Path, text: &str) -> Result<bool> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = match path.is_dir() {
            true => holds(&path, text)?,
            false => fs::read(&path)?.windows(text.len()).any(|bytes| bytes == text.as_bytes()),
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}
