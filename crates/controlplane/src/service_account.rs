//! Kind ServiceAccount: strategy.

use kevel_api::value::{Map, Value};

use crate::columns::Columns;
use crate::kind::{Kind, MetadataChecks, Subresource};
use crate::rules::Rules;

/// `serviceaccounts`
pub static KIND: Kind = Kind {
    returns_deleted_object: true,
    subresources: &[("token", Subresource::NamedCreater)],
    columns: Columns::NAME_AND_AGE,
    rules: Rules {
        prepare_for_create: |account, _| clean_secrets(account),
        prepare_for_update: |account, _, _| clean_secrets(account),
        warnings,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("", "serviceaccounts")
};

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// Keeps only the names in `secrets`.
fn clean_secrets(account: &mut Value) {
    let secrets = account.at_mut(&["secrets"]).and_then(Value::as_list_mut);
    for secret in secrets.into_iter().flatten() {
        let name = secret.at(&["name"]).cloned();
        *secret = name.into_iter().map(|name| ("name", name)).collect::<Map>().into();
    }
}

fn warnings(account: &Value, old: Option<&Value>) -> Vec<String> {
    let says = |account: &Value| {
        account.at(&["metadata", "annotations", ENFORCE_MOUNTABLE_SECRETS]).is_some()
    };
    if !says(account) || old.is_some_and(says) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate \
         namespaces to isolate access to mounted secrets"
    )]
}
