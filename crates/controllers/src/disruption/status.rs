//! Status of a PodDisruptionBudget.

use kevel_api::time::Time;
use kevel_api::value::{Map, Value, equivalent};

use super::DELETION_SECONDS;
use crate::object::{condition, int_at, is_deleted, name, texts};

const ALLOWED: &str = "DisruptionAllowed";

/// Numbers of pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetCounts {
    pub healthy: i64,
    pub desired: i64,
    pub expected: i64,
}

/// Pods whose eviction was granted.
#[derive(Debug, Default)]
pub(super) struct Disrupted<'a> {
    /// Pods that are still expected to be deleted, with the time of the grant.
    pub pods: Map,
    /// Pods that should have been deleted.
    pub overdue: Vec<&'a Value>,
    /// Time of the first that will be overdue.
    pub recheck: Option<Time>,
}

impl Disrupted<'_> {
    /// Whether a pod does not count as healthy, because it will be deleted soon.
    pub fn hides(&self, pod: &str, now: Time) -> bool {
        let granted = self.pods.get(pod).and_then(Value::as_str);
        let granted: Option<Time> = granted.and_then(|granted| granted.parse().ok());
        granted
            .is_some_and(|granted| granted.seconds.saturating_add(DELETION_SECONDS) > now.seconds)
    }
}

/// Pods of a budget whose eviction was granted and that are not being deleted yet.
pub(super) fn disrupted_pods<'a>(budget: &Value, pods: &'a [Value], now: Time) -> Disrupted<'a> {
    let mut found = Disrupted::default();
    let Some(known) = budget.at(&["status", "disruptedPods"]).and_then(Value::as_map) else {
        return found;
    };
    for pod in pods.iter().filter(|pod| !is_deleted(pod)) {
        kevel_compute::charge(1);
        let Some(granted) = known.get(name(pod)) else { continue };
        let since: Option<Time> = granted.as_str().and_then(|since| since.parse().ok());
        let since = since.map_or(0, |since| since.seconds);
        let until = Time { seconds: since.saturating_add(DELETION_SECONDS) };
        if until < now {
            found.overdue.push(pod);
        } else {
            found.recheck = Some(found.recheck.map_or(until, |first| first.min(until)));
            found.pods.insert(name(pod), granted.clone());
        }
    }
    found
}

impl BudgetCounts {
    fn allowed(&self) -> i64 {
        if self.expected <= 0 { 0 } else { (self.healthy - self.desired).max(0) }
    }

    /// The budget with its new status, if that differs.
    pub fn write(&self, budget: &Value, disrupted: &Map, now: &str) -> Option<Value> {
        let allowed = self.allowed();
        let generation = int_at(budget, &["metadata", "generation"]);
        let numbers = [
            ("currentHealthy", self.healthy),
            ("desiredHealthy", self.desired),
            ("expectedPods", self.expected),
            ("disruptionsAllowed", allowed),
            ("observedGeneration", generation),
        ];
        let (status, reason) =
            if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let told = condition(budget, ALLOWED).is_some_and(|known| {
            known.str_at(&["status"]) == status && known.str_at(&["reason"]) == reason
        });
        let known = budget.at(&["status", "disruptedPods"]);
        let same =
            numbers.iter().all(|(field, number)| int_at(budget, &["status", field]) == *number)
                && equivalent(known, Some(&Value::Map(disrupted.clone())));
        if told && same {
            return None;
        }
        let mut budget = budget.clone();
        let fields = budget.make_map(&["status"]);
        fields.retain(|field, _| field == "conditions");
        for (field, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
            fields.insert(field, number.into());
        }
        if !disrupted.is_empty() {
            fields.insert("disruptedPods", disrupted.clone().into());
        }
        set_condition(&mut budget, [status, reason, ""], now);
        Some(budget)
    }
}

/// A budget that allows no disruption, since its status cannot be computed.
pub(super) fn fail_safe(budget: &Value, error: &str, now: &str) -> Value {
    let mut budget = budget.clone();
    budget.make_map(&["status"]).remove("disruptionsAllowed");
    set_condition(&mut budget, ["False", "SyncFailed", error], now);
    budget
}

/// Sets the condition; its time changes with its status (upstream: `SetStatusCondition`).
fn set_condition(budget: &mut Value, [status, reason, message]: [&str; 3], now: &str) {
    let generation = int_at(budget, &["status", "observedGeneration"]);
    let old = condition(budget, ALLOWED);
    let same = old.filter(|old| old.str_at(&["status"]) == status);
    let since = same.map_or(now, |old| old.str_at(&["lastTransitionTime"])).to_owned();
    let mut new = texts([
        ("type", ALLOWED),
        ("status", status),
        ("reason", reason),
        ("message", message),
        ("lastTransitionTime", &since),
    ]);
    new.insert("observedGeneration", generation.into());
    new.retain(|_, value| !value.is_empty());
    let conditions = budget.make_list(&["status"], "conditions");
    match conditions.iter_mut().find(|known| known.str_at(&["type"]) == ALLOWED) {
        Some(known) => *known = new.into(),
        None => conditions.push(new.into()),
    }
}

/// A selector as Go prints it.
pub(super) fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels = selector.at(&["matchLabels"]).and_then(Value::as_map);
    let labels: String = labels
        .into_iter()
        .flat_map(Map::iter)
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = selector
        .list_at(&["matchExpressions"])
        .iter()
        .map(|expression| {
            let values = expression.list_at(&["values"]).iter().filter_map(Value::as_str);
            let values: Vec<&str> = values.collect();
            let (key, operator) = (expression.str_at(&["key"]), expression.str_at(&["operator"]));
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
