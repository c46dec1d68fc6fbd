//! Tests of mutating webhooks' rounds against a naive model: the second round calls a webhook with `IfNeeded` if the
//! object has changed since the first round called it.

use std::sync::Mutex;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_codec::json::{Unknown, decode_any};
use kevel_registry::admission::{Admission, Operation, OperationOptions};
use kevel_registry::columns::NameAndCreation;
use kevel_registry::resource::{Conventions, Resource};
use kevel_registry::strategy::Generic;
use kevel_registry::type_ref::TypeRef;
use kevel_registry::user::User;
use kevel_registry::verb::Verb;
use kevel_registry::warnings::Warnings;
use kevel_server::audit::AuditContext;

use super::*;

/// A webhook of a case.
#[derive(Clone, Copy, Debug)]
struct Hook {
    mutates: bool,
    if_needed: bool,
}

/// Another plug-in, before the webhooks.
struct Before {
    /// Whether it changes the object in the second round.
    changes: bool,
}

impl Plugin for Before {
    fn name(&self) -> &'static str {
        "Before"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let second = attributes.reinvocation.is_some_and(Reinvocation::is_reinvoke);
        if let Some(object) = object.filter(|_| second && self.changes) {
            count(object);
        }
        ready(Ok(()))
    }
}

/// Rounds of the plug-in without network: every webhook answers at once.
struct Rounds {
    hooks: Vec<(Hook, Arc<Webhook>)>,
    asked: Mutex<Vec<(u32, usize)>>,
}

impl Plugin for Rounds {
    fn name(&self) -> &'static str {
        NAME
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        mut object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let round = Round::begin(attributes.reinvocation.unwrap(), object.as_deref());
        for (index, (hook, webhook)) in self.hooks.iter().enumerate() {
            if !round.is_due(webhook) {
                continue;
            }
            self.asked.lock().unwrap().push((round.number(), index));
            if let Some(object) = object.as_deref_mut().filter(|_| hook.mutates) {
                count(object);
            }
            round.asked(webhook, hook.mutates);
        }
        round.end(object.as_deref());
        ready(Ok(()))
    }
}

/// Changes an object to a value that it never had before.
fn count(object: &mut Value) {
    let changes = object.at(&["changes"]).and_then(Value::as_int).unwrap_or(0);
    object.as_map_mut().unwrap().insert("changes", Value::Int(changes + 1));
}

/// The naive model: the calls by round and webhook, and the number of changes.
fn expected(hooks: &[Hook], before_changes: bool) -> (Vec<(u32, usize)>, i64) {
    let (mut asked, mut changes) = (Vec::new(), 0);
    let mut seen = Vec::new();
    for (index, hook) in hooks.iter().enumerate() {
        asked.push((0, index));
        changes += i64::from(hook.mutates);
        seen.push(changes);
    }
    if changes > 0 {
        changes += i64::from(before_changes);
        for (index, hook) in hooks.iter().enumerate() {
            if hook.if_needed && seen[index] != changes {
                asked.push((1, index));
                changes += i64::from(hook.mutates);
            }
        }
    }
    (asked, changes)
}

fn webhook(index: usize, hook: Hook) -> Arc<Webhook> {
    let policy = if hook.if_needed { "IfNeeded" } else { "Never" };
    let json = format!(
        r#"{{"metadata":{{"name":"c"}},"webhooks":[{{"name":"h{index}","reinvocationPolicy":"{policy}"}}]}}"#
    );
    let configuration = decode_any(json.as_bytes(), Unknown::Ignore).unwrap().value;
    Webhook::of_configuration(&configuration, Step::Admit).remove(0)
}

fn row() -> Resource {
    Resource {
        kind: GroupVersionKind::new("", "v1", "ConfigMap"),
        plural: "configmaps".to_owned(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Vec::new(),
        ty: TypeRef::BuiltIn(builtin::schema("", "v1", "ConfigMap").unwrap()),
        strategy: Arc::new(Generic),
        allocation: None,
        columns: Arc::new(NameAndCreation),
        storage: None,
        creater: None,
        lister: None,
        subresources: Default::default(),
        list_kind: String::new(),
        conventions: Conventions::typed(false),
    }
}

#[tokio::test]
async fn webhooks_are_reinvoked_where_the_object_has_changed_since() {
    let kinds = [(false, false), (false, true), (true, false), (true, true)]
        .map(|(mutates, if_needed)| Hook { mutates, if_needed });
    let (row, user) = (row(), User::default());
    let (warnings, audit) = (Warnings::default(), AuditContext::default());
    for number in 0..kinds.len().pow(3) {
        let hooks = [number % 4, number / 4 % 4, number / 16].map(|kind| kinds[kind]);
        for changes in [false, true] {
            let webhooks = hooks.iter().enumerate();
            let rounds = Arc::new(Rounds {
                hooks: webhooks.map(|(index, hook)| (*hook, webhook(index, *hook))).collect(),
                asked: Mutex::default(),
            });
            let admission = Admission::new(vec![Arc::new(Before { changes }), rounds.clone()]);
            let attributes = Attributes {
                resource: &row,
                subresource: "",
                operation: Operation::Create,
                verb: Verb::Create,
                namespace: "ns",
                name: "a",
                user: &user,
                dry_run: false,
                warnings: &warnings,
                audit: &audit,
                old: None,
                options: OperationOptions::None,
                deadline: None,
                clock: &kevel_clock::Clock::system(),
                trackers: None,
                reinvocation: None,
            };
            let mut object = decode_any(b"{}", Unknown::Ignore).unwrap().value;
            admission.admit(&attributes, Some(&mut object)).await.unwrap();
            let made = object.at(&["changes"]).and_then(Value::as_int).unwrap_or(0);
            let asked = rounds.asked.lock().unwrap().clone();
            assert_eq!((asked, made), expected(&hooks, changes), "{hooks:?}, before {changes}");
        }
    }
}
