//! `serviceaccounts/token`: the TokenRequest API.

use std::sync::Arc;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::{GroupKind, GroupResource};
use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::resource::{CreateRequest, Created, Creater};

use super::claims::{KubernetesClaims, Reference};
use super::keys::Signer;
use super::objects::{Kind, Lifetime, Objects};
use super::{credential_id, username};

/// Audit annotation with the ID of the issued token.
const ISSUED_CREDENTIAL_ID: &str = "authentication.kubernetes.io/issued-credential-id";

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

/// Limits of `expirationSeconds`.
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;

/// `expirationSeconds` of tokens that admission mounts into pods. The odd number identifies tokens whose validity is
/// extended.
const MOUNTED: i64 = 60 * 60 + 7;
/// Extended validity in seconds.
pub const EXTENDED: i64 = 365 * 24 * 60 * 60;

/// Issuer of tokens.
#[derive(Debug)]
pub struct Issuer {
    /// URL of the issuer.
    pub url: String,
    /// Signer of the tokens.
    pub signer: Signer,
    /// Default audiences: those of this server.
    pub audiences: Vec<String>,
    /// Maximum validity in seconds; 0 for none.
    pub max_expiration: i64,
    /// True if tokens mounted into pods are valid longer than requested.
    pub extend_expiration: bool,
    /// Maximum extended validity in seconds: [`EXTENDED`], or less if the signer's limit is lower.
    pub extended_expiration: i64,
    /// True if a request may name the service account's UID, which is then checked.
    pub check_uid: bool,
}

/// Creater of `serviceaccounts/token`.
#[derive(Debug)]
pub struct TokenRequest {
    issuer: Arc<Issuer>,
    objects: Arc<Objects>,
}

impl TokenRequest {
    /// Makes a creater that looks up service accounts and bound objects among `objects`.
    pub fn new(issuer: Arc<Issuer>, objects: Arc<Objects>) -> Self {
        TokenRequest { issuer, objects }
    }

    async fn issue(
        &self,
        request: &CreateRequest<'_>,
        mut token_request: Value,
    ) -> Result<Value, StatusError> {
        let account = self.account(request).await?;
        let now = Time::now(request.clock);
        let mut validity = validate(&token_request)?;
        let bound = self.bound(request, token_request.at(&["spec", "boundObjectRef"])).await?;
        let max = self.issuer.max_expiration;
        if max > 0 && validity > max {
            request.warnings.add(format!(
                "requested expiration of {validity} seconds shortened to {max} seconds"
            ));
            validity = max;
            set(&mut token_request, "spec", [("expirationSeconds", max.into())]);
        }
        let audiences: Vec<&str> = strings(&token_request, &["spec", "audiences"]);
        let extended = self.issuer.extend_expiration
            && bound.pod.is_some()
            && validity == MOUNTED
            && audiences.iter().all(|one| self.issuer.audiences.iter().any(|own| own == one));
        let claims = KubernetesClaims {
            namespace: request.namespace.to_owned(),
            account,
            warn_after: extended.then_some(now.seconds + validity),
            ..bound
        };
        let validity_inside = if extended { self.issuer.extended_expiration } else { validity };
        let id = uuid::Uuid::new_v4().to_string();
        let token = self.sign(&claims, &id, &audiences, now, validity_inside).await?;
        request.audit.annotate(ISSUED_CREDENTIAL_ID, &credential_id(&id));
        let expires = Time { seconds: now.seconds + validity }.to_string();
        let status = [
            ("token", Value::from(token.as_str())),
            ("expirationTimestamp", Value::from(expires.as_str())),
        ];
        set(&mut token_request, "status", status);
        Ok(token_request)
    }

    async fn account(&self, request: &CreateRequest<'_>) -> Result<Reference, StatusError> {
        self.objects.reference(Kind::ServiceAccount, request.namespace, request.name).await
    }

    /// Sets the fields that the request omits.
    fn complete(
        &self,
        request: &CreateRequest<'_>,
        token_request: &mut Value,
        account: &Reference,
    ) -> Result<(), StatusError> {
        let uid = token_request.str_at(&["metadata", "uid"]).to_owned();
        if !uid.is_empty() && uid != account.uid {
            let problem = format!(
                "the UID in the token request ({uid}) does not match the UID of the service \
                 account ({})",
                account.uid
            );
            if self.issuer.check_uid {
                let resource = GroupResource::new(GROUP, KIND);
                return Err(StatusError::conflict(&resource, request.name, problem));
            }
            request.warnings.add(format!(
                "{problem} but TokenRequestServiceAccountUIDValidation is not enabled. In the \
                 future, this will return a conflict error"
            ));
        }
        let now = Time::now(request.clock).to_string();
        let mut metadata = vec![
            ("name", Value::from(request.name)),
            ("namespace", Value::from(request.namespace)),
            ("creationTimestamp", Value::from(now.as_str())),
        ];
        if uid.is_empty() {
            metadata.push(("uid", account.uid.as_str().into()));
        }
        set(token_request, "metadata", metadata);
        if strings(token_request, &["spec", "audiences"]).is_empty() {
            let audiences = self.issuer.audiences.iter().map(|one| Value::from(one.as_str()));
            set(token_request, "spec", [("audiences", Value::List(audiences.collect()))]);
        }
        if let Some(fields) = token_request.as_map_mut() {
            fields.remove("status");
        }
        Ok(())
    }

