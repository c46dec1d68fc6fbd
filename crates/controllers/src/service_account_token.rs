//! Secrets of type `kubernetes.io/service-account-token`: filled with a token while their account exists, deleted with it.

use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_codec::base64;
use kevel_controller_runtime::{Backoff, Client, InformerEvent, run};
use kevel_store::cache::Object;

use crate::context::{ControllerContext, TokenSigner};
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

const NAME: &str = "serviceaccount-token-controller";
/// Workers (upstream: `ConcurrentSATokenSyncs`).
const WORKERS: usize = 5;
/// Attempts to take a reference from an account that others write, too.
const ATTEMPTS: usize = 10;
const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const CA: &str = "ca.crt";

struct TokenSecrets {
    client: Client,
    accounts: CacheLister,
    secrets: CacheLister,
    sign: TokenSigner,
    /// CA bundle that tokens come with (base64).
    root_ca: Option<Value>,
}

/// Identity of a Secret or an account, and of the account that a Secret is for.
#[derive(Debug)]
struct AccountKey<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    account: &'a str,
    account_uid: &'a str,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let root_ca = context.root_ca().ok();
    let this = Arc::new(TokenSecrets {
        client: context.root_client("tokens-controller"),
        accounts: CacheLister::new(context.storage("", "serviceaccounts")?),
        secrets: CacheLister::new(context.storage("", "secrets")?),
        sign: context.token_signer()?,
        root_ca: root_ca.map(|ca| Value::String(base64::encode(ca.as_bytes()))),
    });
    let queue = context.queue("serviceaccount_tokens_service", Backoff::default());
    let (accounts, secrets) = (this.accounts.informer(), this.secrets.informer());
    let synced = [accounts.has_synced(), secrets.has_synced()];
    let (heard, lister) = (queue.clone(), this.accounts.clone());
    let accounts = accounts.run(move |event| {
        // Deletions that were missed show when the Secrets are looked at.
        if let InformerEvent::Delete(account) = event
            && let Some(key) = account_key(&lister, account)
        {
            heard.add(&key);
        }
    });
    let (heard, lister) = (queue.clone(), this.secrets.clone());
    let secrets = secrets.for_each(move |secret| {
        if let Some(key) = secret_key(&lister, secret) {
            heard.add(&key);
        }
    });
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        let work = async {
            for synced in synced {
                synced.wait().await;
            }
            run(queue, NAME, WORKERS, reconcile).await;
        };
        tokio::join!(accounts, secrets, work);
    }))
}

fn account_key(accounts: &CacheLister, account: &Object) -> Option<String> {
    let tree = accounts.tree(account).ok()?;
    let uid = tree.str_at(&["metadata", "uid"]);
    Some(format!("{}///{}/{uid}", account.namespace(), account.name()))
}

fn secret_key(secrets: &CacheLister, secret: &Object) -> Option<String> {
    let tree = secrets.tree(secret).ok()?;
    let annotation = |name| tree.str_at(&["metadata", "annotations", name]);
    let (account, uid) = (annotation(ACCOUNT_NAME), tree.str_at(&["metadata", "uid"]));
    if tree.str_at(&["type"]) != TYPE || account.is_empty() {
        return None;
    }
    let (namespace, name) = (secret.namespace(), secret.name());
    Some(format!("{namespace}/{name}/{uid}/{account}/{}", annotation(ACCOUNT_UID)))
}

fn parse(key: &str) -> Option<AccountKey<'_>> {
    let mut parts = key.split('/');
    Some(AccountKey {
        namespace: parts.next()?,
        name: parts.next()?,
        uid: parts.next()?,
        account: parts.next()?,
        account_uid: parts.next()?,
    })
}

impl TokenSecrets {
    async fn reconcile(&self, key: &str) -> Result<(), StatusError> {
        let Some(key) = parse(key) else { return Ok(()) };
        if key.name.is_empty() {
            return self.delete_tokens(&key).await;
        }
        let secret = self.secrets.get(key.namespace, key.name)?;
        let secret = secret.filter(|secret| secret.str_at(&["metadata", "uid"]) == key.uid);
        let Some(secret) = secret else { return self.remove_reference(&key).await };
        match self.account(&key).await? {
            Some(account) => self.fill(&account, &secret).await,
            None => self.delete(key.namespace, key.name, key.uid).await,
        }
    }

    /// Account that a Secret is for, if it exists.
    async fn account(&self, key: &AccountKey<'_>) -> Result<Option<Value>, StatusError> {
        let fits = |account: &Value| {
            key.account_uid.is_empty() || account.str_at(&["metadata", "uid"]) == key.account_uid
        };
        let cached = self.accounts.get(key.namespace, key.account)?;
        if let Some(account) = cached.filter(fits) {
            return Ok(Some(account));
        }
        let path = account_path(key);
        match self.client.get(&path).await {
            Err(error) if error.reason() == reason::NOT_FOUND => Ok(None),
            found => found.map(|account| Some(account).filter(fits)),
        }
    }

