//! `pods/exec`, `pods/attach` and `pods/portforward`: streams between a client and a container or a port, through
//! the kubelet.

use std::sync::Arc;

use http::Method;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::query::encode;
use kevel_registry::verb::Verb;
use kevel_server::connecter::{ConnectRequest, Connecter};
use kevel_server::handler::Response;
use kevel_server::proxy::{Location, UpgradeAwareProxy, stream_translator, stream_tunnel};
use kevel_streaming::rate::Rate;
use kevel_streaming::translator::Options;

use super::ConnectFeatures;
use super::container::{container, kubelet_of};
use super::metrics::ConnectMetrics;
use crate::kubelet::{ConnectionInfo, NodeConnectionInfoGetter};
use kevel_features::Feature;

/// Streams of one kind.
#[derive(Debug)]
pub(super) struct PodStream {
    pub kind: StreamKind,
    pub kubelets: Arc<NodeConnectionInfoGetter>,
    pub rate: Option<Rate>,
    pub features: ConnectFeatures,
    pub metrics: ConnectMetrics,
}

/// The kinds of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    Attach,
    Exec,
    PortForward,
}

/// Names of a command's streams in the kubelet's query, and in the options.
const COMMAND_STREAMS: [(&str, &str); 4] =
    [("input", "stdin"), ("output", "stdout"), ("error", "stderr"), ("tty", "tty")];

impl Connecter for PodStream {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
    }

    fn required_verb(&self) -> Option<Verb> {
        self.features.authorize_create.then_some(Verb::Create)
    }

    fn connect<'a>(
        &'a self,
        request: ConnectRequest<'a>,
    ) -> Pending<'a, Result<Response, StatusError>> {
        Box::pin(async move {
            let (location, kubelet) = self.location(&request).await?;
            self.serve(request, location, kubelet).await
        })
    }
}

impl StreamKind {
    /// The subresource.
    fn name(self) -> &'static str {
        match self {
            StreamKind::Attach => "attach",
            StreamKind::Exec => "exec",
            StreamKind::PortForward => "portforward",
        }
    }
}

impl PodStream {
    /// Whether this server takes WebSockets apart, where the kubelet does not.
    fn takes_apart(&self) -> bool {
        match self.kind {
            StreamKind::Attach | StreamKind::Exec => self.features.translate_websockets,
            StreamKind::PortForward => self.features.port_forward_websockets,
        }
    }

    /// Kubelet and path of the streams.
    async fn location(
        &self,
        request: &ConnectRequest<'_>,
    ) -> Result<(Location, ConnectionInfo), StatusError> {
        let pod = request.resource.find(&request.namespace, &request.name).await?;
        let (namespace, name) =
            (pod.str_at(&["metadata", "namespace"]), pod.str_at(&["metadata", "name"]));
        let path = match self.kind {
            StreamKind::PortForward => format!("/portForward/{namespace}/{name}"),
            StreamKind::Attach | StreamKind::Exec => {
                let verb = self.kind.name();
                let container = container(&pod, request.options.str_at(&["container"]))?;
                format!("/{verb}/{namespace}/{name}/{container}")
            }
        };
        let kubelet = kubelet_of(&pod, request, &self.kubelets).await?.ok_or_else(|| {
            StatusError::bad_request(format!("pod {name} does not have a host assigned"))
        })?;
        let query = encode(&self.query(request));
        Ok((kubelet.location(path, query), kubelet))
    }

    fn query(&self, request: &ConnectRequest<'_>) -> Vec<(String, String)> {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        if self.kind == StreamKind::PortForward {
            let ports = request.options.list_at(&["ports"]).iter().filter_map(Value::as_int);
            let ports = ports.map(|port| port.to_string()).collect::<Vec<_>>().join(",");
            return if ports.is_empty() { Vec::new() } else { vec![pair("port", &ports)] };
        }
        let streams = COMMAND_STREAMS.into_iter().filter(|(_, option)| request.flag(option));
        let streams = streams.map(|(key, _)| pair(key, "1"));
        let command = request.options.list_at(&["command"]).iter().filter_map(Value::as_str);
        streams.chain(command.map(|word| pair("command", word))).collect()
    }

    /// Passes the streams on as they are, unless they come by a WebSocket that the kubelet does not know.
    async fn serve(
        &self,
        request: ConnectRequest<'_>,
        location: Location,
        kubelet: ConnectionInfo,
    ) -> Result<Response, StatusError> {
        let extended = Feature::ExtendWebSocketsToKubelet.gate().name;
        let knows = kubelet.features.iter().any(|feature| feature == extended);
        let (transport, rate) = (kubelet.transport, self.rate);
        let here = !(knows && self.features.websockets_to_kubelet);
        if self.takes_apart() {
            self.metrics.stream(self.kind.name(), here);
        }
        let here = here && self.takes_apart();
        match self.kind {
            StreamKind::PortForward if here && stream_tunnel::is_asked(&request.request) => {
                let served = stream_tunnel::serve(request.request, &location, &transport, rate);
                let answer = served.await?;
                self.metrics.tunneled(answer.status());
                Ok(answer)
            }
            StreamKind::Attach | StreamKind::Exec
                if here && stream_translator::is_asked(&request.request) =>
            {
                let options = Options {
                    stdin: request.flag("stdin"),
                    stdout: request.flag("stdout"),
                    stderr: request.flag("stderr"),
                    tty: request.flag("tty"),
                };
                let (request, metrics) = (&request.request, self.metrics.clone());
                let ended = move |code| metrics.translated(code);
                Ok(stream_translator::serve(request, &location, transport, options, rate, ended))
            }
            _ => {
                let proxy = UpgradeAwareProxy {
                    location,
                    transport: &transport,
                    upgrade_required: true,
                    rate,
                };
                proxy.serve(request.request).await
            }
        }
    }
}
