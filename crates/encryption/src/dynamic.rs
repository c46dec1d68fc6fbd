//! Transformers of a configuration file, replaced when it changes (upstream: DynamicEncryptionConfigContent).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use kevel_clock::timer_now;
use kevel_server::config_file::{Reloads, sha256};
use kevel_server::metrics::Metrics;
use kevel_store::Engine;
use tokio::time::{Instant, sleep, timeout};

use crate::config::{EncryptionConfiguration, read_file};
use crate::encrypted::Encrypted;
use crate::metrics::EncryptionMetrics;
use crate::resources::{Options, Transformers};

/// Minimum time for new plug-ins to become healthy.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of health checks meanwhile.
const POLL: Duration = Duration::from_millis(100);
/// Maximum pause before an invalid file is tried again without a change: a plug-in may be healthy by then.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The transformers in force.
#[derive(Debug)]
pub struct DynamicTransformers {
    current: Arc<ArcSwap<Transformers>>,
    path: PathBuf,
    reload: bool,
    options: Options,
    metrics: Arc<EncryptionMetrics>,
    reloads: Reloads,
    /// Hash of the configuration text in force.
    hash: Mutex<String>,
}

impl DynamicTransformers {
    /// Loads the file, with the reference's error messages, and calls its plug-ins once. `reload`: the caller will run
    /// [follow](Self::follow).
    pub async fn load(
        path: &Path,
        reload: bool,
        options: Options,
        all: &Metrics,
        metrics: Arc<EncryptionMetrics>,
    ) -> Result<Self, String> {
        let loaded = EncryptionConfiguration::load(path, reload)?;
        let transformers = Transformers::new(&loaded.configuration, &options, &metrics)?;
        transformers.start().await;
        let reloads = Reloads::encryption(all, &options.server_id);
        reloads.loaded(&loaded.text);
        Ok(DynamicTransformers {
            current: Arc::new(ArcSwap::from_pointee(transformers)),
            path: path.to_owned(),
            reload,
            options,
            metrics,
            reloads,
            hash: Mutex::new(sha256(&loaded.text)),
        })
    }

    /// An engine whose values are encrypted by these transformers.
    pub fn engine(&self, engine: Arc<dyn Engine>) -> Encrypted {
        Encrypted::new(engine, self.current.clone(), self.metrics.clone())
    }

    /// Whether there is a health check, now or later.
    pub fn has_check(&self) -> bool {
        self.reload || self.current.load().has_plugins()
    }

    /// Number of plug-ins with a [check](Self::check_one) of their own; `None` if all share one, which is so for v2
    /// plug-ins and for a reloaded file.
    pub fn checks_apart(&self) -> Option<usize> {
        if self.reload { None } else { self.current.load().checks_apart() }
    }

    /// Health of one plug-in (`kms-provider-N`).
    pub async fn check_one(&self, index: usize) -> Result<(), String> {
        let current = self.current.load_full();
        current.check_one(index).await
    }

    /// Health of all plug-ins (`kms-providers`).
    pub async fn check(&self) -> Result<(), String> {
        let current = self.current.load_full();
        current.check().await
    }

    /// Reloads the file whenever it changes; never returns. An invalid file is logged and changes nothing.
    pub async fn follow(self: Arc<Self>) {
        let mut failures: u32 = 0;
        let mut tried: Option<(String, Instant)> = None;
        loop {
            sleep(self.options.timing.look).await;
            let hash = read_file(&self.path).map(|text| sha256(&text));
            if hash.as_ref() == Ok(&*self.hash.lock().unwrap_or_else(PoisonError::into_inner)) {
                tried = None;
                continue;
            }
            let seen = hash.unwrap_or_default();
            // The same error is not repeated all the time.
            let pause =
                (self.options.timing.look * 2_u32.saturating_pow(failures)).min(LONGEST_RETRY);
            if tried.as_ref().is_some_and(|(text, at)| *text == seen && at.elapsed() < pause) {
                continue;
            }
            match self.change().await {
                Ok(()) => {
                    failures = 0;
                    tracing::info!("Loaded new kms encryption config content");
                }
                Err(error) => {
                    failures = failures.saturating_add(1).min(16);
                    self.reloads.failed();
                    let file = self.path.display();
                    tracing::error!("error processing encryption config file {file}: {error}");
                }
            }
            tried = Some((seen, timer_now()));
        }
    }

    /// Loads the present file and puts it into force.
    async fn change(&self) -> Result<(), String> {
        let loaded = EncryptionConfiguration::load(&self.path, true)?;
        let transformers = Transformers::new(&loaded.configuration, &self.options, &self.metrics)?;
        transformers.start().await;
        healthy(&transformers).await?;
        self.current.store(Arc::new(transformers));
        let mut hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        *hash = sha256(&loaded.text);
        self.reloads.succeeded(&loaded.text);
        Ok(())
    }
}

/// Waits until all plug-ins are healthy.
async fn healthy(transformers: &Transformers) -> Result<(), String> {
    let mut said = String::new();
    let waiting = async {
        while let Err(error) = transformers.check().await {
            said = error;
            sleep(POLL).await;
        }
    };
    let in_time = timeout(transformers.grace_period().max(PATIENCE), waiting).await;
    in_time.map_err(|_| {
        format!(
            "health check for new transformers failed, polling error timed out waiting for the \
             condition: {said}"
        )
    })
}
