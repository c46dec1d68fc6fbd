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
    ("", "Lists the resources below this path."),
    ("connect", "Connects with the options of a KIND."),
    ("delete", "Deletes one KIND."),
    ("deletecollection", "Deletes every KIND that a list with the same selectors shows."),
    ("get", "Reads one KIND."),
    ("list", "Lists KIND objects, or watches them."),
    ("patch", "Changes parts of one KIND."),
    ("post", "Creates a KIND."),
    ("put", "Replaces one KIND."),
    ("watch", "Watches one KIND. Deprecated: use a list with `watch` and a field selector."),
    ("watchlist", "Watches KIND objects. Deprecated: use a list with `watch`."),
];

/// Description of a parameter.
pub(super) fn parameter(parameter: &Parameter) -> Option<&'static str> {
    let found = PARAMETERS.iter().find(|(name, _)| *name == parameter.name);
    found.map(|(_, about)| *about)
}

const PARAMETERS: [(&str, &str); 42] = [
    (
        "allowWatchBookmarks",
        "Whether a watch may send bookmarks: events that have only a resourceVersion.",
    ),
    ("command", "Command and arguments, one per word; it is not run in a shell."),
    ("container", "Name of the container; needed if the pod has more than one."),
    ("continue", "Token from the previous page of a list, to read the next one."),
    (
        "dryRun",
        "`All` for a dry run: the object is returned as it would be stored, and not stored.",
    ),
    ("fieldManager", "Name of the manager that owns the fields set by the request."),
    ("fieldSelector", "Selects objects by their fields: `metadata.name=a`."),
    ("fieldValidation", "Treatment of unknown and duplicate fields: `Ignore`, `Warn` or `Strict`."),
    ("follow", "Whether the log is followed: new lines are sent as they are written."),
    ("force", "Whether an apply takes over fields that other managers own."),
    ("gracePeriodSeconds", "Seconds until the object is removed; 0 removes it at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "Whether an object that cannot be read is deleted without finalizers and preconditions.",
    ),
    ("insecureSkipTLSVerifyBackend", "Whether the kubelet's certificate is not verified."),
    ("labelSelector", "Selects objects by their labels: `app=web,tier!=db`."),
    ("limit", "Maximum number of objects in a page of a list."),
    ("limitBytes", "Maximum number of bytes of the log."),
    ("logpath", "Path of the log."),
    ("name", "Name of the object."),
    ("namespace", "Namespace of the object."),
    ("orphanDependents", "Whether dependents are orphaned. Deprecated: use `propagationPolicy`."),
    ("path", "Path of the proxied request."),
    ("ports", "Ports to forward."),
    ("pretty", "Whether JSON is indented."),
    ("previous", "Whether to return the log of the container's previous, terminated instance."),
    (
        "propagationPolicy",
        "Treatment of dependents: `Orphan`, `Background` (deleted afterwards) or `Foreground` (deleted first).",
    ),
    (
        "resourceVersion",
        "Minimum version of the response, or start of a watch. `0` is any version.",
    ),
    ("resourceVersionMatch", "Meaning of `resourceVersion`: `Exact` or `NotOlderThan`."),
    (
        "sendInitialEvents",
        "Whether a watch starts with events of the present objects, followed by a bookmark.",
    ),
    ("shardSelector", "Selects a shard of the objects, by a hash range."),
    ("sinceSeconds", "Age in seconds of the oldest returned log lines."),
    ("sinceTime", "Time of the oldest returned log lines."),
    ("stderr", "Whether standard error is redirected."),
    ("stdin", "Whether standard input is redirected."),
    ("stdout", "Whether standard output is redirected."),
    ("stream", "Streams of the log: `All`, `Stdout` or `Stderr`."),
    ("tailLines", "Number of lines from the end of the log."),
    ("timeoutSeconds", "Timeout of a list or watch in seconds."),
    ("timestamps", "Whether each line starts with its timestamp."),
    ("tty", "Whether the container gets a terminal."),
    ("uid", "Precondition: UID of the object."),
    ("verbose", "Whether the response lists every check."),
    ("watch", "Whether to watch: changes are sent as events, instead of a list."),
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
    ("Info", "Info is the version and build of a server."),
    ("Patch", "Patch is a change of an object, in the form that its media type names."),
    ("WatchEvent", "WatchEvent is one event of a watched object."),
];

/// Description of a field of a list or watch event.
pub(super) fn of_field(field: &str) -> Option<&'static str> {
    FIELDS.iter().find(|(name, _)| *name == field).map(|(_, about)| *about)
}

const FIELDS: [(&str, &str); 6] = [
    ("apiVersion", "Group and version of the object."),
    ("items", "Objects of the list."),
    ("kind", "Kind of the object."),
    ("metadata", "Metadata of the list: its resourceVersion, and the token of the next page."),
    ("object", "The object after the change; for `DELETED`, before it."),
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
