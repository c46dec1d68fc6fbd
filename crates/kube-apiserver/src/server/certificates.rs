//! The certificates and keys to serve with: the user's, or those that the server makes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::{
    CaBundle, Dynamic, Pki, PkiFiles, self_signed, warn_unable_to_sign,
};
use kevel_server::metrics::Metrics;
use kevel_server::serving::{ServingCertificate, Tls, TlsOptions};
use kevel_store::embedded::Embedded;

use super::certificate_files;
use super::storage::embedded_folder;
use crate::options::{CompletedOptions, StorageKind, has_address, loopback};

/// Serving certificates, and trusted CA bundles.
#[derive(Debug, Default)]
pub struct Certificates {
    /// TLS of the port, if there is one.
    pub tls: Option<Arc<Tls>>,
    /// CA bundle of client certificates.
    pub client_ca: Option<Arc<Dynamic<CaBundle>>>,
    /// CA bundle of front proxies (request headers).
    pub request_header_ca: Option<Arc<Dynamic<CaBundle>>>,
    /// Certificates that the server makes for itself.
    pub own: Option<(Pki, PkiFiles)>,
}

impl Certificates {
    pub fn new(options: &CompletedOptions, metrics: &Metrics) -> Result<Self, String> {
        if options.in_process {
            return Ok(Certificates::default());
        }
        let flags = &options.flags;
        let own = options.own_pki.as_ref().map(|folder| make_own(options, folder)).transpose()?;
        let client_ca_file = match flags.authentication.client_ca_file.as_str() {
            "" => own.as_ref().map(|(_, files)| files.ca_certificate.clone()),
            file => Some(PathBuf::from(file)),
        };
        let client_ca = client_ca_file.map(|file| load_ca("client-ca-bundle", file)).transpose()?;
        let request_header_ca = match flags.authentication.requestheader_client_ca_file.as_str() {
            "" => None,
            file => Some(load_ca("request-header", PathBuf::from(file))?),
        };
        let mut certificates = vec![serving_certificate(options, own.as_ref())?];
        if let Some(serving) = certificates.first() {
            let own = own.as_ref().map(|(_, files)| files);
            certificate_files::watch_over(options, &serving.certificate, own, metrics);
        }
        for sni in &flags.secure_serving.tls_sni_cert_key.0 {
            certificates.push(ServingCertificate {
                certificate: PathBuf::from(&sni.cert_file),
                key: PathBuf::from(&sni.key_file),
                names: sni.names.clone(),
            });
        }
        let tls_options = TlsOptions {
            min_version: flags.secure_serving.tls_min_version.clone(),
            cipher_suites: flags.secure_serving.tls_cipher_suites.0.clone(),
            curve_preferences: flags.secure_serving.tls_curve_preferences.0.clone(),
            disable_http2: flags.secure_serving.disable_http2_serving,
        };
        let authorities = client_ca.iter().chain(&request_header_ca).cloned().collect();
        let tls = Tls::new(&tls_options, &certificates, authorities)?;
        Ok(Certificates { tls: Some(Arc::new(tls)), client_ca, request_header_ca, own })
    }
}

fn load_ca(name: &str, file: PathBuf) -> Result<Arc<Dynamic<CaBundle>>, String> {
    let source = file.clone();
    let loaded = Dynamic::load(name, &[file], move |files| {
        warn_unable_to_sign(source.display(), Purpose::ClientAuth, files);
        match files {
            [pem] => CaBundle::parse(pem),
            _ => Err("no file".to_owned()),
        }
    });
    loaded.map(Arc::new)
}

/// An authority, certificates, keys and an admin's kubeconfig, made on the first start.
fn make_own(options: &CompletedOptions, folder: &str) -> Result<(Pki, PkiFiles), String> {
    let flags = &options.flags;
    let bind = flags.secure_serving.bind_address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let own_address = own_address(bind);
    let port = u16::try_from(flags.secure_serving.secure_port).unwrap_or_default();
    let addresses = [options.advertise_address, options.service_ips.api_server, own_address];
    let pki = Pki {
        folder: PathBuf::from(folder),
        kubeconfig: Path::new(&flags.kevel.data_dir).join("admin.kubeconfig"),
        server: format!("https://{}", SocketAddr::new(own_address, port)),
        names: Pki::names(&options.external_host, &addresses),
        clock: options.clock.clone(),
    };
    refuse_new_keys(options, &pki)?;
    if options.storage == StorageKind::Embedded {
        // Before the kubeconfig is written: it is that of the server which runs on this folder.
        Embedded::ensure_free(&embedded_folder(options))
            .map_err(|error| format!("{error} (--data-dir)"))?;
    }
    let files = pki.ensure()?;
    Ok((pki, files))
}

/// The address at which a client on this machine reaches a server that listens on `bind`.
fn own_address(bind: IpAddr) -> IpAddr {
    if bind.is_unspecified() { loopback(has_address) } else { bind }
}

/// A store that is in use belongs to an authority and a key that signs tokens. Other ones would make
/// every kubeconfig, client certificate and service account token worthless, without a word.
fn refuse_new_keys(options: &CompletedOptions, pki: &Pki) -> Result<(), String> {
    let in_use =
        options.storage == StorageKind::Embedded && Embedded::exists(&embedded_folder(options));
    let lost = pki.lost();
    if !in_use || lost.is_empty() {
        return Ok(());
    }
    let (folder, lost) = (pki.folder.display(), lost.join(", "));
    Err(format!(
        "{folder}: {lost} not found, but the store is in use: with new ones, every kubeconfig, \
         client certificate and service account token of this cluster would stop working. Restore \
         the folder from a backup; or, to make new ones and hand out new kubeconfigs, let {folder} \
         be an empty folder and start again"
    ))
}

fn serving_certificate(
    options: &CompletedOptions,
    own: Option<&(Pki, PkiFiles)>,
) -> Result<ServingCertificate, String> {
    let flags = &options.flags.secure_serving;
    let (certificate, key) = match (&flags.tls_cert_file, own) {
        (file, _) if !file.is_empty() && options.generated_cert.is_none() => {
            (PathBuf::from(file), PathBuf::from(&flags.tls_private_key_file))
        }
        (_, Some((_, files))) => (files.serving_certificate.clone(), files.serving_key.clone()),
        _ => self_signed(
            Path::new(&flags.cert_dir),
            options.advertise_address,
            flags.bind_address.unwrap_or(IpAddr::from([0, 0, 0, 0])),
            Some(options.service_ips.api_server),
            &options.clock,
        )
        .map_err(|error| format!("--cert-dir: {error}"))?,
    };
    Ok(ServingCertificate { certificate, key, names: Vec::new() })
}
