//! Controllers of kube-controller-manager that run in the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::StatusError;
use kevel_auth::jose::{self, PrivateKey};
use kevel_controller_runtime::{Client, Loopback};
use kevel_controllers::{CertificateAuthority, DescriptorError, Supervisor, TokenSigner};
use kevel_registry::resource::Resources;
use kevel_server::handler::Handler;
use kevel_server::health::Check;
use kevel_server::lifecycle::{HookContext, HookResult, Lifecycle};

use super::config::Config;
use crate::options::{CompletedOptions, StorageKind};

/// Time between the deletion of a namespace and that of its content. On etcd there are other servers, which must hear of
/// the deletion (upstream: `namespaceDeletionGracePeriod`); otherwise only objects on their way are waited for.
const NAMESPACE_DELETION_DELAYS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(1)];

/// Reason why the controllers cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ControllersError {
    /// A file of the server's own CA cannot be read.
    #[error("open {}: {_1}", _0.display())]
    Unreadable(PathBuf, std::io::Error),
    /// The key that signs tokens cannot be used.
    #[error("{}: {_1}", _0.display())]
    Key(PathBuf, String),
    /// A descriptor does not fit.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
}

/// Selected controllers, before the server is put together that their requests go to.
pub struct ServerControllers {
    supervisor: Supervisor,
    loopback: Arc<Loopback>,
}

impl ServerControllers {
    /// The selected controllers; `None` if none is selected.
    pub fn new(
        config: &Config,
        tables: &[Arc<Resources>],
    ) -> Result<Option<Self>, ControllersError> {
        let (options, selection) = (&config.options, config.options.controllers());
        if selection.is_empty() {
            tracing::info!("Controllers are off");
            return Ok(None);
        }
        let own = config.certificates.own.as_ref().map(|(_, files)| files);
        let root_ca = own.map(|files| read(&files.ca_certificate)).transpose()?;
        let ca = own.map(|files| {
            let (certificate, key) = (read(&files.ca_certificate)?, read(&files.ca_key)?);
            Ok::<_, ControllersError>(CertificateAuthority { certificate, key })
        });
        let [several, alone] = NAMESPACE_DELETION_DELAYS;
        let shared = options.storage == StorageKind::Etcd;
        let gates = options.feature_gates.clone();
        let loopback = Arc::new(Loopback::default());
        let controllers = kevel_controllers::ControllersConfig {
            client: Client::new(loopback.clone()).with_clock(options.clock.clone()),
            storages: config.storages.clone(),
            tables: tables.to_vec(),
            metrics: config.metrics.clone(),
            root_ca,
            ca: ca.transpose()?,
            token_signer: token_signer(options)?,
            feature: Arc::new(move |gate| gates.enabled(gate)),
            namespace_deletion_delay: if shared { several } else { alone },
            shared_by: shared.then(|| options.server_id()),
        };
        let supervisor = config.controllers.supervisor(controllers, &selection)?;
        Ok(Some(ServerControllers { supervisor, loopback }))
    }

    /// Checks by the names of the controllers, as in the health of kube-controller-manager. They pass also while a
    /// kube-controller-manager or another server is in charge: this one is ready to follow it.
    pub fn checks(&self) -> impl Iterator<Item = Check> {
        self.supervisor.names().map(|name| Check::new(name, || Ok(())))
    }

    /// Adds the hook that runs the controllers once the server has been ready: their roles exist then. Their requests go
    /// to `handler`.
    pub fn start(self, lifecycle: &Lifecycle, handler: Arc<dyn Handler>) -> HookResult {
        const START: &str = "start-controllers";
        let ServerControllers { supervisor, loopback } = self;
        loopback.lead_to(&handler);
        let (hooks, ready) = (&lifecycle.hooks, lifecycle.signals.has_been_ready.wait());
        let Some(election) = supervisor.election().cloned() else {
            return hooks.run(START, async move {
                ready.await;
                supervisor.run().await;
                drop(handler);
            });
        };
        let served = handler.clone();
        // Not ended by the shutdown itself: the controllers end, then the lease is released, while requests are served.
        hooks.add_post_start(START, |HookContext { stop, tasks }| async move {
            tasks.spawn(START, async move {
                tokio::select! {
                    () = ready => supervisor.run().await,
                    () = stop.wait() => {}
                }
                drop(handler);
            });
            Ok(())
        })?;
        hooks.add_pre_shutdown("stop-controllers", || async move {
            let released = election.release().await.map_err(|error| error.to_string());
            drop(served);
            released
        })
    }
}

/// Signs tokens of service accounts with the server's key, if it is in a file.
fn token_signer(options: &CompletedOptions) -> Result<Option<TokenSigner>, ControllersError> {
    let file = &options.flags.misc.service_account_signing_key_file;
    if file.is_empty() {
        return Ok(None);
    }
    let file = Path::new(file);
    let unusable = |error| ControllersError::Key(file.to_owned(), error);
    let key = PrivateKey::from_pem(read(file)?.as_bytes()).map_err(unusable)?;
    Ok(Some(Arc::new(move |claims| jose::sign(&key, claims).map_err(StatusError::internal))))
}

fn read(file: &Path) -> Result<String, ControllersError> {
    let unreadable = |error| ControllersError::Unreadable(file.to_owned(), error);
    std::fs::read_to_string(file).map_err(unreadable)
}
