//! Tests of the HTTPS port, on real sockets.
#![allow(clippy::unwrap_used)]

mod broken;
mod client;
mod connections;
mod early;
mod handler;
mod hostile;
mod listening;
mod shutdown;
mod tls;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kevel_component::signals::Signal;
use kevel_server::certificates::{AltNames, Authority, CaBundle, Dynamic, Issued, Subject};
use kevel_server::handler::Handler;
use kevel_server::serving::{
    Limits, Listen, SecureServing, Serving, ServingCertificate, Tls, TlsOptions, listen, serve,
};

/// A server with a certificate of its own CA.
struct Server {
    served: Serving,
    stop: Signal,
    authority: Authority,
}

/// Options of a test server.
struct Start {
    authority: Authority,
    options: TlsOptions,
    limits: Limits,
    shutdown_timeout: Duration,
    certificates: Option<Vec<ServingCertificate>>,
}

impl Default for Start {
    fn default() -> Self {
        Start {
            authority: Authority::new("test", &kevel_clock::Clock::system()).unwrap(),
            options: TlsOptions::default(),
            limits: Limits::default(),
            shutdown_timeout: Duration::from_secs(60),
            certificates: None,
        }
    }
}

impl Start {
    fn serve(self, handler: impl Handler) -> Server {
        let Start { authority, options, limits, shutdown_timeout, certificates } = self;
        let roots = CaBundle::parse(authority.pem().as_bytes()).unwrap();
        let roots = vec![Arc::new(Dynamic::fixed(roots))];
        let tls = match certificates {
            Some(certificates) => Tls::new(&options, &certificates, roots).map(Tls::impatient),
            None => {
                let own = server_certificate(&authority, "server", &["localhost"]);
                Tls::from_pem(&options, &own.certificate, &own.key, roots)
            }
        };
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let listener = listen(Listen { address, port: 0, share_port: false }).unwrap();
        let stop = Signal::new("stop");
        let tls = Arc::new(tls.unwrap());
        let serving = SecureServing {
            clock: kevel_clock::Clock::system(),
            listener,
            tls,
            limits,
            shutdown_timeout,
            handshake_errors: Arc::default(),
        };
        let served = serve(serving, Arc::new(handler), &stop).unwrap();
        Server { served, stop, authority }
    }
}

fn server_certificate(authority: &Authority, common_name: &str, names: &[&str]) -> Issued {
    let dns_names = names.iter().map(|name| (*name).to_owned()).collect();
    let names =
        AltNames { dns_names, ips: vec![Ipv4Addr::LOCALHOST.into()], ..AltNames::default() };
    authority.issue(&Subject::Server { common_name: common_name.to_owned(), names }).unwrap()
}

/// Writes a certificate and its key, as `name.crt` and `name.key`.
fn write_pair(folder: &tempfile::TempDir, name: &str, issued: &Issued) -> (PathBuf, PathBuf) {
    let (certificate, key) =
        (folder.path().join(format!("{name}.crt")), folder.path().join(format!("{name}.key")));
    std::fs::write(&certificate, &issued.certificate).unwrap();
    std::fs::write(&key, &issued.key).unwrap();
    (certificate, key)
}
