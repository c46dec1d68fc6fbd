//! Automatic registration of local APIServices (upstream: autoRegisterController): those of built-in groups at start,
//! those of custom resources always.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_compute::Metered;
use kevel_controller_runtime::{Backoff, Client, WorkQueue, run};
use kevel_registry::deletion::DeleteOptions;
use kevel_registry::resource::Resource;
use kevel_registry::storage::Storage;
use kevel_server::discovery::priority::Priority;
use kevel_store::cache::At;
use tokio::task::JoinSet;

use crate::api_service::{ApiService, GROUP, MANAGED_LABEL, Managed};
use crate::registered::ApiServices;

/// Number of concurrent workers. At start all APIServices are registered concurrently, so that the store can write them
/// together.
const WORKERS: usize = 2;
const AT_START: usize = 64;

/// State of an existing APIService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existing {
    /// Not loaded yet.
    Unknown,
    None,
    ByOthers,
    /// Managed at start, but it did not exist when this server started.
    OnStartLater,
    OnStart,
    Always,
}

/// Action for an APIService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Fail,
    Nothing,
    CreateOnce,
    Create,
    UpdateOnce,
    Update,
    DeleteOnce,
    Delete,
}

/// Actions by existing (rows) and desired (columns) state.
const TABLE: [(Existing, [Action; 3]); 6] = {
    use Action::*;
    [
        // not wanted, on start, always
        (Existing::Unknown, [Fail, Fail, Fail]),
        (Existing::None, [Nothing, CreateOnce, Create]),
        (Existing::ByOthers, [Nothing, Nothing, Nothing]),
        (Existing::OnStartLater, [Nothing, Nothing, Nothing]),
        (Existing::OnStart, [DeleteOnce, UpdateOnce, UpdateOnce]),
        (Existing::Always, [Delete, UpdateOnce, Update]),
    ]
};

fn action(existing: Existing, desired: Managed) -> Action {
    let row = TABLE.iter().find(|(row, _)| *row == existing);
    let [not, on_start, always] = row.map_or([Action::Fail; 3], |(_, actions)| *actions);
    match desired {
        Managed::ByOthers => not,
        Managed::OnStart => on_start,
        Managed::Always => always,
    }
}

/// Group, version and priorities of a desired APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Desired {
    pub group: String,
    pub version: String,
    pub priority: Priority,
    pub managed: Managed,
}

impl Desired {
    pub fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    fn spec(&self) -> Value {
        let Priority { group, version } = self.priority;
        let mut spec = Map::from_iter([
            ("version", Value::from(self.version.as_str())),
            ("groupPriorityMinimum", Value::Int(group.into())),
            ("versionPriority", Value::Int(version.into())),
        ]);
        if !self.group.is_empty() {
            spec.insert("group", self.group.as_str().into());
        }
        spec.into()
    }

    fn object(&self) -> Value {
        let labels = Map::from_iter([(MANAGED_LABEL, Value::from(self.managed.label()))]);
        let metadata = [("name", self.name().as_str().into()), ("labels", labels.into())];
        Value::Map(Map::from_iter([
            ("apiVersion", format!("{GROUP}/v1").as_str().into()),
            ("kind", "APIService".into()),
            ("metadata", Map::from_iter(metadata).into()),
            ("spec", self.spec()),
        ]))
    }

    fn is(&self, service: &ApiService) -> bool {
        let Priority { group, version } = self.priority;
        (&self.group, &self.version) == (&service.group, &service.version)
            && (i64::from(group), i64::from(version))
                == (service.group_priority, service.version_priority)
            && service.service.is_none()
            && service.ca_bundle.is_empty()
            && !service.insecure_skip_tls_verify
    }
}

/// Controller that registers APIServices.
pub(crate) struct AutoRegister {
    services: Arc<ApiServices>,
    resource: Arc<Resource>,
    client: Client,
    /// CustomResourceDefinitions, if they are served.
    definitions: Option<Arc<Storage>>,
    pub queue: Arc<WorkQueue>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    desired: HashMap<String, Desired>,
    /// APIServices that existed when this server started.
    at_start: HashSet<String>,
    /// APIServices that were reconciled at least once.
    synced: HashSet<String>,
}

