//! `extension-apiserver-authentication`: what other API servers need to know to recognise users as
//! this one does.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use kevel_api::value::{Map, Value};
use kevel_codec::json;
use kevel_controller_runtime::Client;
use kevel_registry::storage::Storage;
use kevel_server::certificates::{Certificate, pem};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::request_header::RequestHeaders;
use crate::config_map::{self, ConfigMap};

/// The name of the post-start hook.
pub const HOOK: &str = "start-cluster-authentication-info-controller";

const NAME: &str = "extension-apiserver-authentication";

/// Time for which an expired authority is still published: clocks differ.
const SLACK: Duration = Duration::from_secs(5 * 60);

/// CA bundles and headers by which this server authenticates users, for aggregated servers.
pub struct ClusterInfo {
    /// The authorities of clients (PEM), as they are now.
    pub client_ca: Box<dyn Fn() -> Option<Bytes> + Send + Sync>,
    /// The authorities of front proxies, likewise.
    pub request_header_ca: Box<dyn Fn() -> Option<Bytes> + Send + Sync>,
    /// The headers in which front proxies name users.
    pub headers: RequestHeaders,
    /// The common names of front proxies.
    pub allowed_names: Vec<String>,
}

impl std::fmt::Debug for ClusterInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterInfo").field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// Keeps the config map that says it. What servers beside this one have added stays, but for
/// authorities that have expired.
pub fn controller(
    client: Client,
    config_maps: Arc<Storage>,
    info: ClusterInfo,
) -> impl Future<Output = ()> + Send + 'static {
    let clock = client.clock().clone();
    let info = Arc::new(info);
    let authorities = info.clone();
    let sources = move || ((authorities.client_ca)(), (authorities.request_header_ca)());
    let data = move |existing: &Map| info.data(existing, clock.now());
    config_map::keep(client, config_maps, ConfigMap { name: NAME, data, sources })
}

impl ClusterInfo {
    fn data(&self, existing: &Map, now: SystemTime) -> Result<Map, String> {
        let held = |key: &str| existing.get(key).and_then(Value::as_str).unwrap_or_default();
        let authorities = |key: &str, own: Option<Bytes>| {
            combined_certificates(held(key).as_bytes(), own.as_deref().unwrap_or_default(), now)
        };
        let mut data = Map::new();
        let clients = authorities("client-ca-file", (self.client_ca)());
        if !clients.is_empty() {
            data.insert("client-ca-file", clients.as_str().into());
        }
        let key = "requestheader-client-ca-file";
        let proxies = authorities(key, (self.request_header_ca)());
        if proxies.is_empty() {
            return Ok(data);
        }
        data.insert(key, proxies.as_str().into());
        for (key, own) in [
            ("requestheader-username-headers", &self.headers.username),
            ("requestheader-uid-headers", &self.headers.uid),
            ("requestheader-group-headers", &self.headers.group),
            ("requestheader-extra-headers-prefix", &self.headers.extra_prefix),
            ("requestheader-allowed-names", &self.allowed_names),
        ] {
            let all = combined_names(held(key), own).map_err(|error| format!("{key}: {error}"))?;
            if !all.is_empty() || key != "requestheader-uid-headers" {
                data.insert(key, list(&all).as_str().into());
            }
        }
        Ok(data)
    }
}

fn combined_names(held: &str, own: &[String]) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = Vec::new();
    if !held.is_empty() {
        let decoded = json::decode_any(held.as_bytes(), json::Unknown::Ignore);
        let decoded = decoded.map_err(|error| error.to_string())?.value;
        let names = decoded.as_list().unwrap_or_default().iter().filter_map(Value::as_str);
        all.extend(names.map(str::to_owned));
    }
    all.extend_from_slice(own);
    let mut seen = std::collections::HashSet::new();
    all.retain(|name| seen.insert(name.clone()));
    Ok(all)
}

fn list(names: &[String]) -> String {
    let names = Value::List(names.iter().map(|name| Value::from(name.as_str())).collect());
    let mut text = Vec::new();
    json::encode_any(&names, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn combined_certificates(held: &[u8], own: &[u8], now: SystemTime) -> String {
    let mut all: Vec<CertificateDer<'static>> = Vec::new();
    for certificate in [held, own].into_iter().flat_map(CertificateDer::pem_slice_iter) {
        let Ok(certificate) = certificate else { continue };
        let ends = Certificate::read(&certificate).and_then(|read| read.not_after());
        let good = ends.is_some_and(|ends| ends + SLACK > now);
        if good && !all.contains(&certificate) {
            all.push(certificate);
        }
    }
    all.iter().map(|certificate| pem("CERTIFICATE", certificate)).collect()
}

#[cfg(test)]
mod tests {
    use kevel_clock::Clock;

    use super::*;

    fn certificate(name: &str, ends: i64) -> String {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let now = Clock::system().now();
        params.not_before = (now - Duration::from_secs(86400)).into();
        params.not_after = match ends {
            0.. => (now + Duration::from_secs(ends.unsigned_abs())).into(),
            _ => (now - Duration::from_secs(ends.unsigned_abs())).into(),
        };
        let key = rcgen::KeyPair::generate().unwrap();
        let der = params.self_signed(&key).unwrap();
        pem("CERTIFICATE", der.der())
    }

    #[test]
    fn what_others_say_stays_and_what_expired_goes() {
        let [mine, theirs] = ["mine", "theirs"].map(|name| certificate(name, 3600));
        let old = certificate("old", -3600);
        let mine_bytes = Bytes::from(mine.clone());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let info = ClusterInfo {
            client_ca: Box::new(move || Some(mine_bytes.clone())),
            request_header_ca: Box::new(|| None),
            headers: RequestHeaders { username: names(&["X-Remote-User"]), ..Default::default() },
            allowed_names: names(&["front"]),
        };
        let text = |data: &Map, key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
        let data = info.data(&Map::new(), Clock::system().now()).unwrap();
        assert_eq!(text(&data, "client-ca-file").as_ref(), Some(&mine));
        assert_eq!(data.len(), 1);
        let existing = Map::from_iter([
            ("client-ca-file", format!("{theirs}{old}{mine}").as_str().into()),
            ("requestheader-client-ca-file", theirs.as_str().into()),
            ("requestheader-username-headers", r#"["X-User","X-Remote-User"]"#.into()),
        ]);
        let data = info.data(&existing, Clock::system().now()).unwrap();
        assert_eq!(text(&data, "client-ca-file"), Some(format!("{theirs}{mine}")));
        for (key, expected) in [
            ("requestheader-username-headers", Some(r#"["X-User","X-Remote-User"]"#)),
            ("requestheader-group-headers", Some("[]")),
            ("requestheader-allowed-names", Some(r#"["front"]"#)),
            ("requestheader-uid-headers", None),
        ] {
            assert_eq!(text(&data, key).as_deref(), expected, "{key}");
        }
    }
}
