//! gRPC services on Unix sockets: external signers of tokens, KMS plug-ins.

use std::time::Duration;

use http::uri::{PathAndQuery, Uri};
use prost::Message;
use tokio::time::{sleep, timeout};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

/// Interval of retries while a service is unavailable.
const RETRY: Duration = Duration::from_millis(100);

/// A gRPC service on a Unix socket. It is connected at the first call, and again after a disconnect.
#[derive(Clone, Debug)]
pub struct UnixService {
    channel: Channel,
}

impl UnixService {
    /// The service on a socket: `/path`, or `@name` for an abstract socket. Must be called in a runtime.
    pub fn new(socket: &str) -> Result<Self, String> {
        let path = match socket.strip_prefix('@') {
            Some(name) => format!("\0{name}"),
            None => socket.to_owned(),
        };
        let endpoint =
            Endpoint::from_shared(format!("unix:{path}")).map_err(|error| error.to_string())?;
        let endpoint = endpoint.origin(Uri::from_static("http://localhost"));
        Ok(UnixService { channel: endpoint.connect_lazy() })
    }

    /// Calls a method, and waits up to `patience` for an unavailable service.
    pub async fn call<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        patience: Duration,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let waiting = async {
            loop {
                match self.call_once(path, request.clone()).await {
                    Err(status) if status.code() == Code::Unavailable => sleep(RETRY).await,
                    answered => return answered,
                }
            }
        };
        let late = |_| Err(Status::deadline_exceeded("context deadline exceeded"));
        timeout(patience, waiting).await.unwrap_or_else(late)
    }

    async fn call_once<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let request = tonic::Request::new(request);
        let path = PathAndQuery::from_static(path);
        Ok(grpc.unary(request, path, ProstCodec::default()).await?.into_inner())
    }
}

/// Code of a call's result, as in the reference's metrics.
pub fn code_of(status: Option<&Status>) -> &'static str {
    match status.map_or(Code::Ok, Status::code) {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// A failure as the reference formats it.
pub fn shown(status: &Status) -> String {
    let code = code_of(Some(status));
    format!("rpc error: code = {code} desc = {}", status.message())
}
