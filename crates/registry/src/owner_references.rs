//! Removal of duplicate owner references.

use std::collections::HashSet;

use kevel_api::value::Value;
use kevel_codec::json;

/// Stage at which owner references are deduplicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// In the body sent by the client.
    ByClient,
    /// After admission plug-ins or a patch.
    AfterAdmission,
}

/// Drops owner references equal to an earlier one and returns their UIDs.
pub(crate) fn dedup(object: &mut Value) -> Vec<String> {
    let owners = object.at_mut(&["metadata", "ownerReferences"]).and_then(Value::as_list_mut);
    let Some(owners) = owners.filter(|owners| owners.len() > 1) else { return Vec::new() };
    let mut uids = HashSet::new();
    if owners.iter().all(|owner| uids.insert(owner.str_at(&["uid"]))) {
        return Vec::new();
    }
    let (mut seen, mut duplicates) = (HashSet::new(), Vec::new());
    owners.retain(|owner| {
        kevel_compute::charge(1);
        let mut text = Vec::new();
        json::encode_any(owner, &mut text);
        let new = seen.insert(text);
        if !new {
            duplicates.push(owner.str_at(&["uid"]).to_owned());
        }
        new
    });
    duplicates
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::Unknown;
    use kevel_codec::yaml;

    use super::*;

    #[test]
    fn owner_references_equal_in_all_fields_are_dropped() {
        let read = |owners: &str| {
            let text = format!("{{metadata: {{ownerReferences: {owners}}}}}");
            yaml::decode_any(text.as_bytes(), Unknown::Report).unwrap().value
        };
        for (owners, kept, dropped) in [
            ("[]", "[]", ""),
            ("[{uid: a, name: x}]", "[{uid: a, name: x}]", ""),
            ("[{uid: a, name: x}, {name: x, uid: a}]", "[{uid: a, name: x}]", "a"),
            (
                "[{uid: a, name: x}, {uid: a, name: y}]",
                "[{uid: a, name: x}, {uid: a, name: y}]",
                "",
            ),
            (
                "[{uid: a}, {uid: a, controller: false}, {uid: b}, {uid: a, controller: false}, {uid: a}, {uid: b}]",
                "[{uid: a}, {uid: a, controller: false}, {uid: b}]",
                "a,a,b",
            ),
        ] {
            let mut object = read(owners);
            assert_eq!(dedup(&mut object).join(","), dropped, "{owners}");
            assert_eq!(object, read(kept), "{owners}");
        }
        assert!(dedup(&mut Value::Null).is_empty());
    }
}
