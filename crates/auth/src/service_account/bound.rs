//! Bound service account tokens: they expire, and are valid only while the objects that they are bound to exist.

use std::sync::Arc;

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_server::authentication::{AuthError, Known, TokenAuthenticated, TokenAuthenticator};

use super::Identity;
use super::claims::{KubernetesClaims, Reference};
use super::objects::{Kind, Lifetime, Objects};
use super::signed::Verifier;
use crate::jose::time_claim;

/// Leeway between clocks in seconds; also the time for which an object counts as existing after its
/// deletionTimestamp.
const LEEWAY: i64 = 60;

/// Audit annotation of requests with a token that should have been renewed.
const STALE_TOKEN: &str = "authentication.k8s.io/stale-token";

const INVALIDATED: &str = "service account token has been invalidated";

/// Authenticator of bound tokens.
#[derive(Debug)]
pub struct BoundTokens {
    verifier: Verifier,
    objects: Arc<Objects>,
}

impl BoundTokens {
    /// Makes an authenticator that looks bound objects up among `objects`.
    pub fn new(verifier: Verifier, objects: Arc<Objects>) -> Self {
        BoundTokens { verifier, objects }
    }

    async fn known(&self, token: &str, audiences: &[String]) -> Result<Option<Known>, String> {
        let Some(mut signed) = self.verifier.verify(token, audiences).await? else {
            return Ok(None);
        };
        let now = Time::now(self.objects.clock()).seconds;
        check_times(&signed.claims, now)?;
        let claims = KubernetesClaims::read(&signed.claims)?;
        self.check_objects(&claims, now - LEEWAY).await?;
        if let Some(warn_after) = claims.warn_after.filter(|time| *time != 0) {
            let stale = now > warn_after;
            let uses = &self.verifier.uses;
            if stale { &uses.stale } else { &uses.valid }.increment();
            if stale {
                let (subject, late) = (signed.claims.str_at(&["sub"]), now - warn_after);
                let told = format!("subject: {subject}, seconds after warning threshold: {late}");
                signed.annotations.push((STALE_TOKEN, told));
            }
        }
        let identity = Identity {
            token_id: signed.claims.str_at(&["jti"]).to_owned(),
            namespace: claims.namespace,
            account: claims.account,
            pod: claims.pod,
            node: claims.node,
        };
        let known = Known::new(identity.user(), signed.audiences);
        Ok(Some(Known { annotations: signed.annotations, ..known }))
    }

    /// Checks that the account and the bound objects have the UIDs in the token.
    async fn check_objects(&self, claims: &KubernetesClaims, gone: i64) -> Result<(), String> {
        let KubernetesClaims { namespace, account, .. } = claims;
        let kind = Kind::ServiceAccount;
        let found = self.objects.known(kind, namespace, &account.name, Lifetime::read).await;
        let found = found.map_err(|error| error.to_string())?;
        let uid = &found.reference.uid;
        if *uid != account.uid {
            let claimed = &account.uid;
            return Err(format!("service account UID ({uid}) does not match claim ({claimed})"));
        }
        if found.ended_before(gone) {
            return Err(format!("service account {namespace}/{} has been deleted", account.name));
        }
        if let Some(secret) = &claims.secret {
            self.check_bound(Kind::Secret, namespace, secret, gone).await?;
        }
        match (&claims.pod, &claims.node) {
            (Some(pod), _) => self.check_bound(Kind::Pod, namespace, pod, gone).await,
            // The node of a pod is information: the token is bound to the pod.
            (None, Some(node)) => self.check_bound(Kind::Node, "", node, gone).await,
            (None, None) => Ok(()),
        }
    }

    async fn check_bound(
        &self,
        kind: Kind,
        namespace: &str,
        claimed: &Reference,
        gone: i64,
    ) -> Result<(), String> {
        let found = self.objects.known(kind, namespace, &claimed.name, Lifetime::read).await;
        let found = found.map_err(|_| INVALIDATED.to_owned())?;
        let uid = &found.reference.uid;
        let what = match kind {
            Kind::ServiceAccount => "service account",
            Kind::Secret => "secret",
            Kind::Pod => "pod",
            Kind::Node => "node",
        };
        if *uid != claimed.uid {
            let claimed = &claimed.uid;
            return Err(format!(
                "{what} UID ({uid}) does not match service account {what} ref claim ({claimed})"
            ));
        }
        if found.ended_before(gone) { Err(INVALIDATED.to_owned()) } else { Ok(()) }
    }
}

impl TokenAuthenticator for BoundTokens {
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

fn check_times(claims: &Value, now: i64) -> Result<(), String> {
    let is = |name: &str, wrong: fn(i64, i64) -> bool| -> Result<bool, String> {
        Ok(time_claim(claims, name)?.is_some_and(|time| wrong(time, now)))
    };
    let early = |time: i64, now: i64| now + LEEWAY < time;
    if is("nbf", early)? {
        return Err("service account token is not valid yet".to_owned());
    }
    if is("exp", |time, now| now - LEEWAY > time)? {
        return Err("service account token has expired".to_owned());
    }
    if is("iat", early)? {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}
