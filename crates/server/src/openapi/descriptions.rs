//! Descriptions of operations, parameters, lists and the few types without a description of their own.

use std::borrow::Cow;

use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};

use super::operation::{Operation, Parameter};

/// Description of an operation.
pub(super) fn operation(operation: &Operation<'_>) -> String {
    if !operation.description.is_empty() {
        return operation.description.to_owned();
    }
    let about = ACTIONS.iter().find(|(action, _)| *action == operation.action);
    let about = about.map_or("", |(_, about)| about);
    match operation.kind {
        Some(kind) => about.replace("KIND", &kind.kind),
        None => about.to_owned(),
    }
}

const ACTIONS: [(&str, &str); 11] = [
    ("", "Tells what is served below this path."),
    ("connect", "Opens a connection with the options of KIND."),
    ("delete", "Deletes one KIND."),
    ("deletecollection", "Deletes every KIND that a list with the same selectors shows."),
    ("get", "Reads one KIND."),
    ("list", "Lists KIND objects, or watches them."),
    ("patch", "Changes parts of one KIND."),
    ("post", "Creates a KIND."),
    ("put", "Replaces one KIND."),
    (
        "watch",
        "Watches one KIND. The old form: a list with `watch` and a field selector does the same.",
    ),
    ("watchlist", "Watches KIND objects. The old form: a list with `watch` does the same."),
];

/// Description of a parameter.
pub(super) fn parameter(parameter: &Parameter) -> Option<&'static str> {
    let found = PARAMETERS.iter().find(|(name, _)| *name == parameter.name);
    found.map(|(_, about)| *about)
}

const PARAMETERS: [(&str, &str); 42] = [
    (
        "allowWatchBookmarks",
        "Whether a watch may send bookmarks: events that say only how far it has come.",
    ),
    ("command", "The command to run, word by word; not in a shell."),
    ("container", "The container that is meant, where the pod has more than one."),
    ("continue", "Where the next page of a list begins: the token of the page before."),
    (
        "dryRun",
        "The stages that are left out: `All`, or nothing. What would be written is answered.",
    ),
    ("fieldManager", "Who owns the fields that the request sets."),
    ("fieldSelector", "Selects objects by their fields: `metadata.name=a`."),
    (
        "fieldValidation",
        "What becomes of unknown and repeated fields: `Ignore`, `Warn` or `Strict`.",
    ),
    ("follow", "Whether what is logged later is sent, too."),
    ("force", "Whether an apply takes fields from their owners."),
    ("gracePeriodSeconds", "How many seconds the object has to end by itself; 0 is none."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "Whether an object that cannot be read is deleted without finalizers and preconditions.",
    ),
    ("insecureSkipTLSVerifyBackend", "Whether the kubelet's certificate is not verified."),
    ("labelSelector", "Selects objects by their labels: `app=web,tier!=db`."),
    ("limit", "How many objects a page of a list has at most."),
    ("limitBytes", "How many bytes of the log are sent at most."),
    ("logpath", "The path of the log."),
    ("name", "The name of the object."),
    ("namespace", "The namespace of the object."),
    (
        "orphanDependents",
        "Whether dependents stay, without an owner. The old form of `propagationPolicy`.",
    ),
    ("path", "The path to ask for."),
    ("ports", "The ports to forward."),
    ("pretty", "Whether JSON is indented, for people."),
    ("previous", "Whether the log of the container that ended before this one is meant."),
    (
        "propagationPolicy",
        "What becomes of dependents: `Orphan`, `Background` (deleted after it) or `Foreground` (before it).",
    ),
    (
        "resourceVersion",
        "The version that the answer is not older than, or where a watch begins. `0` is any version.",
    ),
    ("resourceVersionMatch", "How `resourceVersion` is meant: `Exact` or `NotOlderThan`."),
    (
        "sendInitialEvents",
        "Whether a watch begins with the objects that are there, and a bookmark after them.",
    ),
    ("shardSelector", "Selects a part of the objects, by a hash."),
    ("sinceSeconds", "How many seconds back the log begins."),
    ("sinceTime", "When the log begins."),
    ("stderr", "Whether what the container writes as errors is wanted."),
    ("stdin", "Whether the container reads what is sent."),
    ("stdout", "Whether what the container writes is wanted."),
    ("stream", "Which of its streams: `All`, `Stdout` or `Stderr`."),
    ("tailLines", "How many of the last lines are sent."),
    ("timeoutSeconds", "How many seconds a list or watch may take."),
    ("timestamps", "Whether each line begins with its time."),
    ("tty", "Whether the container gets a terminal."),
    ("uid", "The UID that the object must have."),
    ("verbose", "Whether every check is told of."),
    ("watch", "Whether changes are sent as they happen, instead of a list."),
];

/// Description of a type without one of its own, by the last part of its name.
pub(super) fn of_type(name: &str) -> Option<String> {
    let name = name.rsplit('.').next().unwrap_or(name);
    let known = TYPES.iter().find(|(known, _)| *known == name);
    match (known, name.strip_suffix("List")) {
        (Some((_, about)), _) => Some((*about).to_owned()),
        (None, Some(kind)) if !kind.is_empty() => {
            Some(format!("{name} is a list of {kind} objects."))
        }
        _ => None,
    }
}

const TYPES: [(&str, &str); 3] = [
    ("Info", "Info tells which build a server is."),
    ("Patch", "Patch is a change of an object, in the form that its media type names."),
    ("WatchEvent", "WatchEvent is what happened to one object."),
];

/// Description of a field of a list or watch event.
pub(super) fn of_field(field: &str) -> Option<&'static str> {
    FIELDS.iter().find(|(name, _)| *name == field).map(|(_, about)| *about)
}

const FIELDS: [(&str, &str); 6] = [
    ("apiVersion", "The group and version that this is of."),
    ("items", "The objects."),
    ("kind", "The kind of this."),
    ("metadata", "The metadata of the list: its version, and where its next page begins."),
    ("object", "The object as it is after that; before it, where it was deleted."),
    ("type", "`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`."),
];

/// A description with the possible values of a field.
pub(super) fn with_values<'t>(text: &'t str, property: &Map) -> Cow<'t, str> {
    let values = property.get("enum").and_then(Value::as_list).unwrap_or_default();
    if values.is_empty() {
        return text.into();
    }
    let mut text = text.to_owned();
    text.push_str("\n\nPossible enum values:");
    for value in values.iter().filter_map(Value::as_str) {
        text.push_str(&format!("\n - `{}`", quote(value)));
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(
            ACTIONS.is_sorted()
                && PARAMETERS.is_sorted()
                && TYPES.is_sorted()
                && FIELDS.is_sorted()
        );
    }

    #[test]
    fn lists_and_events_are_described() {
        assert_eq!(
            of_type("io.k8s.api.core.v1.PodList").unwrap(),
            "PodList is a list of Pod objects."
        );
        assert!(of_type("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent").is_some());
        assert_eq!(of_type("io.k8s.api.core.v1.Pod"), None);
    }
}
