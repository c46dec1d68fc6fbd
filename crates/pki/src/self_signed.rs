//! The self-signed pair that the reference makes in `--cert-dir` when it is given no certificate.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kevel_clock::Clock;

use super::authority::{Authority, Subject};
use super::certificate::AltNames;
use super::files::{Batch, Readable};

/// The pair `apiserver.crt` and `apiserver.key` in a folder, created if neither exists: for the public address, the
/// names of the `kubernetes` Service, and `localhost` or the bind address.
pub fn self_signed(
    folder: &Path,
    public: IpAddr,
    bind: IpAddr,
    service: Option<IpAddr>,
    clock: &Clock,
) -> Result<(PathBuf, PathBuf), String> {
    let (certificate, key) = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
    match (readable(&certificate), readable(&key)) {
        (true, true) => return Ok((certificate, key)),
        (false, false) => {}
        (true, false) => return Err(incomplete(&key)),
        (false, true) => return Err(incomplete(&certificate)),
    }
    let services = ["kubernetes.default.svc", "kubernetes.default", "kubernetes"];
    let mut names = AltNames {
        dns_names: services.map(str::to_owned).into(),
        ips: vec![public],
        ..AltNames::default()
    };
    names.ips.extend(service);
    match bind.is_unspecified() {
        true => names.dns_names.push("localhost".to_owned()),
        false => names.ips.push(bind),
    }
    let now = clock.now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let authority = Authority::new(&format!("{public}-ca@{now}"), clock)?;
    let issued =
        authority.issue(&Subject::Server { common_name: format!("{public}@{now}"), names })?;
    let mut batch = Batch::default();
    batch.add(&certificate, issued.certificate + authority.pem(), Readable::ByAll);
    batch.add(&key, issued.key, Readable::ByOwner);
    batch.write()?;
    tracing::info!("Generated self-signed cert ({}, {})", certificate.display(), key.display());
    Ok((certificate, key))
}

fn readable(path: &Path) -> bool {
    std::fs::File::open(path).is_ok()
}

fn incomplete(missing: &Path) -> String {
    format!("error reading {}, certificate and key must be supplied as a pair", missing.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_signed_pair_is_made_once_and_must_be_complete() {
        let folder = tempfile::tempdir().unwrap();
        let address = "10.1.2.3".parse().unwrap();
        let all = "0.0.0.0".parse().unwrap();
        let make = || self_signed(folder.path(), address, all, None, &Clock::system());
        let (certificate, key) = make().unwrap();
        let before = std::fs::read(&certificate).unwrap();
        make().unwrap();
        assert_eq!(std::fs::read(&certificate).unwrap(), before);
        std::fs::remove_file(&key).unwrap();
        assert!(make().unwrap_err().contains("certificate and key must be supplied as a pair"));
    }
}
