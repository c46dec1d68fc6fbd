//! Whether any member of an etcd cluster answers, and why not.

use std::error::Error as _;
use std::time::Duration;

use kevel_pki::verify::refusal;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Status;

use super::client::{Client, STATUS, call_once, describe};
use super::proto;

/// Time that a member has to answer: the reason is reported while an operator still looks at the start.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A cluster of which no member answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", members.iter().map(|member| format!("{}: {}", member.url, member.why)).collect::<Vec<_>>().join("; "))]
pub struct Unreachable {
    /// All members, in the order of the options.
    pub members: Vec<SilentMember>,
}

/// A member that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentMember {
    /// URL of the member.
    pub url: String,
    /// Reason of the failure.
    pub why: String,
    /// Whether the member's certificate is not trusted. This does not pass by waiting.
    pub is_distrusted: bool,
}

/// Asks all members at once; any answer will do, that of a member without a leader too.
pub(super) async fn reach(client: &Client) -> Result<(), Unreachable> {
    let mut asked = JoinSet::new();
    for (place, (_, channel)) in client.channels().enumerate() {
        let channel = channel.clone();
        asked.spawn(async move {
            let call = call_once(channel, STATUS, proto::StatusRequest {});
            let answer: Result<Result<proto::StatusResponse, _>, _> =
                timeout(ANSWER_WITHIN, call).await;
            (place, answer.map(|answer| answer.err().filter(|status| status.source().is_some())))
        });
    }
    let mut silent = Vec::new();
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok((_, Ok(None))) => return Ok(()),
            Ok((place, Ok(Some(status)))) => silent.push((place, reason(&status))),
            Ok((place, Err(_))) => {
                silent.push((place, (format!("no answer within {ANSWER_WITHIN:?}"), false)));
            }
            Err(_) => {}
        }
    }
    silent.sort();
    let urls: Vec<&str> = client.channels().map(|(url, _)| url).collect();
    let members = silent.into_iter().filter_map(|(place, (why, is_distrusted))| {
        Some(SilentMember { url: (*urls.get(place)?).to_owned(), why, is_distrusted })
    });
    Err(Unreachable { members: members.collect() })
}

fn reason(status: &Status) -> (String, bool) {
    (describe(status), status.source().and_then(refusal).is_some())
}