impl AutoRegister {
    pub fn new(
        services: Arc<ApiServices>,
        resource: Arc<Resource>,
        client: Client,
        definitions: Option<Arc<Storage>>,
    ) -> Arc<Self> {
        let queue = WorkQueue::new(Backoff::default());
        let heard = queue.clone();
        services.listen(move |name| heard.add(name));
        let state = Mutex::default();
        Arc::new(AutoRegister { services, resource, client, definitions, queue, state })
    }

    /// The first CustomResourceDefinition that cannot be read: which APIServices it needs is not known.
    async fn unreadable(&self) -> Option<String> {
        let snapshot = self.definitions.as_ref()?.cache.snapshot(At::Any).await.ok()?;
        snapshot.damaged().next().map(|object| object.key().to_owned())
    }

    /// Adds a desired APIService.
    pub fn add(&self, desired: Desired) {
        let name = desired.name();
        self.queue.add(&name);
        self.state().desired.insert(name, desired);
    }

    /// Removes a desired APIService.
    pub fn remove(&self, name: &str) {
        self.state().desired.remove(name);
        self.queue.add(name);
    }

    /// Runs until the queue is shut down.
    pub async fn run(self: Arc<Self>) {
        self.services.loaded().wait().await;
        let names: Vec<String> = {
            let mut state = self.state();
            state.at_start = self.services.all().keys().cloned().collect();
            state.desired.keys().cloned().collect()
        };
        for names in names.chunks(AT_START) {
            let mut running = JoinSet::new();
            for name in names.iter().cloned() {
                let this = self.clone();
                let reconcile = async move { (this.reconcile(&name).await, name) };
                running.spawn(Metered::task(Box::pin(reconcile), "autoregister"));
            }
            while let Some(ended) = running.join_next().await {
                if let Ok((Err(_), name)) = ended {
                    self.queue.add_rate_limited(&name);
                }
            }
        }
        let queue = self.queue.clone();
        let reconcile = move |name: String| {
            let this = self.clone();
            async move { this.reconcile(&name).await }
        };
        run(queue, "autoregister", WORKERS, reconcile).await;
    }

    async fn reconcile(&self, name: &str) -> Result<(), String> {
        let (desired, synced) = {
            let state = self.state();
            (state.desired.get(name).cloned(), state.synced.contains(name))
        };
        let current = self.services.all().get(name).cloned();
        let existing = self.existing(current.as_ref().map(|one| &one.service));
        let managed = desired.as_ref().map_or(Managed::ByOthers, |desired| desired.managed);
        let current = current.as_ref().map(|one| &one.service);
        match (action(existing, managed), desired, current) {
            (Action::Fail, ..) => return Err("the API services are not known yet".to_owned()),
            (Action::CreateOnce | Action::UpdateOnce | Action::DeleteOnce, ..) if synced => {}
            (Action::CreateOnce | Action::Create, Some(desired), _) => {
                let created = self.client.create(COLLECTION, &desired.object()).await;
                // Another server was faster: the watch event leads to another reconciliation.
                accept(created, &[reason::ALREADY_EXISTS])?;
            }
            (Action::UpdateOnce | Action::Update, Some(desired), Some(current))
                if !desired.is(current) =>
            {
                accept(self.update(&desired).await, &[reason::NOT_FOUND, reason::CONFLICT])?;
            }
            (Action::DeleteOnce | Action::Delete, _, Some(current)) => {
                if let Some(definition) = self.unreadable().await {
                    return Err(format!(
                        "{definition} cannot be read, and may need the APIService"
                    ));
                }
                let options =
                    DeleteOptions { uid: Some(current.uid.clone()), ..DeleteOptions::default() };
                let deleted = self.resource.remove("", name, &options).await;
                accept(deleted, &[reason::NOT_FOUND, reason::CONFLICT])?;
            }
            _ => {}
        }
        let mut state = self.state();
        let known = current.is_some() || state.desired.contains_key(name);
        match known || state.at_start.contains(name) {
            true => state.synced.insert(name.to_owned()),
            // Nothing is left to remember.
            false => state.synced.remove(name),
        };
        Ok(())
    }

