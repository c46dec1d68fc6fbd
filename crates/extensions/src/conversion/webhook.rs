//! Conversion by webhook: `ConversionReview` requests and responses.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::value::{Map, Value};
use kevel_codec::{base64, json};
use kevel_server::egress::{Dialer, EgressSelector, EgressType};
use kevel_server::webhook::{Client, Endpoint, MAX_ANSWER, REQUEST_TIMEOUT, succeeded};
use kevel_trace::{number, text};

use super::accept::accept;
use crate::definition::Definition;

/// Resolves a service to host and port (`10.0.0.7:443`), by namespace, name and port (upstream: ServiceResolver).
pub type Resolve = Arc<dyn Fn(&str, &str, i64) -> Result<String, String> + Send + Sync>;

/// Supported versions of ConversionReview.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Field of `clientConfig`.
const CA_BUNDLE: &[&str] = &["caBundle"];

/// Limit on the length of a webhook's answer, in multiples of the request, if that is more than `MAX_ANSWER`: the
/// largest object is sent alone, and may be longer in other versions.
const MAX_GROWTH: usize = 8;

/// Conversion webhook of a definition.
pub struct Webhook {
    reviews: Option<&'static str>,
    config: Config,
    resolve: Resolve,
    /// Name of the definition.
    definition: String,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("config", &self.config).finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Config {
    Url(Arc<Client>),
    Service(Box<Service>),
}

/// Webhook behind a service, whose address may change.
#[derive(Debug)]
struct Service {
    ca: Option<Vec<u8>>,
    namespace: String,
    name: String,
    path: String,
    port: i64,
    dialer: Dialer,
    /// Last resolved address, and the client for it.
    last: Mutex<Option<(String, Arc<Client>)>>,
}

impl Service {
    /// Client for the service at this address.
    fn client(&self, authority: String) -> Result<Arc<Client>, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, client)) = &*last
            && *known == authority
        {
            return Ok(client.clone());
        }
        let client = Arc::new(Client::new(Endpoint {
            url: format!("https://{authority}/{}", self.path.trim_start_matches('/')),
            ca: self.ca.clone(),
            server_name: Some(format!("{}.{}.svc", self.name, self.namespace)),
            dialer: self.dialer.clone(),
            traced: true,
            ..Endpoint::default()
        })?);
        *last = Some((authority, client.clone()));
        Ok(client)
    }
}

impl Webhook {
    /// Webhook of a definition, if it has one.
    pub fn of(
        definition: Definition<'_>,
        resolve: &Resolve,
        egress: &EgressSelector,
    ) -> Result<Option<Self>, String> {
        let conversion = definition.0.at(&["spec", "conversion"]);
        let Some(conversion) = conversion.filter(|c| c.str_at(&["strategy"]) == "Webhook") else {
            return Ok(None);
        };
        let versions = conversion.list_at(&["webhook", "conversionReviewVersions"]).iter();
        let known = |said: &str| REVIEW_VERSIONS.into_iter().find(|version| *version == said);
        let reviews = versions.filter_map(Value::as_str).find_map(known);
        let empty = Value::Null;
        let client = conversion.at(&["webhook", "clientConfig"]).unwrap_or(&empty);
        let ca = certificates(client.str_at(CA_BUNDLE))?;
        let url = client.str_at(&["url"]);
        let service = client.at(&["service"]);
        let config = match service {
            Some(service) => {
                let port = service.at(&["port"]).and_then(Value::as_int).unwrap_or(443);
                let (namespace, name) = (service.str_at(&["namespace"]), service.str_at(&["name"]));
                Config::Service(Box::new(Service {
                    ca,
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    path: service.str_at(&["path"]).to_owned(),
                    port,
                    dialer: egress.service_dialer(namespace, name, port),
                    last: Mutex::default(),
                }))
            }
            None => {
                let dialer = egress.dialer(EgressType::ControlPlane);
                let url = url.to_owned();
                let endpoint = Endpoint { url, ca, dialer, traced: true, ..Endpoint::default() };
                Config::Url(Arc::new(Client::new(endpoint)?))
            }
        };
        let name = definition.0.str_at(&["metadata", "name"]).to_owned();
        Ok(Some(Webhook { reviews, config, resolve: resolve.clone(), definition: name }))
    }

    /// Converts objects to a version. Objects that are in it already are not sent.
    pub async fn convert(
        &self,
        mut objects: Vec<Value>,
        to: &GroupVersion,
    ) -> Result<Vec<Value>, String> {
        let wanted = to.to_string();
        let others: Vec<usize> = (0..objects.len())
            .filter(|index| objects[*index].str_at(&["apiVersion"]) != wanted)
            .collect();
        let Some(first) = others.first().and_then(|index| objects.get(*index)) else {
            return Ok(objects);
        };
        let kind = GroupVersionKind::from_api_version_and_kind(
            first.str_at(&["apiVersion"]),
            first.str_at(&["kind"]),
        );
        let sent: Vec<&Value> = others.iter().filter_map(|index| objects.get(*index)).collect();
        let failed = |why: String| format!("conversion webhook for {kind} failed: {why}");
        let converted = self.review(&sent, &wanted).await.map_err(failed)?;
        replace(&mut objects, &others, converted, to)
            .map_err(|why| format!("conversion webhook for {kind} returned {why}"))?;
        Ok(objects)
    }

