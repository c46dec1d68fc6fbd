//! A PriorityLevelConfiguration, compiled.

use kevel_api::value::Value;

use crate::EXEMPT;
use crate::queue_set::{Dealer, Queuing};

/// Spec of a PriorityLevelConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PriorityLevelConfiguration {
    pub name: Box<str>,
    pub uid: Box<str>,
    pub queuing: Queuing,
    /// Share of the server's seats.
    pub nominal_concurrency_shares: u32,
    /// Percentage of the nominal seats that other levels may borrow.
    pub lendable_percent: u32,
    /// Maximum borrowed seats, as a percentage of the nominal ones; `None`: unlimited.
    pub borrowing_limit_percent: Option<u32>,
    /// Number of queues per flow, if there are queues.
    pub hand_size: Option<u32>,
}

/// Default of `nominalConcurrencyShares`.
const DEFAULT_SHARES: u32 = 30;

impl PriorityLevelConfiguration {
    /// Compiles an object; the error says why it cannot be used. Validation rejects such objects, but other servers may
    /// have written to the store.
    pub(crate) fn new(object: &Value) -> Result<Self, String> {
        let name = object.str_at(&["metadata", "name"]);
        let spec = |field: &str| object.at(&["spec", field]);
        let (ty, limited, exempt) =
            (object.str_at(&["spec", "type"]), spec("limited"), spec("exempt"));
        if (ty == "Limited") != limited.is_some() {
            return Err("broken union structure at the top, for Limited".into());
        }
        if (ty == "Exempt") != exempt.is_some() {
            return Err("broken union structure at the top, for Exempt".into());
        }
        if (ty == "Exempt") != (name == EXEMPT) {
            return Err("non-alignment between name and type".into());
        }
        let (Some(said), queues) = (limited.or(exempt), limited.map(queuing).transpose()?) else {
            return Err(format!("unknown type {ty:?}"));
        };
        let (queuing, hand_size) = queues.unwrap_or((Queuing::Exempt, None));
        let default_shares = if limited.is_some() { DEFAULT_SHARES } else { 0 };
        Ok(PriorityLevelConfiguration {
            name: name.into(),
            uid: object.str_at(&["metadata", "uid"]).into(),
            queuing,
            nominal_concurrency_shares: number(said, "nominalConcurrencyShares")
                .unwrap_or(default_shares),
            lendable_percent: number(said, "lendablePercent").unwrap_or(0).min(100),
            borrowing_limit_percent: number(said, "borrowingLimitPercent"),
            hand_size,
        })
    }

    /// Whether the level is exempt.
    pub(crate) fn is_exempt(&self) -> bool {
        self.queuing == Queuing::Exempt
    }
}

/// Queuing, and the hand size if there are queues.
fn queuing(limited: &Value) -> Result<(Queuing, Option<u32>), String> {
    let (ty, queuing) =
        (limited.str_at(&["limitResponse", "type"]), limited.at(&["limitResponse", "queuing"]));
    if (ty == "Reject") != queuing.is_none() {
        return Err("broken union structure for limit response".into());
    }
    let Some(queuing) = queuing else {
        return Ok((Queuing::Reject, None));
    };
    let said = |field: &str| queuing.at(&[field]).and_then(Value::as_int).unwrap_or(0);
    let dealer = Dealer::new(said("queues"), said("handSize")).map_err(|error| {
        format!(
            "the QueueSetConfig implies an invalid shuffle sharding config (DesiredNumQueues is \
             deckSize): {error}"
        )
    })?;
    let length_limit = number(queuing, "queueLengthLimit").unwrap_or(0);
    Ok((Queuing::Queue { dealer, length_limit }, number(queuing, "handSize")))
}

/// Value of a numeric field, at least 0.
fn number(of: &Value, field: &str) -> Option<u32> {
    let number = of.at(&[field])?.as_int()?;
    Some(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}