    fn existing(&self, current: Option<&ApiService>) -> Existing {
        if !self.services.loaded().is_signaled() {
            return Existing::Unknown;
        }
        match current.map(|current| (current.managed, &current.name)) {
            None => Existing::None,
            Some((Managed::ByOthers, _)) => Existing::ByOthers,
            Some((Managed::Always, _)) => Existing::Always,
            Some((Managed::OnStart, name)) => match self.state().at_start.contains(name) {
                true => Existing::OnStart,
                false => Existing::OnStartLater,
            },
        }
    }

    async fn update(&self, desired: &Desired) -> Result<Value, StatusError> {
        let name = desired.name();
        let mut object = self.resource.find("", &name).await?;
        object.make_map(&[]).insert("spec", desired.spec());
        self.client.update(&format!("{COLLECTION}/{name}"), &object).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Path of APIServices.
pub(crate) const COLLECTION: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Accepts failures that mean that another server did it.
fn accept<T>(result: Result<T, StatusError>, reasons: &[&str]) -> Result<(), String> {
    match result {
        Err(error) if !reasons.contains(&error.reason()) => Err(error.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_equal_the_reference_s_table() {
        for (existing, desired, expected) in [
            ("Unknown", "ByOthers", "Fail"),
            ("Unknown", "OnStart", "Fail"),
            ("Unknown", "Always", "Fail"),
            ("None", "ByOthers", "Nothing"),
            ("None", "OnStart", "CreateOnce"),
            ("None", "Always", "Create"),
            ("ByOthers", "ByOthers", "Nothing"),
            ("ByOthers", "OnStart", "Nothing"),
            ("ByOthers", "Always", "Nothing"),
            ("OnStartLater", "ByOthers", "Nothing"),
            ("OnStartLater", "OnStart", "Nothing"),
            ("OnStartLater", "Always", "Nothing"),
            ("OnStart", "ByOthers", "DeleteOnce"),
            ("OnStart", "OnStart", "UpdateOnce"),
            ("OnStart", "Always", "UpdateOnce"),
            ("Always", "ByOthers", "Delete"),
            ("Always", "OnStart", "UpdateOnce"),
            ("Always", "Always", "Update"),
        ] {
            let rows = TABLE.iter().map(|(row, _)| *row);
            let row = rows.into_iter().find(|row| format!("{row:?}") == existing).unwrap();
            let columns = [Managed::ByOthers, Managed::OnStart, Managed::Always];
            let column = columns.into_iter().find(|c| format!("{c:?}") == desired).unwrap();
            assert_eq!(format!("{:?}", action(row, column)), expected, "{existing} {desired}");
        }
    }

    #[test]
    fn a_wanted_one_is_as_the_reference_writes_it() {
        let desired = |group: &str| Desired {
            group: group.to_owned(),
            version: "v1".to_owned(),
            priority: Priority { group: 17800, version: 15 },
            managed: Managed::OnStart,
        };
        for (group, name, spec) in [
            (
                "apps",
                "v1.apps",
                r#"{"group":"apps","groupPriorityMinimum":17800,"version":"v1","versionPriority":15}"#,
            ),
            ("", "v1.", r#"{"groupPriorityMinimum":17800,"version":"v1","versionPriority":15}"#),
        ] {
            let desired = desired(group);
            let mut text = Vec::new();
            kevel_codec::json::encode_any(&desired.object(), &mut text);
            let expected = format!(
                r#"{{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{{"labels":{{"kube-aggregator.kubernetes.io/automanaged":"onstart"}},"name":"{name}"}},"spec":{spec}}}"#
            );
            assert_eq!(String::from_utf8(text).unwrap(), expected);
            assert!(desired.is(&ApiService::read(&desired.object())));
        }
    }
}
