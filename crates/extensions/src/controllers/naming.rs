//! Accepted names of definitions, and the condition NamesAccepted: no two definitions of a group share a name
//! (upstream: NamingConditionController).

use std::collections::BTreeSet;

use kevel_api::field_error::aggregate;
use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};

use super::Context;
use crate::definition::{Condition, Definition, Names, condition, set_condition};

pub(super) async fn reconcile(context: &Context, name: &str) -> Result<(), String> {
    let Some(mut value) = context.find(name) else {
        // The deleted definition's names are free now.
        requeue_others(context, name);
        return Ok(());
    };
    let definition = Definition(&value);
    if definition.names() == definition.accepted_names() {
        return Ok(());
    }
    let (names, accepted) = decide(definition, &GroupNames::by_group(context, definition.group()));
    let known = definition.condition(condition::NAMES_ACCEPTED);
    let same = value.at(&["status", "acceptedNames"]).and_then(Value::as_map) == Some(&names);
    if same && known.as_ref() == Some(&accepted) {
        return Ok(());
    }
    let established = established(definition, &accepted);
    let status = value.make_map(&["status"]);
    status.insert("acceptedNames", names.into());
    set_condition(&mut value, &accepted, context.now());
    if let Some(established) = established {
        set_condition(&mut value, &established, context.now());
    }
    if let Some(written) = context.update_status(&value).await? {
        // Before the watch event: the next definition must not get the same names.
        context.known.note(Definition(&written));
        requeue_others(context, name);
    }
    Ok(())
}

/// Queues the definitions of the group that wait for names, because this one may have released some.
fn requeue_others(context: &Context, name: &str) {
    let group = name.split_once('.').map_or("", |(_, group)| group);
    context.known.waiting(group, name).iter().for_each(|other| context.naming.add(other));
}

/// Names that are taken in a group.
#[derive(Debug, Default)]
struct GroupNames {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl GroupNames {
    fn by_group(context: &Context, group: &str) -> Self {
        let mut taken = GroupNames::default();
        context.known.for_each_accepted(group, |names| taken.add(names));
        taken
    }

    fn add(&mut self, names: Names<'_>) {
        let resources = [names.plural(), names.singular()].into_iter().chain(names.short_names());
        self.resources.extend(resources.map(str::to_owned));
        self.kinds.extend([names.kind(), names.list_kind()].map(str::to_owned));
    }
}

/// Accepted names of a definition, and its condition NamesAccepted.
fn decide<'c>(definition: Definition<'_>, taken: &GroupNames) -> (Map, Condition<'c>) {
    let (wanted, has) = (definition.names(), definition.accepted_names());
    let none = Map::new();
    let accepted = definition.0.at(&["status", "acceptedNames"]).and_then(Value::as_map);
    let mut names = accepted.unwrap_or(&none).clone();
    let mut put = |field: &'static str| {
        match definition.0.at(&["spec", "names", field]).filter(|value| !value.is_empty()) {
            Some(value) => names.insert(field, value.clone()),
            None => names.remove(field),
        };
    };
    let mut conflict = None;
    let free = |wanted: &str, has: &str, taken: &BTreeSet<String>| {
        let refused = wanted != has && taken.contains(wanted);
        refused.then(|| format!("{} is already in use", quote(wanted)))
    };
    for (field, reason, taken) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let why = match field {
            "shortNames" => {
                let own = has.short_names();
                let new = wanted.short_names().into_iter().filter(|name| !own.contains(name));
                aggregate(new.filter_map(|name| free(name, "", taken)))
            }
            field => free(wanted.get(field), has.get(field), taken),
        };
        match why {
            Some(why) => conflict = Some((reason, why)),
            None => put(field),
        }
    }
    put("categories");
    let condition = match conflict {
        None => {
            Condition::new(condition::NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found")
        }
        Some((reason, why)) => Condition {
            message: why.into(),
            ..Condition::new(condition::NAMES_ACCEPTED, "False", reason, "")
        },
    };
    (names, condition)
}

