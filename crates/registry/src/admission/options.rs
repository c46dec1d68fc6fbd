//! Operation options for admission plug-ins.

use kevel_api::value::{Map, Value};

use crate::deletion::DeleteOptions;

/// Options of an operation. The object is built only for plug-ins that read it.
#[derive(Clone, Copy, Debug, Default)]
pub enum OperationOptions<'a> {
    /// Connect requests have none.
    #[default]
    None,
    /// Query of a request that creates, whatever its verb.
    Create(&'a [(String, String)]),
    /// Query of an update or patch.
    Update(&'a [(String, String)]),
    /// Options of a deletion.
    Delete(&'a DeleteOptions),
}

impl OperationOptions<'_> {
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub fn object(&self) -> Option<Value> {
        let (kind, mut options) = match self {
            OperationOptions::None => return None,
            OperationOptions::Create(query) => ("CreateOptions", of_query(query)),
            OperationOptions::Update(query) => ("UpdateOptions", of_query(query)),
            OperationOptions::Delete(options) => ("DeleteOptions", of_deletion(options)),
        };
        options.insert("kind", kind.into());
        options.insert("apiVersion", "meta.k8s.io/v1".into());
        Some(options.into())
    }
}

fn of_query(query: &[(String, String)]) -> Map {
    let mut options = Map::new();
    for field in ["fieldManager", "fieldValidation"] {
        if let Some(text) = crate::query::first(query, field).filter(|text| !text.is_empty()) {
            options.insert(field, text.into());
        }
    }
    let dry_run = query.iter().filter(|(key, _)| key == "dryRun");
    let dry_run: Vec<Value> = dry_run.map(|(_, value)| value.as_str().into()).collect();
    if !dry_run.is_empty() {
        options.insert("dryRun", Value::List(dry_run.into_iter().collect()));
    }
    options
}

fn of_deletion(said: &DeleteOptions) -> Map {
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let preconditions =
        [("uid", text(&said.uid)), ("resourceVersion", text(&said.resource_version))];
    let preconditions =
        preconditions.into_iter().filter_map(|(field, value)| Some((field, value?)));
    let preconditions = Map::from_iter(preconditions);
    let dry_run = || Value::List([Value::from("All")].into_iter().collect());
    let fields = [
        ("gracePeriodSeconds", said.grace_period.map(Value::Int)),
        ("preconditions", (!preconditions.is_empty()).then(|| preconditions.into())),
        ("orphanDependents", said.orphan_dependents.map(Value::Bool)),
        ("propagationPolicy", text(&said.propagation)),
        ("dryRun", said.is_dry_run().then(dry_run)),
    ];
    Map::from_iter(fields.into_iter().filter_map(|(field, value)| Some((field, value?))))
}

#[cfg(test)]
mod tests {
    use kevel_codec::json;

    use super::*;

    fn text(options: OperationOptions<'_>) -> String {
        let mut text = Vec::new();
        if let Some(object) = options.object() {
            json::encode_any(&object, &mut text);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn options_are_what_was_said() {
        let query = |query: &str| crate::query::pairs(query);
        assert_eq!(text(OperationOptions::None), "");
        assert_eq!(
            text(OperationOptions::Create(&query(
                "fieldManager=me&fieldValidation=Strict&pretty=1"
            ))),
            r#"{"apiVersion":"meta.k8s.io/v1","fieldManager":"me","fieldValidation":"Strict","kind":"CreateOptions"}"#
        );
        assert_eq!(
            text(OperationOptions::Update(&query("dryRun=All&dryRun=All"))),
            r#"{"apiVersion":"meta.k8s.io/v1","dryRun":["All","All"],"kind":"UpdateOptions"}"#
        );
        let options = DeleteOptions {
            grace_period: Some(0),
            uid: Some("u".into()),
            propagation: Some("Orphan".into()),
            dry_run: vec!["All".to_owned()],
            ..DeleteOptions::default()
        };
        assert_eq!(
            text(OperationOptions::Delete(&options)),
            r#"{"apiVersion":"meta.k8s.io/v1","dryRun":["All"],"gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Orphan"}"#
        );
    }
}
