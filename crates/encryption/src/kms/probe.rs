//! Status polling of a plug-in: health and key ID.

use kevel_api::field_error::aggregate;
use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_clock::{Moment, Stopwatch};
use kevel_server::config_file::sha256;
use kevel_server::grpc::shown;
use std::sync::{Arc, Weak};

use super::object::{check_key_id, check_source};
use super::proto::{
    EncryptRequest, EncryptResponse, EncryptedObject, SEED, StatusRequest, StatusResponse,
};
use super::seed::{SEED_LENGTH, Seed};
use super::{DecryptedSeed, ENCRYPT, Plugin, STATUS, State};
use crate::transformer::random;

/// Accepted API versions, which are equivalent.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// Result of the last status call.
#[derive(Debug, Default)]
pub(super) struct Last {
    asked: Option<(Moment, Result<(), String>)>,
    /// The first version that the plug-in returned.
    version: String,
}

impl Plugin {
    /// Health of the plug-in, cached for a short time. Rotates the seed if the plug-in's key ID has changed.
    pub async fn check(&self) -> Result<(), String> {
        let mut last = self.last.lock().await;
        if let Some((asked, result)) = &last.asked {
            let ttl = match result {
                Ok(()) => self.timing.healthz_positive_ttl,
                Err(_) => self.timing.healthz_negative_ttl,
            };
            if self.clock.since(*asked) < ttl {
                return result.clone();
            }
        }
        let (result, said) = match self.call(STATUS, StatusRequest {}).await {
            Ok(status) => {
                let result = self.judge(status, &mut last.version).await;
                (result.clone(), result)
            }
            Err(status) => {
                let (error, name) = (shown(&status), &self.name);
                let said = format!(
                    "failed to perform status section of the healthz check for KMS Provider \
                     {name}, error: {error}"
                );
                (Err(error), Err(said))
            }
        };
        last.asked = Some((self.clock.moment(), result));
        said
    }

    async fn judge(&self, status: StatusResponse, version: &mut String) -> Result<(), String> {
        let mut errors = Vec::new();
        if status.healthz != "ok" {
            errors.push(format!("got unexpected healthz status: {}", status.healthz));
        }
        if !VERSIONS.contains(&status.version.as_str()) {
            errors.push(format!("expected KMSv2 API version v2, got {}", status.version));
        } else {
            if version.is_empty() {
                version.clone_from(&status.version);
            }
            if *version != status.version {
                errors.push(format!(
                    "KMSv2 API version should not change after the initial status response \
                     version {version}, got {}",
                    status.version
                ));
            }
        }
        let hash = sha256(status.key_id.as_bytes());
        match check_key_id(&status.key_id) {
            Err((code, why)) => {
                self.metrics.told_invalid_key(&self.name, code);
                errors.push(format!("got invalid KMSv2 KeyID hash {}: {why}", quote(&hash)));
            }
            Ok(()) => {
                self.metrics.told_key(&self.name, &hash, &self.server);
                errors.extend(self.rotate(&status.key_id).await.err());
            }
        }
        aggregate(errors).map_or(Ok(()), |errors| {
            Err(format!("kmsv2 Provider {} is not healthy, error: {errors}", self.name))
        })
    }

    /// Generates a new seed if the plug-in's key ID has changed; otherwise extends the validity of the present one. On
    /// failure the old seed stays until it expires.
    async fn rotate(&self, key_id: &str) -> Result<(), String> {
        // Before the plug-in is called: the expiry is an upper bound.
        let ttl = self.timing.write_source_max_ttl;
        let expires = self.clock.moment() + ttl;
        let seconds = Time::now(&self.clock).seconds.saturating_add_unsigned(ttl.as_secs());
        let expires_at = Time { seconds };
        let current = self.state.load_full();
        if let Some(state) = current.as_deref().filter(|state| state.object.key_id == key_id) {
            let (source, object) = (state.source.clone(), state.object.clone());
            let source_key = state.source_key;
            let state = State { source, object, source_key, expires, expires_at };
            self.state.store(Some(Arc::new(state)));
            return Ok(());
        }
        let uid = uuid::Uuid::new_v4().to_string();
        let generated = self.generate(&uid).await;
        let (why, encrypted) = match generated {
            Ok((source, object)) if object.key_id == key_id => {
                let (source, source_key) = (Arc::new(source), object.source_key());
                self.keep(source_key, &source);
                let state = State { source, object, source_key, expires, expires_at };
                self.state.store(Some(Arc::new(state)));
                tracing::info!(
                    name = self.name,
                    key_id_hash = sha256(key_id.as_bytes()),
                    "successfully rotated DEK"
                );
                return Ok(());
            }
            Ok((source, _)) => ("<nil>".to_owned(), source.key_id_hash),
            Err(why) => (why, String::new()),
        };
        let (state, stays) = match current.as_deref() {
            Some(state) => (state.source.key_id_hash.as_str(), state.expires_at.to_string()),
            None => ("", "0001-01-01T00:00:00Z".to_owned()),
        };
        let err_state = if current.is_some() { "<nil>" } else { "got unexpected nil transformer" };
        Err(format!(
            "failed to rotate DEK uid={}, useSeed=true, errState={err_state}, errGen={why}, \
             statusKeyIDHash={}, encryptKeyIDHash={}, stateKeyIDHash={}, \
             expirationTimestamp={stays}",
            quote(&uid),
            quote(&sha256(key_id.as_bytes())),
            quote(&encrypted),
            quote(state),
        ))
    }

    /// A new seed, and its encrypted form.
    async fn generate(&self, uid: &str) -> Result<(DecryptedSeed, EncryptedObject), String> {
        let started = Stopwatch::start();
        let mut seed = Vec::new();
        let made = random(SEED_LENGTH, &mut seed);
        self.metrics.generated(made.is_ok().then(|| started.elapsed()));
        made?;
        let cipher = Box::new(Seed::new(&seed)?);
        let request = EncryptRequest { plaintext: seed, uid: uid.to_owned() };
        let answered: Result<EncryptResponse, _> = self.call(ENCRYPT, request).await;
        let answer = answered
            .map_err(|status| format!("failed to encrypt DEK, error: {}", shown(&status)))?;
        let object = EncryptedObject {
            encrypted_data: Vec::new(),
            key_id: answer.key_id,
            encrypted_dek_source: answer.ciphertext,
            annotations: answer.annotations,
            encrypted_dek_source_type: SEED,
        };
        check_source(&object)?;
        let key_id_hash = sha256(object.key_id.as_bytes());
        Ok((DecryptedSeed { cipher, key_id_hash }, object))
    }

    /// Calls the plug-in once, and polls it from then on, as long as it is used. A plug-in that does not answer does
    /// not prevent the start: it may start later than this server.
    pub async fn start(self: &Arc<Self>) {
        let well = self.probe().await;
        tokio::spawn(poll(Arc::downgrade(self), well));
    }

    async fn probe(&self) -> bool {
        let checked = self.check().await;
        if let Err(error) = &checked {
            tracing::warn!(error, name = self.name, "kms plugin failed health check probe");
        }
        checked.is_ok()
    }
}

async fn poll(plugin: Weak<Plugin>, mut well: bool) {
    loop {
        let pause = plugin.upgrade().map(|plugin| match well {
            true => (plugin.clock.clone(), plugin.timing.positive_interval),
            false => (plugin.clock.clone(), plugin.timing.negative_interval),
        });
        let Some((clock, pause)) = pause else { return };
        clock.sleep(pause).await;
        let Some(plugin) = plugin.upgrade() else { return };
        well = plugin.probe().await;
    }
}
