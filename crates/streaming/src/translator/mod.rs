//! `exec` and `attach` for clients that speak WebSocket with channels, from a kubelet that speaks SPDY.

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

/// How long a kubelet may take to accept a command's streams.
pub const CREATE_STREAMS: Duration = Duration::from_secs(30);
/// How often a kubelet is pinged, so that its connection is not taken for a dead one.
pub const PING_PERIOD: Duration = Duration::from_secs(5);
/// How long nothing may go before the client is taken for gone.
pub const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// How long a client has to take the last word.
pub const LAST_WORD: Duration = Duration::from_secs(10);
/// How long a client has to close its side, and a kubelet to hear that nobody listens.
pub const CLOSING: Duration = Duration::from_secs(1);

/// Which streams a command has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Options {
    pub stdin: bool,
    pub stdout: bool,
    /// Not with a terminal, which has one output.
    pub stderr: bool,
    pub tty: bool,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translated {
    /// The client was told.
    Ended(Outcome),
    /// The client went before, and the kubelet was left.
    ClientGone,
}

/// Translates between a client, whose handshake is done, and its kubelet, which `connect` leads to
/// ([`crate::remote_command::connect`]): the client is told on its error channel where that fails.
/// Ends when the command has, or the client; either way both connections are closed.
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

/// Nothing if the client has gone.
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
    // The kubelet hears of it, unless it does not listen.
    let _ = timeout(CLOSING, kubelet.close()).await;
    outcome
}

/// Waits for something, and serves the client meanwhile; nothing if that goes.
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

/// Moves everything as far as it goes, until the command has ended or the client has gone.
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
        // What went may have made room for more.
        if !moved && full == client.is_full() {
            return Poll::Pending;
        }
    }
}