    /// Deletes the tokens of a deleted account.
    async fn delete_tokens(&self, key: &AccountKey<'_>) -> Result<(), StatusError> {
        let current = self.accounts.get(key.namespace, key.account)?;
        if current.is_some_and(|account| account.str_at(&["metadata", "uid"]) == key.account_uid) {
            return Ok(());
        }
        let snapshot = self.secrets.snapshot();
        for secret in snapshot.range(&format!("{}/", key.namespace), None) {
            kevel_compute::charge(1);
            let tree = self.secrets.tree(secret)?;
            let annotation = |name| tree.str_at(&["metadata", "annotations", name]);
            let of_account = tree.str_at(&["type"]) == TYPE
                && annotation(ACCOUNT_NAME) == key.account
                && annotation(ACCOUNT_UID) == key.account_uid;
            if of_account {
                let uid = tree.str_at(&["metadata", "uid"]);
                self.delete(key.namespace, secret.name(), uid).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, namespace: &str, name: &str, uid: &str) -> Result<(), StatusError> {
        let preconditions = Map::from_iter([("uid", Value::from(uid))]);
        let options = Map::from_iter([("preconditions", Value::Map(preconditions))]);
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let gone = [reason::NOT_FOUND, reason::CONFLICT];
        match self.client.delete_with(&path, &options.into()).await {
            Err(error) if gone.contains(&error.reason()) => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// Fields of a Secret's data that are missing: CA bundle, namespace, token.
    fn missing(&self, secret: &Value) -> [bool; 3] {
        let ca = self.root_ca.as_ref().is_some_and(|ca| secret.at(&["data", CA]) != Some(ca));
        let empty = |field| secret.str_at(&["data", field]).is_empty();
        [ca, empty("namespace"), empty("token")]
    }

    async fn fill(&self, account: &Value, cached: &Value) -> Result<(), StatusError> {
        if self.missing(cached) == [false; 3] {
            return Ok(());
        }
        let of = |field| cached.str_at(&["metadata", field]);
        let path = format!("/api/v1/namespaces/{}/secrets/{}", of("namespace"), of("name"));
        let gone = [reason::NOT_FOUND, reason::CONFLICT];
        let mut secret = match self.client.get(&path).await {
            Err(error) if error.reason() == reason::NOT_FOUND => return Ok(()),
            found => found?,
        };
        let version = ["metadata", "resourceVersion"];
        if secret.str_at(&version) != cached.str_at(&version) {
            // It comes again with the change.
            return Ok(());
        }
        let [needs_ca, needs_namespace, needs_token] = self.missing(&secret);
        let token = if needs_token { Some(self.token(account, &secret)?) } else { None };
        let data = secret.make_map(&["data"]);
        if let Some(ca) = self.root_ca.as_ref().filter(|_| needs_ca) {
            data.insert(CA, ca.clone());
        }
        if needs_namespace {
            data.insert("namespace", Value::String(base64::encode(of("namespace").as_bytes())));
        }
        if let Some(token) = token {
            data.insert("token", Value::String(base64::encode(token.as_bytes())));
        }
        let annotations = secret.make_map(&["metadata", "annotations"]);
        annotations.insert(ACCOUNT_NAME, account.str_at(&["metadata", "name"]).into());
        annotations.insert(ACCOUNT_UID, account.str_at(&["metadata", "uid"]).into());
        match self.client.update(&path, &secret).await {
            Err(error) if gone.contains(&error.reason()) => Ok(()),
            updated => updated.map(drop),
        }
    }

    /// Token of an account that is valid while its Secret exists.
    fn token(&self, account: &Value, secret: &Value) -> Result<String, StatusError> {
        let of = |object: &Value, field| Value::from(object.str_at(&["metadata", field]));
        let (namespace, name) = (of(account, "namespace"), of(account, "name"));
        let subject = format!(
            "system:serviceaccount:{}:{}",
            namespace.as_str().unwrap_or_default(),
            name.as_str().unwrap_or_default()
        );
        let claims = Map::from_iter([
            ("iss", Value::from("kubernetes/serviceaccount")),
            ("sub", subject.as_str().into()),
            ("kubernetes.io/serviceaccount/namespace", namespace),
            ("kubernetes.io/serviceaccount/service-account.name", name),
            ("kubernetes.io/serviceaccount/service-account.uid", of(account, "uid")),
            ("kubernetes.io/serviceaccount/secret.name", of(secret, "name")),
        ]);
        (self.sign)(&claims.into()).map_err(StatusError::internal)
    }

    /// Takes the reference to a deleted Secret from its account.
    async fn remove_reference(&self, key: &AccountKey<'_>) -> Result<(), StatusError> {
        let path = account_path(key);
        for _ in 0..ATTEMPTS {
            let mut account = match self.client.get(&path).await {
                Err(error) if error.reason() == reason::NOT_FOUND => return Ok(()),
                found => found?,
            };
            let uid = account.str_at(&["metadata", "uid"]);
            let other = !key.account_uid.is_empty() && uid != key.account_uid;
            let refers = |secret: &Value| secret.str_at(&["name"]) == key.name;
            if other || !account.list_at(&["secrets"]).iter().any(refers) {
                return Ok(());
            }
            account.make_list(&[], "secrets").retain(|secret| !refers(secret));
            match self.client.update(&path, &account).await {
                Err(error) if error.reason() == reason::CONFLICT => {}
                Err(error) if error.reason() == reason::NOT_FOUND => return Ok(()),
                updated => return updated.map(drop),
            }
        }
        Ok(())
    }
}

fn account_path(key: &AccountKey<'_>) -> String {
    format!("/api/v1/namespaces/{}/serviceaccounts/{}", key.namespace, key.account)
}
