//! Manifest-based admission: webhooks and policies from files of this server (upstream: admission/plugin/manifest).
//!
//! ```text
//! folder ─▶ documents ─▶ Loader: decode, default, validate, constraints ─▶ compile ─▶ Manifests ── load ──▶ [T]
//! ```
//!
//! Objects of files come before those of the API, are in force from the first request on, and see writes of webhook
//! configurations and policies, which objects of the API never see. A folder that cannot be loaded stops the start; later
//! it changes nothing.
//!
//! - `folder`: files of a folder, split into documents, with the hash of their content
//! - `kinds`: kinds that a plug-in takes, and the constraints on their objects
//! - `loader`: documents to valid objects
//! - `error`: errors of a folder, with the reference's messages
//! - `metrics`: reloads, and the hash of the content in force

mod error;
mod folder;
mod kinds;
mod loader;
mod metrics;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use kevel_api::field_error::FieldErrors;
use kevel_api::value::Value;
use kevel_clock::Stopwatch;

use self::folder::{FolderState, state};
use self::kinds::ManifestKinds;
use self::loader::{LoadedManifests, load};

pub use error::ManifestError;
pub use metrics::ManifestMetrics;

pub(crate) use kinds::{
    MUTATING_POLICIES, MUTATING_WEBHOOKS, VALIDATING_POLICIES, VALIDATING_WEBHOOKS,
};
pub(crate) use loader::ManifestObject;

/// Suffix of the names of all objects in manifest files, reserved there and in the API.
pub const STATIC_SUFFIX: &str = ".static.k8s.io";

/// Interval at which the files' metadata are compared. The reference is woken by the file system.
const LOOK: Duration = Duration::from_secs(1);

/// Interval at which the files are read even if their metadata are the same, and an invalid folder is tried again
/// (upstream: defaultReloadInterval).
const RELOAD: Duration = Duration::from_secs(60);

/// Validation of an object by the rules of its kind in the API, but for the reserved suffix.
pub type Validate = Arc<dyn Fn(&str, &Value) -> FieldErrors + Send + Sync>;

/// Folder with the manifests of a plug-in (`staticManifestsDir`).
#[derive(Clone)]
pub struct ManifestFolder {
    /// Absolute path.
    pub path: PathBuf,
    /// Validation of its objects, by kind.
    pub validate: Validate,
    /// Metrics of reloads.
    pub metrics: ManifestMetrics,
}

impl std::fmt::Debug for ManifestFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestFolder").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Compilation of the objects in a folder to a plug-in's own.
pub(crate) type CompileManifests<T> = fn(Vec<ManifestObject>) -> Vec<T>;

/// Compiled objects of a folder (upstream: staticWebhookSource, StaticPolicySource).
pub(crate) struct Manifests<T> {
    plugin: &'static str,
    folder: ManifestFolder,
    kinds: ManifestKinds,
    compile: CompileManifests<T>,
    current: ArcSwap<Vec<T>>,
    /// Hash of the content that was loaded last.
    hash: Mutex<String>,
    joined: ArcSwapOption<JoinedManifests<T>>,
}

/// Objects of files followed by those of the API, kept until one of the two changes.
struct JoinedManifests<T> {
    of_files: Arc<Vec<T>>,
    of_api: Arc<Vec<T>>,
    all: Arc<Vec<T>>,
}

impl<T> std::fmt::Debug for Manifests<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manifests").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl<T: Clone + Send + Sync + 'static> Manifests<T> {
    /// Loads a folder for the first time.
    pub fn load(
        plugin: &'static str,
        folder: ManifestFolder,
        kinds: ManifestKinds,
        compile: CompileManifests<T>,
    ) -> Result<Arc<Self>, ManifestError> {
        let LoadedManifests { objects, hash } = load(&folder, kinds)?;
        tracing::info!(plugin, count = objects.len(), "loaded admission manifests");
        folder.metrics.succeeded(plugin, &hash);
        Ok(Arc::new(Manifests {
            current: ArcSwap::from_pointee(compile(objects)),
            hash: Mutex::new(hash),
            joined: ArcSwapOption::empty(),
            plugin,
            folder,
            kinds,
            compile,
        }))
    }

    /// Objects in force.
    pub fn current(&self) -> Arc<Vec<T>> {
        self.current.load_full()
    }

    /// Whether no object is in force.
    pub fn is_empty(&self) -> bool {
        self.current.load().is_empty()
    }

    /// Objects in force, and after them these of the API.
    pub fn and(&self, of_api: Arc<Vec<T>>) -> Arc<Vec<T>> {
        let of_files = self.current();
        let joined = self.joined.load();
        if let Some(joined) = joined.as_ref()
            && Arc::ptr_eq(&joined.of_files, &of_files)
            && Arc::ptr_eq(&joined.of_api, &of_api)
        {
            return joined.all.clone();
        }
        let all = Arc::new(of_files.iter().chain(of_api.iter()).cloned().collect());
        let joined = JoinedManifests { of_files, of_api, all: Arc::clone(&all) };
        self.joined.store(Some(Arc::new(joined)));
        all
    }

    /// Reloads the folder whenever its files change. Never returns.
    pub async fn follow(self: Arc<Self>) {
        let mut seen: Option<FolderState> = None;
        let mut since = Stopwatch::start();
        loop {
            let this = self.clone();
            let due = since.elapsed() >= RELOAD;
            let before = seen.take();
            // Files are read, and expressions compiled, beside the workers.
            let looked = tokio::task::spawn_blocking(move || {
                let now = state(&this.folder.path);
                let reloads = due || before.as_ref() != Some(&now);
                if reloads {
                    this.reload();
                }
                (now, reloads)
            });
            // The task is cancelled at shutdown.
            let Ok((now, reloaded)) = looked.await else { return };
            seen = Some(now);
            if reloaded {
                since = Stopwatch::start();
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Loads the folder again. An error leaves everything as it was.
    fn reload(&self) {
        let (plugin, folder) = (self.plugin, self.folder.path.display());
        match load(&self.folder, self.kinds) {
            Err(error) => {
                tracing::error!(plugin, %folder, %error, "reloading admission manifests");
                self.folder.metrics.failed(plugin);
            }
            Ok(LoadedManifests { objects, hash }) => {
                let mut last = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
                if *last == hash {
                    return;
                }
                self.current.store(Arc::new((self.compile)(objects)));
                self.folder.metrics.succeeded(plugin, &hash);
                *last = hash;
                tracing::info!(plugin, %folder, "reloaded admission manifests");
            }
        }
    }
}
