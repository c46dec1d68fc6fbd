//! The transformers of a configuration file, and those that it has after it changed.

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

/// How long new plug-ins have at least to be well.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often they are asked meanwhile.
const POLL: Duration = Duration::from_millis(100);
/// The longest pause before a file that was wrong is tried again without having changed: a plug-in may
/// be well by then.
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
    /// The hash of the text in force.
    hash: Mutex<String>,
}

impl DynamicTransformers {
    /// Reads the file, in the reference's words if it is wrong, and asks its plug-ins once. `reload`:
    /// somebody will [follow](Self::follow) it.
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

    /// An engine whose values these encrypt.
    pub fn engine(&self, engine: Arc<dyn Engine>) -> Encrypted {
        Encrypted::new(engine, self.current.clone(), self.metrics.clone())
    }

    /// Whether there is anything to [check](Self::check), now or later.
    pub fn has_check(&self) -> bool {
        self.reload || self.current.load().has_plugins()
    }

    /// How many plug-ins have a [check](Self::check_one) of their own. Plug-ins of v2 share one, and so do all where
    /// the file is read again.
    pub fn checks_apart(&self) -> Option<usize> {
        if self.reload { None } else { self.current.load().checks_apart() }
    }

    /// Whether one plug-in is well (`kms-provider-N`).
    pub async fn check_one(&self, index: usize) -> Result<(), String> {
        let current = self.current.load_full();
        current.check_one(index).await
    }

    /// Whether all plug-ins are well (`kms-providers`).
    pub async fn check(&self) -> Result<(), String> {
        let current = self.current.load_full();
        current.check().await
    }

    /// Follows the file, for ever. What is wrong with a new text is said, and changes
    /// nothing.
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
            // The same mistake is not told all the time.
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

    /// Takes up what the file says now.
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

/// Waits until all plug-ins are well.
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
