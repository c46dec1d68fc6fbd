//! Stored forms: what each server makes of the same objects in etcd is equal byte for byte, and each reads what the other
//! has stored.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use kevel_codec::{json, protobuf};
use kevel_store::etcd::{Etcd, Options};
use kevel_store::{Engine as _, RangeOptions};
use kevel_test_support::facts;
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Server, cache};
use crate::difference::differences;
use crate::flags::ExtraFlags;
use crate::store::StoreKind;
use crate::swap::{self, Snapshot};
use crate::{Result, objects};

/// Prefix of all keys of a server.
const ROOT: &str = "/registry/";
/// Limit on printed differences.
const SHOWN: usize = 60;
/// Bytes printed around the first difference of two values.
const AROUND: usize = 40;
/// Namespace of the golden objects.
const GOLDEN_NAMESPACE: &str = "namespaceValue";

/// Name of the volume with a pod's token, and the length of what is chosen by chance behind it.
const TOKEN_VOLUME: &[u8] = b"kube-api-access-";
const TOKEN_VOLUME_CHANCE: usize = 5;

/// Keys whose values differ between any two servers, with the reason.
const DIFFERENT: [(&str, &str); 13] = [
    ("leases/kube-system/apiserver-", "identity of a server"),
    ("masterleases/", "its address"),
    ("peerserverleases/", "its address"),
    ("services/endpoints/default/kubernetes", "its port"),
    ("services/specs/default/kubernetes", "its port"),
    ("endpointslices/default/kubernetes", "its port"),
    ("configmaps/kube-system/extension-apiserver-authentication", "its certificates"),
    ("certificatesigningrequests/", "hash of the certificate that asks"),
    ("apiextensions.k8s.io/", "fields of the JSON are in alphabetical order"),
    ("ranges/", "random ports and addresses"),
    ("events/", "trouble of repair controllers at the start"),
    (
        "jobs/",
        "labels that a new job has of its template are stored with it: a reader gives them to it",
    ),
    ("persistentvolumeclaims/", "the first phase is stored: a reader gives it to a claim without"),
];

/// Values by key.
type StoredEntries = BTreeMap<String, Vec<u8>>;

/// Creates the same objects on both servers, each on an etcd of its own; compares what they stored; and lets each read
/// the store of the other, golden objects included. Returns whether all was equal.
pub async fn run(flags: ExtraFlags) -> Result<bool> {
    let (reference, theirs) = written(Server::Reference, &flags).await?;
    let (kevel, ours) = written(Server::Kevel, &flags).await?;
    let bytes = same_bytes(&theirs, &ours);
    let forth = read_by_both("objects of kevel", kevel, Server::Kevel, &Golden::default()).await?;
    let golden = Golden::read(&theirs)?;
    let back =
        read_by_both("objects of the reference", reference, Server::Reference, &golden).await?;
    Ok(bytes && forth && back)
}

/// A control plane on etcd with the objects, and all that is stored.
async fn written(server: Server, flags: &ExtraFlags) -> Result<(ControlPlane, StoredEntries)> {
    let mut plane =
        ControlPlane::prepare(&cache().join("run").join(format!("stored-{}", server.name())))?;
    plane.flags = flags.flags.clone();
    plane.start_fresh(server, StoreKind::Etcd).await?;
    let client = plane.client(4)?;
    let mut made = flags.objects()?;
    // After the namespace.
    made.insert(1, account());
    for object in made {
        let object = decided(object);
        if let Err(error) = objects::create(&client, &object).await {
            let name = &object["metadata"]["name"];
            println!("✗ {}: not created: {} {name}: {error}", server.name(), object["kind"]);
        }
    }
    let entries = entries(&plane).await?;
    println!("{}: {} keys", server.name(), entries.len());
    Ok((plane, entries))
}

/// The service account that pods need; no controller makes it here.
fn account() -> Value {
    let metadata = json!({"name": "default", "namespace": "swap"});
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
}

/// The object with everything that a server would choose by chance.
fn decided(mut object: Value) -> Value {
    if object["kind"] == "Service" && object["spec"]["type"] == "NodePort" {
        object["spec"]["clusterIP"] = json!("10.96.7.7");
        let ports = object["spec"]["ports"].as_array_mut().into_iter().flatten();
        for (port, number) in ports.zip(30_700..) {
            port["nodePort"] = json!(number);
        }
    }
    object
}

