//! Translator of `exec` and `attach` for WebSocket clients, from a kubelet that uses SPDY (upstream:
//! StreamTranslatorHandler).

mod client;
mod kubelet;

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use crate::channel::Protocol;
use crate::rate::Rate;
use crate::remote_command::{Outcome, Version};
use client::Client;
use kubelet::Kubelet;

/// Time limit for a kubelet to accept a command's streams.
pub const CREATE_STREAMS: Duration = Duration::from_secs(30);
/// Ping interval to a kubelet, so that its connection is not dropped as dead.
pub const PING_PERIOD: Duration = Duration::from_secs(5);
/// Time without data after which the client is taken for gone.
pub const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// Time limit for a client to receive the last message.
pub const LAST_WORD: Duration = Duration::from_secs(10);
/// Time limit for a client to close its side, and for a kubelet to receive the close.
pub const CLOSING: Duration = Duration::from_secs(1);

/// Streams of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Options {
    pub stdin: bool,
    pub stdout: bool,
    /// Not with a terminal, which has one output.
    pub stderr: bool,
    pub tty: bool,
}

/// Result of a translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translated {
    /// The command's result was sent to the client.
    Ended(Outcome),
    /// The client disconnected before, and the kubelet's connection was closed.
    ClientGone,
}

/// Translates between a client, whose handshake is done, and its kubelet, to which `connect` leads
/// ([`crate::remote_command::connect`]): if that fails, the client gets the error on its error channel. Ends with the
/// command or the client; either way both connections are closed.
pub async fn translate<C, K, F>(
    client: C,
    protocol: Protocol,
    options: Options,
    rate: Option<Rate>,
    connect: F,
) -> Translated
where
    C: AsyncRead + AsyncWrite + Unpin,
    K: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Result<(K, Version), String>>,
{
    let mut client = Client::new(client, protocol, options, rate);
    client.greet(options);
    let ended = run(&mut client, options, rate, connect).await;
    if let Some(outcome) = &ended {
        client.tell(outcome);
    }
    client.close().await;
    ended.map_or(Translated::ClientGone, Translated::Ended)
}

/// Runs the command; `None` if the client disconnects.
async fn run<C, K, F>(
    client: &mut Client<C>,
    options: Options,
    rate: Option<Rate>,
    connect: F,
) -> Option<Outcome>
where
    C: AsyncRead + AsyncWrite + Unpin,
    K: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Result<(K, Version), String>>,
{
    let mut connect = pin!(connect);
    let connected = while_present(client, |_, context| connect.as_mut().poll(context)).await?;
    let mut kubelet = match connected {
        Ok((io, version)) => Kubelet::new(io, version, options, rate),
        Err(why) => return Some(Outcome::Failure(why)),
    };
    let mut late = pin!(sleep(CREATE_STREAMS));
    let opened = while_present(client, |_, context| match late.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(Err("Timeout occurred".to_owned())),
        Poll::Pending => kubelet.poll_opened(context),
    });
    let outcome = match opened.await {
        Some(Ok(())) => poll_fn(|context| poll_copy(client, &mut kubelet, context)).await,
        Some(Err(why)) => Some(Outcome::Failure(why)),
        None => None,
    };
    // An unresponsive kubelet is not waited for.
    let _ = timeout(CLOSING, kubelet.close()).await;
    outcome
}

/// Waits for `poll` while serving the client; `None` if the client disconnects.
async fn while_present<C: AsyncRead + AsyncWrite + Unpin, T>(
    client: &mut Client<C>,
    mut poll: impl FnMut(&mut Client<C>, &mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    poll_fn(|context| match client.poll(None, None, context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => poll(client, context).map(Some),
    })
    .await
}

/// Moves data in all directions until the command has ended or the client has disconnected.
fn poll_copy<C, K>(
    client: &mut Client<C>,
    kubelet: &mut Kubelet<K>,
    context: &mut Context<'_>,
) -> Poll<Option<Outcome>>
where
    C: AsyncRead + AsyncWrite + Unpin,
    K: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        kubelet.poll_drive(context);
        let full = client.is_full();
        let moved = kubelet.poll_output(client, context);
        if client.poll(kubelet.stdin(), kubelet.resize(), context).is_ready() {
            return Poll::Ready(None);
        }
        kubelet.poll_stdin_closed(context);
        if let Some(outcome) = kubelet.outcome() {
            return Poll::Ready(Some(outcome));
        }
        // Moved data may have made room for more.
        if !moved && full == client.is_full() {
            return Poll::Pending;
        }
    }
}
