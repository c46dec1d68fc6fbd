//! Connect subresources (exec, attach, portforward, proxy), and GETs that read from elsewhere (pod logs).

use http::StatusCode;
use kevel_api::schema::Schema;
use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::parameters::decode_parameters;
use super::{ResourceRequest, websocket};
use crate::authorization::{Attributes, Decision};
use crate::connecter::{ConnectRequest, Connecter, GetterWithOptions};
use crate::handler::Response;
use kevel_registry::admission::Operation;
use kevel_registry::verb::Verb;

impl<'a> ResourceRequest<'a> {
    /// Connects, after admission has seen the options (upstream: `ConnectResource`).
    pub(super) async fn connect(self, connecter: &dyn Connecter) -> Result<Response, StatusError> {
        if self.parameter("dryRun").is_some() {
            return Err(StatusError::bad_request("dryRun is not supported"));
        }
        let mut options = self.options(self.ty().schema(), connecter.subpath())?;
        if let Some(map) = options.as_map_mut() {
            let kind = self.kind();
            map.insert("kind", kind.kind.as_str().into());
            map.insert("apiVersion", kind.group_version().to_string().as_str().into());
        }
        let scope = self.scope();
        let attributes = scope.attributes(Operation::Connect, false);
        let admission = &self.endpoints.admission;
        admission.admit(&attributes, Some(&mut options)).await?;
        admission.validate(&attributes, Some(&options)).await?;
        if let Some(verb) = connecter.required_verb() {
            self.ensure_authorized_for(verb).await?;
        }
        connecter.connect(self.connect_request(options)).await
    }

    /// Answers a GET by a `GetterWithOptions` subresource, such as pod logs.
    pub(super) async fn get_with_options(
        self,
        getter: &dyn GetterWithOptions,
    ) -> Result<Response, StatusError> {
        let options = self.options(getter.options_type().schema(), None)?;
        let websocket = self.request.is_websocket();
        let asked = (self.request.parts.method.clone(), self.request.parts.headers.clone());
        let answer = getter.get(self.connect_request(options)).await?;
        Ok(match websocket && answer.status() == StatusCode::OK {
            true => websocket::bytes(&asked.0, &asked.1, answer),
            false => answer,
        })
    }

    /// Decodes the options from the query, and the path below the subresource into the option `subpath`.
    fn options(&self, ty: Schema<'_>, subpath: Option<&str>) -> Result<Value, StatusError> {
        let info = &self.request.info;
        let decoded = match subpath {
            None => decode_parameters(&info.query, ty),
            Some(option) => {
                let others = info.query.iter().filter(|(key, _)| key != option).cloned();
                let path = (option.to_owned(), info.path_below());
                decode_parameters(&others.chain([path]).collect::<Vec<_>>(), ty)
            }
        };
        decoded.map(Value::from).map_err(StatusError::bad_request)
    }

    /// Authorizes the request again for `verb`, if the request's own verb is another one.
    async fn ensure_authorized_for(&self, verb: Verb) -> Result<(), StatusError> {
        let info = &self.request.info;
        if info.verb == verb {
            return Ok(());
        }
        let Some(authorizer) = &self.endpoints.authorizer else {
            return Err(StatusError::internal("no authorizer available"));
        };
        let mut attributes = Attributes::of(info, &self.user);
        attributes.verb = verb.as_str();
        let opinion = authorizer.authorize(&attributes).await;
        match (opinion.decision, opinion.error) {
            (_, Some(error)) => Err(StatusError::unknown(500, error)),
            (Decision::Allow, None) => Ok(()),
            (_, None) => Err(StatusError::forbidden(
                &self.resource.group_resource(),
                &info.name,
                opinion.reason,
            )),
        }
    }

    fn connect_request(self, options: Value) -> ConnectRequest<'a> {
        ConnectRequest {
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
            resource: self.resource,
            resources: self.resources,
            options,
            request: self.request,
        }
    }
}
