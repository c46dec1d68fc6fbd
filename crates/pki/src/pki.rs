//! Certificates and keys that a server without certificate flags makes for itself on its first start.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kevel_clock::Clock;

use super::authority::{Authority, Subject};
use super::certificate::AltNames;
use super::files::{Batch, Readable};
use super::{kubeconfig, service_account_key};

/// Files that cannot be regenerated.
const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const SERVICE_ACCOUNT_KEY: &str = "sa.key";
/// Common name of the CA, as in kubeadm's clusters.
const AUTHORITY: &str = "kubernetes";
/// Interval at which certificates are checked for renewal.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// User and group of the kubeconfig.
const ADMIN: &str = "kubernetes-admin";
const ADMIN_GROUP: &str = "system:masters";

/// A folder of certificates and keys that the server makes for itself, and an administrator's kubeconfig.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// use kevel_pki::Pki;
/// let pki = Pki {
///     folder: folder.path().join("pki"),
///     kubeconfig: folder.path().join("admin.kubeconfig"),
///     server: "https://127.0.0.1:6443".to_owned(),
///     names: Pki::names("host", &["10.0.0.1".parse().unwrap()]),
///     clock: kevel_clock::Clock::system(),
/// };
/// let files = pki.ensure().unwrap();
/// assert!(files.serving_certificate.exists());
/// ```
#[derive(Clone, Debug)]
pub struct Pki {
    /// Folder of the certificates and keys.
    pub folder: PathBuf,
    /// Path of the kubeconfig.
    pub kubeconfig: PathBuf,
    /// The server's address for the kubeconfig.
    pub server: String,
    /// Names of the serving certificate.
    pub names: AltNames,
    /// Clock for the validity of certificates.
    pub clock: Clock,
}

/// Files of a [`Pki`], by kubeadm's names.
#[derive(Clone, Debug)]
pub struct PkiFiles {
    /// `ca.crt`: for `--client-ca-file`, and for clients.
    pub ca_certificate: PathBuf,
    /// `ca.key`.
    pub ca_key: PathBuf,
    /// `apiserver.crt`: for `--tls-cert-file`.
    pub serving_certificate: PathBuf,
    /// `apiserver.key`: for `--tls-private-key-file`.
    pub serving_key: PathBuf,
    /// `sa.key`: for `--service-account-signing-key-file`.
    pub service_account_key: PathBuf,
    /// `sa.pub`: for `--service-account-key-file`.
    pub service_account_public_key: PathBuf,
    /// `admin.crt`.
    pub admin_certificate: PathBuf,
    /// `admin.key`.
    pub admin_key: PathBuf,
}

impl Pki {
    /// Names of a server inside a cluster and on its own machine: its host name, and the addresses given, such as that
    /// of the `kubernetes` Service and the advertised one.
    pub fn names(host: &str, addresses: &[IpAddr]) -> AltNames {
        let mut dns_names: Vec<String> = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ]
        .map(str::to_owned)
        .into();
        let mut ips = vec![IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        if !host.is_empty() && host.is_ascii() && !dns_names.iter().any(|name| name == host) {
            dns_names.push(host.to_owned());
        }
        for address in addresses.iter().filter(|address| !address.is_unspecified()) {
            if !ips.contains(address) {
                ips.push(*address);
            }
        }
        AltNames { dns_names, ips, ..AltNames::default() }
    }

