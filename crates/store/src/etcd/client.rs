//! Calls to an etcd cluster: choice of the member, retries, and the meaning of errors.

use std::{
    error::Error as _,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::uri::PathAndQuery;
use kevel_clock::timer_now;
use kevel_pki::{
    CaBundle,
    verify::{ServerVerifier, refusal},
};
use prost::Message;
use tokio::{
    sync::{OnceCell, mpsc},
    time::{sleep, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, ConnectError, Status, Streaming,
    client::Grpc,
    metadata::MetadataValue,
    transport::{Channel, ClientTlsConfig, Endpoint, Identity},
};

use super::{Dial, Options, TlsFiles, codec::EtcdCodec, proto, spans};
use crate::{Error, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The reference's values: a dead member is noticed soon, at little cost.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lists are long: with the protocol's 64 KiB they would wait for window updates.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// The reference's client accepts the same size.
const MAX_RESPONSE_BYTES: usize = i32::MAX as usize;
/// Pause before the next member is tried.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Maximum size of a message that the reference's client sends; both servers must be able to update each other's
/// objects.
const MAX_SEND_BYTES: usize = 2 << 20;
const WATCH_REQUESTS: usize = 16;

/// etcd versions before these may report progress ahead of the events that belong to it.
const PROGRESS_SINCE: &[[u64; 3]] = &[[3, 4, 31], [3, 5, 13]];

/// Connections to the members of an etcd cluster, one of which is in use.
#[derive(Debug)]
pub(super) struct Client {
    members: Vec<Member>,
    chosen: AtomicUsize,
    timeout: Duration,
    /// Whether a member with untrusted progress reports was found.
    distrusted: AtomicBool,
}

#[derive(Debug)]
struct Member {
    url: String,
    channel: Channel,
    trusted: OnceCell<bool>,
}

/// A stream of watch responses.
pub(super) struct WatchStream {
    /// Index of the member.
    pub(super) place: usize,
    /// Sender of further requests. Without it etcd would take the stream for ended.
    pub(super) requests: mpsc::Sender<proto::WatchRequest>,
    pub(super) responses: Streaming<proto::WatchResponse>,
    /// Whether the member's progress reports come only after their events.
    pub(super) trusted: bool,
}

/// Retry policy of a call whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Retry: the call reads, or is idempotent.
    Always,
    /// Retry only if the request certainly reached no member: the call writes.
    Unsent,
}

/// Method that tells version and size of a member.
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

impl Client {
    /// Prepares the connections; they are made on first use.
    pub(super) fn new(options: &Options) -> Result<Client> {
        let tls = options.tls.as_ref().map(tls_config).transpose()?;
        let members = options.endpoints.iter().map(|url| {
            let channel = channel(url, tls.clone(), options.dial.clone())?;
            Ok(Member { url: url.clone(), channel, trusted: OnceCell::new() })
        });
        let members = members.collect::<Result<Vec<_>>>()?;
        if members.is_empty() {
            return Err(Error::Invalid("no etcd endpoint is given".into()));
        }
        let (chosen, distrusted) = Default::default();
        Ok(Client { members, chosen, timeout: options.request_timeout, distrusted })
    }

    /// Calls a unary method. Fails within the request timeout.
    pub(super) async fn call<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        retry: Retry,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let deadline = timer_now() + self.timeout;
        let mut last = Status::unavailable(format!("no answer within {:?}", self.timeout));
        loop {
            let (place, member) = self.member();
            let call = call_once(member.channel.clone(), path, request.clone());
            let Ok(outcome) = timeout_at(deadline, call).await else {
                // The member may stay silent: the next call goes to another.
                self.leave(place);
                return Err(last);
            };
            match outcome {
                Ok(answer) => return Ok(answer),
                Err(status) if may_repeat(&status, retry) => {
                    self.leave(place);
                    last = status;
                }
                Err(status) => return Err(status),
            }
            if timer_now() + RETRY_PAUSE >= deadline {
                return Err(last);
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Opens a stream of watch responses.
    pub(super) async fn watch(&self, request: proto::WatchRequest) -> Result<WatchStream, Status> {
        let (place, member) = self.member();
        let open = timeout_at(timer_now() + self.timeout, self.open_watch(place, member, request));
        let opened =
            open.await.unwrap_or_else(|_| Err(Status::unavailable("no answer to a watch")));
        if opened.is_err() {
            self.leave(place);
        }
        opened
    }

    async fn open_watch(
        &self,
        place: usize,
        member: &Member,
        request: proto::WatchRequest,
    ) -> Result<WatchStream, Status> {
        let trusted = self.is_trusted(member).await?;
        let (requests, stream) = mpsc::channel(WATCH_REQUESTS);
        // Cannot fail: the channel is new and has room.
        let _ = requests.try_send(request);
        let mut call = tonic::Request::new(ReceiverStream::new(stream));
        // With this header a member without a leader fails the stream instead of staying silent.
        call.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let channel = member.channel.clone();
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        grpc.ready().await.map_err(|e| Status::from_error(e.into()))?;
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let responses = grpc.streaming(call, path, EtcdCodec::default()).await?.into_inner();
        Ok(WatchStream { place, requests, responses, trusted })
    }

    /// Whether the progress reports of all members found so far can be trusted.
    pub(super) fn reports_progress(&self) -> bool {
        !self.distrusted.load(Ordering::Relaxed)
    }

    /// Bytes of the database file of a member.
    pub(super) async fn db_size(&self) -> Result<i64, Status> {
        let status = self.call(STATUS, proto::StatusRequest {}, Retry::Always).await;
        status.map(|status: proto::StatusResponse| status.db_size)
    }

    /// Whether a member's progress reports can be trusted, by its version.
    async fn is_trusted(&self, member: &Member) -> Result<bool, Status> {
        let ask = || async {
            let status: proto::StatusResponse =
                call_once(member.channel.clone(), STATUS, proto::StatusRequest {}).await?;
            let trusted = tells_progress(&status.version);
            if !trusted {
                self.distrusted.store(true, Ordering::Relaxed);
            }
            Ok(trusted)
        };
        member.trusted.get_or_try_init(ask).await.copied()
    }

    /// URLs and connections of the members.
    pub(super) fn channels(&self) -> impl Iterator<Item = (&str, &Channel)> {
        self.members.iter().map(|member| (member.url.as_str(), &member.channel))
    }

    /// Request timeout.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    fn member(&self) -> (usize, &Member) {
        let place = self.chosen.load(Ordering::Relaxed);
        match self.members.get(place).or(self.members.first()) {
            Some(member) => (place, member),
            None => unreachable!("a client has members"),
        }
    }

    /// Moves on from a member after a failed call. Of all concurrent calls that fail on a member, only the first has an
    /// effect.
    pub(super) fn leave(&self, place: usize) {
        let next = place.wrapping_add(1) % self.members.len();
        let _ = self.chosen.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Whether a version of etcd reports progress only after the events that belong to it.
fn tells_progress(version: &str) -> bool {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<u64> = release.split('.').map_while(|part| part.parse().ok()).collect();
    let Ok(version) = <[u64; 3]>::try_from(parts) else { return false };
    match PROGRESS_SINCE.iter().find(|since| since[..2] == version[..2]) {
        Some(since) => version >= *since,
        None => PROGRESS_SINCE.iter().all(|since| version > *since),
    }
}

/// Maps an etcd status to a store error. Compaction and future revisions are left to the caller, which knows the
/// revisions.
pub(super) fn store_error(status: Status) -> Error {
    match status.code() {
        Code::InvalidArgument if status.message().contains("request is too large") => {
            Error::TooLarge(status.message().to_owned().into())
        }
        Code::ResourceExhausted if status.message().contains("larger than max") => {
            resource_exhausted(status.message())
        }
        _ => Error::Unavailable(format!("etcd: {}", describe(&status))),
    }
}

/// Refuses a message that the reference's client would not send, with its message.
pub(super) fn check_size(message: &impl Message) -> Result<()> {
    let size = message.encoded_len();
    match size > MAX_SEND_BYTES {
        true => Err(resource_exhausted(&format!(
            "trying to send message larger than max ({size} vs. {MAX_SEND_BYTES})"
        ))),
        false => Ok(()),
    }
}

/// Error for a message over a gRPC limit, in the form of Go's gRPC.
fn resource_exhausted(why: &str) -> Error {
    Error::TooLarge(format!("rpc error: code = ResourceExhausted desc = {why}").into())
}

pub(super) fn is_compacted(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains("has been compacted")
}

pub(super) fn is_future(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains("is a future revision")
}

/// Calls a unary method once.
pub(super) async fn call_once<Q, A>(
    channel: Channel,
    path: &'static str,
    request: Q,
) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
    grpc.ready().await.map_err(|e| Status::from_error(e.into()))?;
    let sent = kevel_trace::is_recording().then(|| request.encoded_len());
    let mut request = tonic::Request::new(request);
    let span = spans::of_call(path, sent, request.metadata_mut().as_mut());
    let answer =
        span.scope(grpc.unary(request, PathAndQuery::from_static(path), EtcdCodec::default()));
    let answer = answer.await.map(|answer: tonic::Response<A>| answer.into_inner());
    spans::answered(&span, &answer);
    answer
}

fn may_repeat(status: &Status, retry: Retry) -> bool {
    match retry {
        Retry::Always => status.code() == Code::Unavailable,
        Retry::Unsent => is_connect_error(status),
    }
}

fn is_connect_error(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Text of a status with its causes, in which transport errors hide the reason.
pub(super) fn describe(status: &Status) -> String {
    if let Some(reason) = status.source().and_then(refusal) {
        return format!("{}: tls: failed to verify certificate: {reason}", status.message());
    }
    let mut text = status.message().to_string();
    let mut cause = status.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}

/// TLS of connections to members, and the verifier of their certificates.
type Tls = (ClientTlsConfig, Arc<ServerVerifier>);

fn channel(url: &str, tls: Option<Tls>, dial: Option<Dial>) -> Result<Channel> {
    let invalid = |e: tonic::transport::Error| Error::Invalid(format!("etcd endpoint {url}: {e}"));
    let with_scheme = match (url.contains("://"), &tls) {
        (true, _) => url.to_string(),
        (false, Some(_)) => format!("https://{url}"),
        (false, None) => format!("http://{url}"),
    };
    let mut endpoint = Endpoint::from_shared(with_scheme.clone())
        .map_err(invalid)?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    if with_scheme.starts_with("https://") {
        let (tls, verifier) = tls.ok_or_else(|| {
            Error::Invalid(format!(
                "etcd endpoint {url} needs a certificate authority file (--etcd-cafile)"
            ))
        })?;
        endpoint = endpoint.tls_config_with_verifier(tls, verifier).map_err(invalid)?;
    }
    Ok(match dial {
        None => endpoint.connect_lazy(),
        Some(dial) => endpoint.connect_with_connector_lazy(dial),
    })
}

fn tls_config(files: &TlsFiles) -> Result<Tls> {
    let read = |path: &Path| {
        fs::read(path).map_err(|e| Error::Invalid(format!("cannot read {}: {e}", path.display())))
    };
    let ca = &files.trusted_ca;
    let bundle = CaBundle::parse(&read(ca)?);
    let bundle = bundle.map_err(|e| Error::Invalid(format!("{}: {e}", ca.display())))?;
    let verifier = Arc::new(ServerVerifier::new(bundle.roots().clone()));
    let config = ClientTlsConfig::new();
    let config = match &files.client {
        Some((certificate, key)) => {
            config.identity(Identity::from_pem(read(certificate)?, read(key)?))
        }
        None => config,
    };
    Ok((config, verifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_not_trusted() {
        for (version, expected) in [
            ("3.3.10", false),
            ("3.4.23", false),
            ("3.4.31", true),
            ("3.5.12", false),
            ("3.5.13", true),
            ("3.6.0-rc.1", true),
            ("4.0.0", true),
            ("", false),
            ("new", false),
        ] {
            assert_eq!(tells_progress(version), expected, "{version}");
        }
    }
}
