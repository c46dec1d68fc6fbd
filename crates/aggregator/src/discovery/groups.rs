//! API groups of all APIServices, by priority.

use std::cmp::Reverse;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kevel_server::discovery::priority::{self, Priority};
use kevel_server::discovery::{Registered as Source, Registrations, RemoteVersion};

use super::{Entries, RemoteDiscovery};
use crate::api_service::ApiService;
use crate::registered::{All, ApiServices};

/// Groups that `/apis` lists.
pub(crate) struct Groups {
    services: Arc<ApiServices>,
    remote: Arc<RemoteDiscovery>,
    /// Computed on demand, and valid until something changes.
    made: ArcSwapOption<Made>,
}

struct Made {
    services: Arc<All>,
    entries: Arc<Entries>,
    registrations: Arc<Registrations>,
}

impl Groups {
    pub fn new(services: Arc<ApiServices>, remote: Arc<RemoteDiscovery>) -> Self {
        Groups { services, remote, made: ArcSwapOption::empty() }
    }
}

impl Source for Groups {
    fn current(&self) -> Arc<Registrations> {
        let (services, entries) = (self.services.all(), self.remote.entries.load());
        if let Some(made) = &*self.made.load()
            && Arc::ptr_eq(&made.services, &services)
            && Arc::ptr_eq(&made.entries, &entries)
        {
            return made.registrations.clone();
        }
        let all: Vec<&ApiService> = services.values().map(|one| &one.service).collect();
        let remote = entries.iter().filter_map(|(name, document)| {
            let ApiService { group, group_priority, version_priority, .. } =
                &services.get(name)?.service;
            let number = |number: i64| i32::try_from(number).unwrap_or(0);
            let priority =
                Priority { group: number(*group_priority), version: number(*version_priority) };
            Some(RemoteVersion { group: group.clone(), priority, document: document.clone() })
        });
        let registrations =
            Arc::new(Registrations { groups: sorted(all), remote: remote.collect() });
        let (services, entries) = (services.clone(), entries.clone());
        let made = Made { services, entries, registrations: registrations.clone() };
        self.made.store(Some(Arc::new(made)));
        registrations
    }
}

/// Sorts groups by the priority of their first APIService, and versions by their own.
fn sorted(mut services: Vec<&ApiService>) -> Vec<(String, Vec<String>)> {
    services.sort_by_key(|service| (Reverse(service.group_priority), &service.name));
    let mut groups: Vec<(&str, Vec<&ApiService>)> = Vec::new();
    for service in services {
        match groups.iter_mut().find(|(group, _)| *group == service.group) {
            Some((_, versions)) => versions.push(service),
            None => groups.push((&service.group, vec![service])),
        }
    }
    let versions = |mut versions: Vec<&ApiService>| {
        versions.sort_by(|a, b| {
            let priorities = b.version_priority.cmp(&a.version_priority);
            priorities.then_with(|| priority::compare_maturity(&a.version, &b.version))
        });
        versions.into_iter().map(|service| service.version.clone()).collect()
    };
    groups.into_iter().map(|(group, all)| (group.to_owned(), versions(all))).collect()
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    #[test]
    fn groups_and_versions_are_listed_by_their_priorities() {
        let service = |(name, group_priority, version_priority): &(&str, i64, i64)| {
            let (version, group) = name.split_once('.').unwrap();
            let text = format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"group":"{group}","version":"{version}","groupPriorityMinimum":{group_priority},"versionPriority":{version_priority}}}}}"#
            );
            ApiService::read(&decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value)
        };
        let services = [
            ("v1.apps", 17800, 15),
            ("v1.zoo.io", 1000, 100),
            ("v1beta1.b.io", 1000, 100),
            ("v2.b.io", 1000, 100),
            ("v1.b.io", 1000, 100),
            ("v1alpha1.b.io", 2000, 200),
            ("v1.a.io", 1000, 100),
        ];
        let services: Vec<ApiService> = services.iter().map(service).collect();
        let found = sorted(services.iter().collect());
        let found: Vec<String> = found
            .iter()
            .map(|(group, versions)| format!("{group} {}", versions.join(" ")))
            .collect();
        assert_eq!(found, ["apps v1", "b.io v1alpha1 v2 v1 v1beta1", "a.io v1", "zoo.io v1"]);
    }
}
