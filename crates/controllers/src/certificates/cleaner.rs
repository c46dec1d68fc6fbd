//! Deletes requests that are decided, or that were not decided for long.

use std::time::UNIX_EPOCH;

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_pki::{Certificate, PemBlock};

use super::{ACCOUNT, PATH, condition, pem_of, requests};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::expiry::Expiry;
use crate::unavailable::Unavailable;

/// Seconds that issued, denied and failed requests are kept.
const DECIDED: i64 = 60 * 60;
/// Seconds that pending requests, and approved ones without a certificate, are kept.
const PENDING: i64 = 24 * 60 * 60;

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let expiry = Expiry {
        name: "certificatesigningrequest-cleaner-controller",
        queue: "certificatesigningrequest_cleaner",
        client: context.client(ACCOUNT),
        objects: requests(context)?,
        path: |_, name| format!("{PATH}/{name}"),
        end,
        bound: false,
    };
    Ok(expiry.build(context))
}

/// Time from which on a request is not kept: the earliest of its deadlines.
fn end(request: &Value) -> Option<Time> {
    let conditions = request.list_at(&["status", "conditions"]);
    let created = request.str_at(&["metadata", "creationTimestamp"]);
    let issued = !request.str_at(&["status", "certificate"]).is_empty();
    let pending = if conditions.is_empty() { after(created, PENDING) } else { None };
    let decided = conditions.iter().filter_map(|condition| {
        let keep = match condition.str_at(&["type"]) {
            "Denied" | "Failed" => DECIDED,
            "Approved" if issued => DECIDED,
            "Approved" => PENDING,
            _ => return None,
        };
        after(condition.str_at(&["lastUpdateTime"]), keep)
    });
    let approved = condition(request, "Approved").is_some();
    let expired = if approved { not_after(request) } else { None };
    decided.chain(pending).chain(expired).min()
}

fn after(time: &str, seconds: i64) -> Option<Time> {
    let time: Time = time.parse().ok()?;
    Some(Time { seconds: time.seconds.saturating_add(seconds) })
}

fn not_after(request: &Value) -> Option<Time> {
    let pem = pem_of(request, &["status", "certificate"]);
    let (block, _) = PemBlock::first(&pem)?;
    let end = Certificate::read(&block.contents)?.not_after()?;
    let since = end.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX) })
}

#[cfg(test)]
mod tests {
    use kevel_api::value::Map;

    use super::*;

    #[test]
    fn the_earliest_deadline_counts() {
        let (created, hour) = ("2026-01-01T00:00:00Z", 60 * 60);
        let start: Time = created.parse().unwrap();
        for (conditions, certificate, expected) in [
            (&[][..], "", Some(24 * hour)),
            (&["Approved"], "", Some(24 * hour)),
            (&["Approved"], "eA==", Some(hour)),
            (&["Denied"], "", Some(hour)),
            (&["Approved", "Failed"], "", Some(hour)),
            (&["Other"], "", None),
        ] {
            let mut request = Value::Map(Map::new());
            request.make_map(&["metadata"]).insert("creationTimestamp", created.into());
            for condition in conditions {
                let condition = Map::from_iter([
                    ("type", Value::from(*condition)),
                    ("lastUpdateTime", created.into()),
                ]);
                request.make_list(&["status"], "conditions").push(condition.into());
            }
            request.make_map(&["status"]).insert("certificate", certificate.into());
            let kept = end(&request).map(|end| end.seconds - start.seconds);
            assert_eq!(kept, expected, "{conditions:?}");
        }
    }
}
