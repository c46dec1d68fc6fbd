//! Metrics of unavailable APIServices.

use std::sync::Arc;

use kevel_server::metrics::{Counter, Description, Family, Metrics};

use crate::registered::ApiServices;

/// Metrics of APIService availability.
#[derive(Clone, Debug)]
pub(crate) struct AvailabilityMetrics {
    total: Arc<Family<Counter>>,
}

impl AvailabilityMetrics {
    pub fn new(metrics: &Metrics, services: &Arc<ApiServices>) -> Self {
        let unavailable = metrics.gauge(Description {
            name: "aggregator_unavailable_apiservice",
            help: "[ALPHA] Whether an API service is unavailable, by name.",
            labels: &["name"],
        });
        let known = Arc::downgrade(services);
        services.listen(move |name| {
            let all = known.upgrade().map(|services| services.all().clone());
            match all.as_ref().and_then(|all| all.get(name)) {
                Some(one) => unavailable.with(&[name]).set(i64::from(!one.service.available)),
                None => unavailable.remove(&[name]),
            }
        });
        let total = metrics.counter(Description {
            name: "aggregator_unavailable_apiservice_total",
            help: "[ALPHA] Changes of an APIService to unavailable, by name and reason.",
            labels: &["name", "reason"],
        });
        AvailabilityMetrics { total }
    }

    pub(super) fn became_unavailable(&self, name: &str, reason: &str) {
        self.total.with(&[name, reason]).increment();
    }
}
