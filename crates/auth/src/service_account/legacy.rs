//! Tokens in secrets, which are good until their secret is deleted.

use std::sync::{Arc, OnceLock};

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_codec::base64;
use kevel_server::authentication::{AuthError, Known, TokenAuthenticated, TokenAuthenticator};
use kevel_server::controller::Client;
use kevel_server::handler::Pending;
use subtle::ConstantTimeEq as _;

use super::claims::Reference;
use super::objects::{Kind, Objects};
use super::signed::Verifier;
use super::{Identity, username};

/// Who issued them, whatever `--service-account-issuer` says.
pub const ISSUER: &str = "kubernetes/serviceaccount";

/// The labels by which a secret says when its token was used, and that it must not be.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

const AUTO_GENERATED: &str = "Use tokens from the TokenRequest API or manually created \
                              secret-based tokens instead of auto-generated secret-based tokens.";

/// Knows the users of the tokens in secrets.
#[derive(Debug)]
pub struct LegacyTokens {
    verifier: Verifier,
    objects: Arc<Objects>,
    /// Whether secret and account have to be there: `--service-account-lookup`.
    lookup: bool,
    /// Who notes down that a token was used. Known once there is a server to write to.
    client: OnceLock<Client>,
}

impl LegacyTokens {
    /// Verifies with the keys of `verifier`; its issuers are those of other tokens.
    pub fn new(verifier: Verifier, objects: Arc<Objects>, lookup: bool) -> Self {
        let verifier = Verifier { issuers: vec![ISSUER.to_owned()], ..verifier };
        LegacyTokens { verifier, objects, lookup, client: OnceLock::new() }
    }

    /// Says who notes down that a token was used. Later calls change nothing.
    pub fn bind(&self, client: Client) {
        let _ = self.client.set(client);
    }

    async fn known(&self, token: &str, audiences: &[String]) -> Result<Option<Known>, String> {
        let Some(signed) = self.verifier.verify(token, audiences)? else { return Ok(None) };
        let claims = LegacyClaims::read(&signed.claims)?;
        let mut warnings = Vec::new();
        if self.lookup {
            let secret = self.check_secret(&claims, token).await?;
            let account = self.check_account(&claims).await?;
            // A token that is marked is refused, but its use is noted down.
            let marked = !secret.str_at(&["metadata", "labels", INVALID_SINCE]).is_empty();
            self.note_use(&secret).await;
            if marked {
                return Err(claims.marked_invalid());
            }
            let secrets = account.at(&["secrets"]).and_then(Value::as_list).unwrap_or_default();
            if secrets.iter().any(|secret| secret.str_at(&["name"]) == claims.secret) {
                warnings.push(AUTO_GENERATED.to_owned());
            }
        }
        let LegacyClaims { namespace, account, .. } = claims;
        let identity = Identity { namespace, account, ..Identity::default() };
        Ok(Some(Known { warnings, ..Known::new(identity.user(), signed.audiences) }))
    }

    async fn check_secret(&self, claims: &LegacyClaims, token: &str) -> Result<Value, String> {
        let invalidated = || "Token has been invalidated".to_owned();
        let secret = self.objects.known(Kind::Secret, &claims.namespace, &claims.secret).await;
        let secret = secret.map_err(|_| invalidated())?;
        if is_deleted(&secret) {
            return Err(invalidated());
        }
        let mut copy = Vec::new();
        let decoded = base64::decode_into(secret.str_at(&["data", "token"]), &mut copy);
        if decoded.is_err() || !bool::from(copy.ct_eq(token.as_bytes())) {
            return Err("Token does not match server's copy".to_owned());
        }
        Ok(secret)
    }

    async fn check_account(&self, claims: &LegacyClaims) -> Result<Value, String> {
        let LegacyClaims { namespace, account: claimed, .. } = claims;
        let account = self.objects.known(Kind::ServiceAccount, namespace, &claimed.name).await;
        let account = account.map_err(|error| error.to_string())?;
        if is_deleted(&account) {
            let name = &claimed.name;
            return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
        }
        let uid = Reference::of(&account).uid;
        if uid != claimed.uid {
            let claimed = &claimed.uid;
            return Err(format!("ServiceAccount UID ({uid}) does not match claim ({claimed})"));
        }
        Ok(account)
    }

    /// Labels a secret with the day on which its token was used. That it was used does not depend
    /// on it.
    async fn note_use(&self, secret: &Value) {
        let Some(client) = self.client.get() else { return };
        let day = |seconds: i64| Time { seconds }.to_string().chars().take(10).collect::<String>();
        let now = Time::now().seconds;
        let (today, tomorrow) = (day(now), day(now + 24 * 60 * 60));
        let noted = secret.str_at(&["metadata", "labels", LAST_USED]);
        if noted == today || noted == tomorrow {
            return;
        }
        let mut labelled = secret.clone();
        if let Some(metadata) = labelled.at_mut(&["metadata"]).and_then(Value::as_map_mut) {
            let labels = metadata.entry_or_insert_with("labels", || Map::new().into());
            if let Some(labels) = labels.as_map_mut() {
                labels.insert(LAST_USED, today.as_str().into());
            }
        }
        let text = |field| secret.str_at(&["metadata", field]);
        let (namespace, name) = (text("namespace"), text("name"));
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        if let Err(error) = client.update(&path, &labelled).await {
            tracing::error!(namespace, name, %error, "cannot note that a token was used");
        }
    }
}

impl TokenAuthenticator for LegacyTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(async move {
            let known = self.known(token, audiences).await.map_err(AuthError)?;
            Ok(known.map(Arc::new))
        })
    }
}

struct LegacyClaims {
    namespace: String,
    account: Reference,
    secret: String,
}

impl LegacyClaims {
    fn read(claims: &Value) -> Result<Self, String> {
        let said = |name: &str, claim: &str| match claims.str_at(&[claim]) {
            "" => Err(format!("{name} claim is missing")),
            text => Ok(text.to_owned()),
        };
        let subject = said("sub", "sub")?;
        let namespace = said("namespace", "kubernetes.io/serviceaccount/namespace")?;
        let secret = said("secretName", "kubernetes.io/serviceaccount/secret.name")?;
        let name = said("serviceAccountName", "kubernetes.io/serviceaccount/service-account.name")?;
        let uid = said("serviceAccountUID", "kubernetes.io/serviceaccount/service-account.uid")?;
        if subject != username(&namespace, &name) {
            return Err("sub claim is invalid".to_owned());
        }
        Ok(LegacyClaims { namespace, account: Reference { name, uid }, secret })
    }

    fn marked_invalid(&self) -> String {
        let LegacyClaims { namespace, account, secret } = self;
        format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{} has been \
             marked invalid. Use tokens from the TokenRequest API or manually created secret-based \
             tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow \
             use of this token",
            account.name
        )
    }
}

fn is_deleted(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some()
}