async fn engine(plane: &ControlPlane) -> Result<Etcd> {
    let endpoints = vec![plane.etcd_url()];
    let options = Options { endpoints, compaction_interval: None, ..Options::default() };
    Ok(Etcd::connect(options).await?)
}

async fn entries(plane: &ControlPlane) -> Result<StoredEntries> {
    let etcd = engine(plane).await?;
    let found = etcd.range(ROOT.as_bytes(), RangeOptions::default()).await?;
    etcd.close().await;
    let entry = |entry: kevel_store::Entry| {
        (String::from_utf8_lossy(&entry.key).into_owned(), entry.value.to_vec())
    };
    Ok(found.entries.into_iter().map(entry).collect())
}

fn same_bytes(theirs: &StoredEntries, ours: &StoredEntries) -> bool {
    let chance = |key: &str| {
        let name = key.strip_prefix(ROOT).unwrap_or(key);
        DIFFERENT.iter().any(|(prefix, _)| name.starts_with(prefix))
    };
    let (mut equal, mut different) = (0, Vec::new());
    for (key, one) in theirs.iter().filter(|(key, _)| !chance(key)) {
        match ours.get(key) {
            None => different.push(format!("{key}: not stored by kevel")),
            Some(other) => match difference(&masked(one), &masked(other)) {
                None => equal += 1,
                Some(text) => different.push(format!("{key}: {text}{}", in_words(one, other))),
            },
        }
    }
    let own = ours.keys().filter(|key| !chance(key) && !theirs.contains_key(*key));
    different.extend(own.map(|key| format!("{key}: not stored by the reference")));
    different.iter().take(SHOWN).for_each(|line| println!("✗ {line}"));
    println!("stored: {equal} values are equal byte for byte, {} are not", different.len());
    different.is_empty()
}

/// First difference of two values.
fn difference(one: &[u8], other: &[u8]) -> Option<String> {
    let at = (0..one.len().max(other.len())).find(|&at| one.get(at) != other.get(at))?;
    let part = |bytes: &[u8]| {
        let end = bytes.len().min(at + AROUND);
        bytes.get(at.saturating_sub(AROUND)..end).unwrap_or_default().escape_ascii().to_string()
    };
    let (long, short) = (one.len(), other.len());
    Some(format!("differs at {at} of {long}, {short}\n    {}\n    {}", part(one), part(other)))
}

/// Differences of two values as objects, a line each.
fn in_words(one: &[u8], other: &[u8]) -> String {
    let (Some(one), Some(other)) = (object(one), object(other)) else { return String::new() };
    let lines = differences(&one, &other).into_iter();
    lines.map(|line| format!("\n    {line}")).collect()
}

/// Object of a stored value.
fn object(value: &[u8]) -> Option<Value> {
    let mut text = value.to_vec();
    if let Ok(envelope) = protobuf::decode_object(value) {
        let schema = schema(&envelope.api_version, &envelope.kind)?;
        text.clear();
        json::encode(&envelope.decode(schema).ok()?, schema, &mut text);
    }
    serde_json::from_slice(&text).ok()
}

/// A value without UIDs and times, which no two servers have in common.
fn masked(value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for at in 0..value.len() {
        let Some(rest) = value.get_mut(at..) else { break };
        if rest.starts_with(TOKEN_VOLUME) {
            let chosen = rest.iter_mut().skip(TOKEN_VOLUME.len()).take(TOKEN_VOLUME_CHANCE);
            chosen.for_each(|byte| *byte = b'0');
        } else if let Some(uid) = rest.get_mut(..36).filter(|text| is_uid(text)) {
            uid.fill(b'0');
        } else if let Some(time) = rest.get_mut(..20).filter(|text| is_time(text)) {
            time.fill(b'0');
        } else if let Some([0x08, seconds @ ..]) =
            rest.get_mut(..6).filter(|bytes| is_recent(&bytes[1..], now))
        {
            seconds.fill(0);
        }
    }
    value
}