    /// Claims with the object that the token is bound to.
    async fn bound(
        &self,
        request: &CreateRequest<'_>,
        wanted: Option<&Value>,
    ) -> Result<KubernetesClaims, StatusError> {
        let mut claims = KubernetesClaims::default();
        let Some(wanted) = wanted else { return Ok(claims) };
        let text = |field| wanted.str_at(&[field]);
        let (name, kind, api_version) = (text("name"), text("kind"), text("apiVersion"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if name.is_empty() && group.is_empty() && matches!(kind, "Pod" | "Node" | "Secret") {
            return Err(StatusError::bad_request("Name parameter required."));
        }
        let found = match (group, kind) {
            ("", "Pod") => {
                let namespace = request.namespace;
                let pod = self.objects.current(Kind::Pod, namespace, name, BoundPod::read).await?;
                if pod.account != request.name {
                    return Err(StatusError::bad_request(format!(
                        "cannot bind token for serviceaccount {:?} to pod running with different \
                         serviceaccount name.",
                        request.name
                    )));
                }
                claims.node = self.node_of(&pod).await?;
                claims.pod.insert(pod.reference.clone())
            }
            ("", "Node") => claims.node.insert(self.objects.reference(Kind::Node, "", name).await?),
            ("", "Secret") => {
                let namespace = request.namespace;
                claims.secret.insert(self.objects.reference(Kind::Secret, namespace, name).await?)
            }
            _ => {
                let kind = format!("{group}/{version}, Kind={kind}");
                let problem = format!("cannot bind token to object of type {kind}");
                return Err(StatusError::bad_request(problem));
            }
        };
        let uid = text("uid");
        if !uid.is_empty() && uid != found.uid {
            return Err(StatusError::conflict(
                &GroupResource::new(group, kind),
                name,
                format!(
                    "the UID in the bound object reference ({uid}) does not match the UID in \
                     record. The object might have been deleted and then recreated"
                ),
            ));
        }
        Ok(claims)
    }

    /// Node of a pod, as information in the token. A deleted node is still named.
    async fn node_of(&self, pod: &BoundPod) -> Result<Option<Reference>, StatusError> {
        let name = pod.node.as_str();
        if name.is_empty() {
            return Ok(None);
        }
        match self.objects.known(Kind::Node, "", name, Lifetime::read).await {
            Ok(node) => Ok(Some(node.reference.clone())),
            Err(error) if error.reason() == reason::NOT_FOUND => {
                Ok(Some(Reference { name: name.to_owned(), uid: String::new() }))
            }
            Err(error) => Err(StatusError::internal(error)),
        }
    }

    async fn sign(
        &self,
        claims: &KubernetesClaims,
        id: &str,
        audiences: &[&str],
        now: Time,
        validity: i64,
    ) -> Result<String, StatusError> {
        let text = |text: &str| Value::from(text);
        let mut all = Map::from_iter([
            ("iss", text(&self.issuer.url)),
            ("sub", text(&username(&claims.namespace, &claims.account.name))),
            ("aud", Value::List(audiences.iter().map(|one| text(one)).collect())),
            ("iat", now.seconds.into()),
            ("nbf", now.seconds.into()),
            ("exp", (now.seconds + validity).into()),
            ("jti", text(id)),
        ]);
        claims.write(&mut all);
        let token = self.issuer.signer.sign(&all.into()).await;
        token.map_err(|error| StatusError::internal(format!("failed to generate token: {error}")))
    }
}

/// Facts about a pod that a token is bound to.
#[derive(Debug)]
struct BoundPod {
    reference: Reference,
    account: String,
    node: String,
}

impl BoundPod {
    fn read(pod: &Value) -> Self {
        let spec = |field| pod.str_at(&["spec", field]).to_owned();
        BoundPod {
            reference: Reference::of(pod),
            account: spec("serviceAccountName"),
            node: spec("nodeName"),
        }
    }
}

impl Creater for TokenRequest {
    fn prepare<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        mut object: Value,
    ) -> Pending<'a, Result<Value, StatusError>> {
        Box::pin(async move {
            check_name(request, &object)?;
            let account = self.account(request).await?;
            self.complete(request, &mut object, &account)?;
            validate(&object)?;
            Ok(object)
        })
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Created, StatusError>> {
        Box::pin(async move { self.issue(request, object).await.map(Created::Object) })
    }
}

/// Checks that the name in a request is that of the service account in its path.
fn check_name(request: &CreateRequest<'_>, token_request: &Value) -> Result<(), StatusError> {
    let said = token_request.str_at(&["metadata", "name"]);
    if said.is_empty() || said == request.name {
        return Ok(());
    }
    let metadata = Path::new("metadata");
    let problem = "must match the service account name if specified";
    let error = FieldError::invalid(&metadata.child("name"), said, problem);
    Err(StatusError::invalid(&GroupKind::new(GROUP, KIND), request.name, error))
}

/// Requested validity; an error if it is out of range.
fn validate(token_request: &Value) -> Result<i64, StatusError> {
    let validity =
        token_request.at(&["spec", "expirationSeconds"]).and_then(Value::as_int).unwrap_or(0);
    let problem = match validity {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        SHORTEST..=LONGEST => return Ok(validity),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let spec = Path::new("spec");
    let error = FieldError::invalid(&spec.child("expirationSeconds"), validity, problem);
    Err(StatusError::invalid(&GroupKind::new(GROUP, KIND), "", error))
}

fn strings<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    let list = object.at(path).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

/// Sets fields of a part of an object.
fn set<'a>(object: &mut Value, part: &str, fields: impl IntoIterator<Item = (&'a str, Value)>) {
    let Some(object) = object.as_map_mut() else { return };
    let part = object.entry_or_insert_with(part, || Map::new().into());
    if let Some(part) = part.as_map_mut() {
        for (name, value) in fields {
            part.insert(name, value);
        }
    }
}