    async fn review(&self, objects: &[&Value], to: &str) -> Result<Vec<Value>, String> {
        let version = self.reviews.ok_or("no supported conversion review versions")?;
        let uid = uuid::Uuid::new_v4().to_string();
        let request = Map::from_iter([
            ("uid", Value::from(uid.as_str())),
            ("desiredAPIVersion", to.into()),
            ("objects", Value::List(objects.iter().map(|object| (*object).clone()).collect())),
        ]);
        let api_version = format!("apiextensions.k8s.io/{version}");
        let review = Value::Map(Map::from_iter([
            ("kind", Value::from("ConversionReview")),
            ("apiVersion", api_version.as_str().into()),
            ("request", request.into()),
        ]));
        let mut body = Vec::new();
        json::encode_any(&review, &mut body);
        let span = kevel_trace::start("Call conversion webhook", || {
            vec![
                text("custom-resource-definition", self.definition.as_str()),
                text("desired-api-version", to),
                number("object-count", objects.len()),
                text("UID", uid.as_str()),
            ]
        });
        let answer = span.scope(self.post(body)).await?;
        span.event("Request completed");
        let answer = json::decode_any(&answer, json::Unknown::Ignore);
        let answer = answer.map_err(|error| error.to_string())?.value;
        read_answer(answer, version, &uid)
    }

    async fn post(&self, body: Vec<u8>) -> Result<bytes::Bytes, String> {
        let client = match &self.config {
            Config::Url(client) => client.clone(),
            Config::Service(service) => {
                let Service { namespace, name, port, .. } = &**service;
                service.client((self.resolve)(namespace, name, *port)?)?
            }
        };
        let limit = MAX_ANSWER.max(body.len() * MAX_GROWTH);
        let answer = client.post_json_limited("", body.into(), REQUEST_TIMEOUT, limit).await;
        answer.and_then(succeeded).map_err(|error| error.to_string())
    }
}

/// Reason to refuse the objects of an answer.
#[derive(Debug, PartialEq, thiserror::Error)]
enum UnfitObjects {
    #[error("{found} objects, expected {sent}")]
    Count { found: usize, sent: usize },
    #[error("invalid {0}")]
    Refused(String),
}

/// Puts converted objects in the place of those that were sent, in the same order.
fn replace(
    objects: &mut [Value],
    sent: &[usize],
    converted: Vec<Value>,
    to: &GroupVersion,
) -> Result<(), UnfitObjects> {
    if converted.len() != sent.len() {
        return Err(UnfitObjects::Count { found: converted.len(), sent: sent.len() });
    }
    let alone = sent.len() == 1;
    for (position, (index, mut converted)) in sent.iter().zip(converted).enumerate() {
        let Some(original) = objects.get_mut(*index) else { continue };
        accept(original, &mut converted, to).map_err(|refusal| {
            UnfitObjects::Refused(refusal.at(Some(position).filter(|_| !alone)))
        })?;
        *original = converted;
    }
    Ok(())
}

/// CA bundle of a definition's webhook (PEM).
pub fn ca_bundle(definition: Definition<'_>) -> Option<Vec<u8>> {
    let conversion = definition.0.at(&["spec", "conversion"]);
    let conversion = conversion.filter(|c| c.str_at(&["strategy"]) == "Webhook")?;
    certificates(conversion.at(&["webhook", "clientConfig"])?.str_at(CA_BUNDLE)).ok()?
}

/// CA bundle (PEM) decoded from base64; `None` if it is blank.
fn certificates(bundle: &str) -> Result<Option<Vec<u8>>, String> {
    let mut pem = Vec::new();
    let decoded = base64::decode_into(bundle, &mut pem);
    decoded.map_err(|at| format!("caBundle: illegal base64 data at input byte {at}"))?;
    Ok(Some(pem).filter(|pem| !pem.trim_ascii().is_empty()))
}