fn is_uid(text: &[u8]) -> bool {
    text.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// A time of today as RFC 3339 in seconds.
fn is_time(text: &[u8]) -> bool {
    text.starts_with(b"20") && text.get(10) == Some(&b'T') && text.last() == Some(&b'Z')
}

/// Five bytes of a varint that are seconds of the last day.
fn is_recent(bytes: &[u8], now: u64) -> bool {
    let seconds = bytes.iter().rev().fold(0, |sum, byte| (sum << 7) | u64::from(byte & 0x7f));
    let continues = bytes.iter().map(|byte| byte & 0x80 != 0);
    continues.eq([true, true, true, true, false]) && now.abs_diff(seconds) < 24 * 60 * 60
}

/// Golden objects of the reference in stored form, by key.
#[derive(Default)]
struct Golden(StoredEntries);

impl Golden {
    /// Golden objects of the kinds and versions among the entries, under keys of the same prefix.
    fn read(entries: &StoredEntries) -> Result<Self> {
        let golden = facts::json("golden.json.gz");
        let mut found = StoredEntries::new();
        for (key, value) in entries {
            let Ok(envelope) = protobuf::decode_object(value) else { continue };
            let Some(schema) = schema(&envelope.api_version, &envelope.kind) else { continue };
            let Ok(object) = envelope.decode(schema) else { continue };
            let wanted = (envelope.api_version.as_str(), envelope.kind.as_str());
            let same = |text: &&str| {
                json::type_meta(text.as_bytes())
                    .is_ok_and(|said| (said.api_version.as_str(), said.kind.as_str()) == wanted)
            };
            let texts = golden.as_map().into_iter().flat_map(|all| all.iter());
            let Some(text) = texts.map(|(_, one)| one.str_at(&["json"])).find(same) else {
                continue;
            };
            let mut made = json::decode(text.as_bytes(), schema, json::Unknown::Report)?.value;
            let (name, namespace) =
                (object.str_at(&["metadata", "name"]), object.str_at(&["metadata", "namespace"]));
            let end =
                if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}") };
            let Some(prefix) = key.strip_suffix(end.as_str()) else { continue };
            let metadata = made.make_map(&["metadata"]);
            metadata.remove("resourceVersion");
            metadata.remove("selfLink");
            let key = match namespace.is_empty() {
                true => {
                    metadata.remove("namespace");
                    format!("{prefix}nameValue")
                }
                false => format!("{prefix}{GOLDEN_NAMESPACE}/nameValue"),
            };
            found.insert(key, protobuf::encode_object(&made, schema));
        }
        Ok(Golden(found))
    }

    async fn write(&self, plane: &ControlPlane) -> Result<()> {
        let etcd = engine(plane).await?;
        for (key, value) in &self.0 {
            etcd.create(key.as_bytes(), value.clone().into(), None).await?;
        }
        etcd.close().await;
        Ok(())
    }
}

fn schema(api_version: &str, kind: &str) -> Option<kevel_api::schema::Schema<'static>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    kevel_api::builtin::schema(group, version, kind)
}

/// Stops the server, puts golden objects into its store, and compares what both servers read of it.
async fn read_by_both(
    title: &str,
    mut plane: ControlPlane,
    own: Server,
    golden: &Golden,
) -> Result<bool> {
    plane.stop(own.name())?;
    golden.write(&plane).await?;
    let mut read: Vec<Snapshot> = Vec::new();
    for server in Server::ALL {
        plane.start_server(server, true).await?;
        read.push(swap::snapshot(&plane.client(4)?).await?);
        plane.stop(server.name())?;
    }
    plane.stop_all()?;
    let [theirs, ours] = read.as_slice() else { return Ok(false) };
    println!("{title}: {}, {} of them golden", swap::count(theirs), golden.0.len());
    Ok(swap::compare(title, theirs, ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_and_times_of_today_are_masked() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let varint = |mut seconds: u64| {
            let mut bytes = vec![0x08];
            while seconds > 0x7f {
                bytes.push((seconds & 0x7f) as u8 | 0x80);
                seconds >>= 7;
            }
            bytes.push(seconds as u8);
            bytes
        };
        let of =
            |uid: &str, seconds| [b"x", uid.as_bytes(), &varint(seconds), b"\x10\x00"].concat();
        let one = of("0b1f3c52-0d3a-4a54-9b8e-0123456789ab", now);
        let other = of("ffffffff-0d3a-4a54-9b8e-0123456789ab", now - 3600);
        assert_ne!(one, other);
        assert_eq!(difference(&masked(&one), &masked(&other)), None);
        let old = of("ffffffff-0d3a-4a54-9b8e-0123456789ab", now - 48 * 3600);
        assert!(difference(&masked(&one), &masked(&old)).is_some());
    }
}