    /// Checks and renews the files each day until `stop` is ready. The server reads them again when they change.
    pub async fn keep(self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return,
                () = self.clock.sleep(DAY) => {}
            }
            let pki = self.clone();
            // Key generation takes a moment.
            let ensured = tokio::task::spawn_blocking(move || pki.ensure()).await;
            if let Ok(Err(error)) = ensured {
                tracing::error!(error, "own certificates cannot be renewed");
            }
        }
    }

    /// Missing files whose loss would invalidate everything signed before. An existing but empty folder has lost
    /// nothing: new files are wanted.
    pub fn lost(&self) -> Vec<&'static str> {
        let is_empty = fs::read_dir(&self.folder).is_ok_and(|mut files| files.next().is_none());
        let missing = |name: &&str| !is_empty && !self.folder.join(name).exists();
        [CA_CERTIFICATE, CA_KEY, SERVICE_ACCOUNT_KEY].into_iter().filter(missing).collect()
    }

    /// Creates missing files, and renews certificates that expire soon.
    pub fn ensure(&self) -> Result<PkiFiles, String> {
        let files = PkiFiles::in_folder(&self.folder);
        let mut batch = Batch::default();
        let authority = Authority::load_or_create(
            AUTHORITY,
            &files.ca_certificate,
            &files.ca_key,
            &mut batch,
            &self.clock,
        )?;
        let server =
            Subject::Server { common_name: "kube-apiserver".into(), names: self.names.clone() };
        authority.ensure(&server, &files.serving_certificate, &files.serving_key, &mut batch)?;
        let organizations = vec![ADMIN_GROUP.to_owned()];
        let admin = Subject::Client { common_name: ADMIN.into(), organizations };
        let admin =
            authority.ensure(&admin, &files.admin_certificate, &files.admin_key, &mut batch)?;
        service_account_key::ensure(
            &files.service_account_key,
            &files.service_account_public_key,
            &mut batch,
        )?;
        let kubeconfig = kubeconfig(&self.server, authority.pem(), ADMIN, &admin);
        if fs::read_to_string(&self.kubeconfig).ok().as_ref() != Some(&kubeconfig) {
            batch.add(&self.kubeconfig, kubeconfig, Readable::ByOwner);
        }
        batch.write()?;
        Ok(files)
    }
}

impl PkiFiles {
    fn in_folder(folder: &Path) -> Self {
        let file = |name| folder.join(name);
        PkiFiles {
            ca_certificate: file(CA_CERTIFICATE),
            ca_key: file(CA_KEY),
            serving_certificate: file("apiserver.crt"),
            serving_key: file("apiserver.key"),
            service_account_key: file(SERVICE_ACCOUNT_KEY),
            service_account_public_key: file("sa.pub"),
            admin_certificate: file("admin.crt"),
            admin_key: file("admin.key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_start_rewrites_only_the_kubeconfig_s_address() {
        let folder = tempfile::tempdir().unwrap();
        let mut pki = Pki {
            folder: folder.path().join("pki"),
            kubeconfig: folder.path().join("admin.kubeconfig"),
            server: "https://127.0.0.1:6443".to_owned(),
            names: Pki::names("localhost", &["10.0.0.1".parse().unwrap()]),
            clock: Clock::system(),
        };
        let contents = || {
            let files = fs::read_dir(folder.path().join("pki")).unwrap();
            let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            files.sort();
            files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>()
        };
        pki.ensure().unwrap();
        let first = (contents(), fs::read_to_string(&pki.kubeconfig).unwrap());
        assert_eq!(first.0.len(), 8);
        pki.ensure().unwrap();
        assert_eq!((contents(), fs::read_to_string(&pki.kubeconfig).unwrap()), first);
        pki.server = "https://127.0.0.1:7443".to_owned();
        pki.ensure().unwrap();
        assert_eq!(contents(), first.0);
        assert!(fs::read_to_string(&pki.kubeconfig).unwrap().contains(":7443\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_there_again_the_next_day() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki {
            folder: folder.path().join("pki"),
            kubeconfig: folder.path().join("admin.kubeconfig"),
            server: "https://127.0.0.1:6443".to_owned(),
            names: Pki::names("localhost", &[]),
            clock: Clock::system(),
        };
        let files = pki.ensure().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let start = kevel_clock::timer_now();
        let keeping = tokio::spawn(pki.keep(async { drop(stopped.await) }));
        for day in 1..=2 {
            fs::remove_file(&files.serving_certificate).unwrap();
            fs::remove_file(&files.serving_key).unwrap();
            while !files.serving_certificate.exists() {
                assert!(kevel_clock::timer_now() - start < 4 * DAY, "it never comes back");
                tokio::time::sleep(Duration::from_secs(600)).await;
            }
            assert_eq!((kevel_clock::timer_now() - start).as_secs() / DAY.as_secs(), day);
        }
        drop(stop);
        keeping.await.unwrap();
    }
}