fn read_answer(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    // v1beta1 responses are not checked as strictly.
    let strict = version == "v1";
    let expected = GroupVersionKind::new("apiextensions.k8s.io", version, "ConversionReview");
    let (said, kind) = (answer.str_at(&["apiVersion"]), answer.str_at(&["kind"]));
    let found = GroupVersionKind::from_api_version_and_kind(said, kind);
    if strict && found != expected {
        return Err(format!("expected webhook response of {expected}, got {found}"));
    }
    let response = answer.at_mut(&["response"]).filter(|response| !response.is_null());
    let response = response.ok_or("no response provided")?;
    let said = response.str_at(&["uid"]);
    if strict && said != uid {
        return Err(format!("expected response.uid={uid:?}, got {said:?}"));
    }
    match (response.str_at(&["result", "status"]), response.str_at(&["result", "message"])) {
        ("Success", _) => {}
        (status, "") => {
            return Err(format!("response.result.status was '{status}', not 'Success'"));
        }
        (_, message) => return Err(message.to_owned()),
    }
    let converted = response.at_mut(&["convertedObjects"]).and_then(Value::as_list_mut);
    Ok(converted.map(std::mem::take).into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        json::decode_any(text.as_bytes(), json::Unknown::Ignore).expect(text).value
    }

    /// An answer is that of this review, says that it succeeded, and has the objects; v1beta1 is not checked as
    /// strictly.
    #[test]
    fn answers_are_those_of_the_review() {
        let answer = |api_version: &str, kind: &str, response: &str| {
            let api_version = format!("apiextensions.k8s.io/{api_version}");
            format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}","response":{response}}}"#)
        };
        let review = |response: &str| answer("v1", "ConversionReview", response);
        let success = r#"{"uid":"u","result":{"status":"Success"},"convertedObjects":[{"a":1}]}"#;
        let told = r#"{"uid":"u","result":{"status":"Failure","message":"not this one"}}"#;
        let untold = r#"{"uid":"u","result":{"status":"Failure"},"convertedObjects":[{"a":1}]}"#;
        let nothing = r#"{"uid":"u","convertedObjects":[{"a":1}]}"#;
        let other = r#"{"uid":"v","result":{"status":"Success"},"convertedObjects":[{"a":1}]}"#;
        let kind = "apiextensions.k8s.io/v1, Kind=ConversionReview";
        let expected = |found: &str| format!("expected webhook response of {kind}, got {found}");
        let cases = [
            (review(success), Ok(1), Ok(1)),
            (review(r#"{"uid":"u","result":{"status":"Success"}}"#), Ok(0), Ok(0)),
            (review(other), Err(r#"expected response.uid="u", got "v""#.to_owned()), Ok(1)),
            (review(told), Err("not this one".to_owned()), Err("not this one")),
            (
                review(untold),
                Err("response.result.status was 'Failure', not 'Success'".to_owned()),
                Err("response.result.status was 'Failure', not 'Success'"),
            ),
            (
                review(nothing),
                Err("response.result.status was '', not 'Success'".to_owned()),
                Err("response.result.status was '', not 'Success'"),
            ),
            (review("null"), Err("no response provided".to_owned()), Err("no response provided")),
            (
                answer("v1beta1", "ConversionReview", success),
                Err(expected("apiextensions.k8s.io/v1beta1, Kind=ConversionReview")),
                Ok(1),
            ),
            (
                answer("v1", "AdmissionReview", success),
                Err(expected("apiextensions.k8s.io/v1, Kind=AdmissionReview")),
                Ok(1),
            ),
        ];
        for (answer, strict, lenient) in cases {
            let objects = |version: &str| {
                read_answer(read(&answer), version, "u").map(|converted| converted.len())
            };
            assert_eq!(objects("v1"), strict, "{answer}");
            assert_eq!(objects("v1beta1"), lenient.map_err(str::to_owned), "{answer}");
        }
    }

    #[test]
    fn every_object_that_was_sent_comes_back_in_its_place() {
        let object = |version: &str, name: &str| {
            format!(
                r#"{{"apiVersion":"e.com/{version}","kind":"Widget","metadata":{{"name":"{name}"}}}}"#
            )
        };
        // The second object is in the wanted version already.
        let objects = [object("v1", "a"), object("v2", "b"), object("v1", "c")];
        let (a, b, c) = (object("v2", "a"), object("v2", "b"), object("v2", "c"));
        for (converted, expected) in [
            (vec![&a, &c], Ok(())),
            (vec![], Err("0 objects, expected 2")),
            (vec![&a], Err("1 objects, expected 2")),
            (vec![&a, &b, &c], Err("3 objects, expected 2")),
            (
                vec![&c, &a],
                Err("invalid converted object at index 0: must have the same name: a != c"),
            ),
            (
                vec![&a, &b],
                Err("invalid converted object at index 1: must have the same name: c != b"),
            ),
        ] {
            let mut found: Vec<Value> = objects.iter().map(|object| read(object)).collect();
            let converted = converted.into_iter().map(|object| read(object)).collect();
            let replaced = replace(&mut found, &[0, 2], converted, &"e.com/v2".parse().unwrap());
            let told = replaced.as_ref().map(drop).map_err(UnfitObjects::to_string);
            assert_eq!(told, expected.map_err(str::to_owned));
            if replaced.is_ok() {
                assert_eq!(found, [&a, &b, &c].map(|object| read(object)));
            }
        }
    }
}