/// Condition Established that follows from accepted names: False with the reason Installing until the definition is
/// served; once True, it stays.
fn established<'c>(definition: Definition<'_>, accepted: &Condition<'_>) -> Option<Condition<'c>> {
    const INSTALLING: Condition<'static> = Condition::new(
        condition::ESTABLISHED,
        "False",
        "Installing",
        "the initial names have been accepted",
    );
    const NOT_ACCEPTED: Condition<'static> = Condition::new(
        condition::ESTABLISHED,
        "False",
        "NotAccepted",
        "not all names are accepted",
    );
    match definition.condition(condition::ESTABLISHED) {
        Some(known) if known.status == "True" => None,
        _ if accepted.status == "True" => Some(INSTALLING),
        Some(_) => None,
        None => Some(NOT_ACCEPTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json;

    fn definition(names: &str) -> Value {
        let text = format!(r#"{{"spec": {{"group": "g", "names": {names}}}}}"#);
        json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value
    }

    #[test]
    fn names_are_given_to_who_comes_first() {
        let taken = GroupNames {
            resources: ["widgets", "widget", "wd"].map(str::to_owned).into(),
            kinds: ["Widget", "WidgetList"].map(str::to_owned).into(),
        };
        for (names, reason, message, expected) in [
            (
                r#"{"plural": "cogs", "singular": "cog", "kind": "Cog", "listKind": "CogList"}"#,
                "NoConflicts",
                "no conflicts found",
                r#"{"kind":"Cog","listKind":"CogList","plural":"cogs","singular":"cog"}"#,
            ),
            (
                r#"{"plural": "cogs", "singular": "widget", "kind": "Cog", "listKind": "CogList"}"#,
                "SingularConflict",
                r#""widget" is already in use"#,
                r#"{"kind":"Cog","listKind":"CogList","plural":"cogs"}"#,
            ),
            (
                r#"{"plural": "cogs", "singular": "cog", "shortNames": ["c", "wd"], "kind": "Widget",
                    "listKind": "CogList"}"#,
                "KindConflict",
                r#""Widget" is already in use"#,
                r#"{"listKind":"CogList","plural":"cogs","singular":"cog"}"#,
            ),
        ] {
            let wanted = definition(names);
            let (given, condition) = decide(Definition(&wanted), &taken);
            let mut text = Vec::new();
            json::encode_any(&given.into(), &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), expected, "{names}");
            assert_eq!((condition.reason, &*condition.message), (reason, message), "{names}");
        }
    }
    /// A definition is installed once its names are accepted, and stays established.
    #[test]
    fn a_definition_is_established_by_its_names() {
        let installing = Some("False Installing");
        for (known, accepted, expected) in [
            (None, "True", installing),
            (None, "False", Some("False NotAccepted")),
            (Some(r#""status":"False","reason":"NotAccepted""#), "True", installing),
            (Some(r#""status":"False","reason":"NotAccepted""#), "False", None),
            (Some(r#""status":"False","reason":"Installing""#), "False", None),
            (Some(r#""status":"True","reason":"InitialNamesAccepted""#), "True", None),
            (Some(r#""status":"True","reason":"InitialNamesAccepted""#), "False", None),
        ] {
            let condition =
                known.map_or(String::new(), |known| format!(r#"{{"type":"Established",{known}}}"#));
            let text = format!(r#"{{"status": {{"conditions": [{condition}]}}}}"#);
            let definition =
                json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value;
            let accepted_names = Condition::new(condition::NAMES_ACCEPTED, accepted, "", "");
            let found = established(Definition(&definition), &accepted_names);
            let found = found.map(|found| format!("{} {}", found.status, found.reason));
            assert_eq!(found.as_deref(), expected, "{known:?} {accepted}");
        }
    }
}
