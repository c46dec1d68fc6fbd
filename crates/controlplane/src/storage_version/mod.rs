//! Kinds StorageVersion and StorageVersionMigration.

mod manager;
pub(crate) mod migration;

use std::collections::{HashMap, HashSet};

use kevel_api::name;
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

pub use self::manager::{StorageVersionManager, set_common_encoding_version};

/// `storageversions`
pub static KIND: Kind = Kind {
    validate_name: |name, _| group_and_resource(name),
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    allow_unconditional_update: false,
    columns: columns::internal::STORAGE_VERSION,
    rules: Rules {
        validate_status_update: |version, _| status(version.at("status")),
        ..Rules::NONE
    },
    ..Kind::new("internal.apiserver.k8s.io", "storageversions")
};

fn group_and_resource(name: &str) -> Vec<String> {
    let Some((group, resource)) = name.rsplit_once('.') else {
        return vec!["name must be in the form of <group>.<resource>".to_owned()];
    };
    let group = name::is_dns1123_subdomain(group).into_iter();
    let resource = name::is_dns1035_label(resource).into_iter();
    let group = group.map(|problem| format!("the group segment {problem}"));
    group.chain(resource.map(|problem| format!("the resource segment {problem}"))).collect()
}

fn status(status: Field) {
    let versions = status.at("storageVersions");
    let mut servers = HashSet::new();
    for version in versions.items() {
        let server = version.at("apiServerID");
        server.unique(&mut servers, server.str());
        server_storage_version(version);
    }
    common_version(status, versions);
    conditions(status);
}

/// Checks the entry of one server: encoding, decodable and served versions.
fn server_storage_version(version: Field) {
    version.at("apiServerID").object_name(name::name_is_dns_subdomain);
    let (encoding, decodable) = (version.at("encodingVersion"), version.at("decodableVersions"));
    api_version(encoding);
    decodable.items().for_each(api_version);
    let known: Vec<&str> = decodable.strings().collect();
    let all: HashSet<&str> = known.iter().copied().collect();
    if !all.contains(encoding.str()) {
        let why = format!("decodableVersions must include encodingVersion {}", encoding.str());
        decodable.invalid(why);
    }
    for served in version.at("servedVersions").items() {
        api_version(served);
        if !all.contains(served.str()) {
            served.invalid(format!(
                "individual served version : {} must be included in decodableVersions : [{}]",
                served.str(),
                known.join(" "),
            ));
        }
    }
}

/// Checks `commonEncodingVersion`: the version that all servers encode, or absent if they differ.
fn common_version(status: Field, versions: Field) {
    let said = status.at("commonEncodingVersion");
    let mut all = versions.list().iter().map(|version| version.str_at(&["encodingVersion"]));
    let first = all.next();
    let common = first.filter(|first| all.all(|version| version == *first));
    match (common, said.is_set()) {
        (None, true) => said.invalid(
            "should be nil if servers do not agree on the same encoding version, or if there is \
             no server reporting the supported versions yet",
        ),
        (Some(common), false) => {
            said.invalid(format!("the common encoding version is {common}"));
        }
        (Some(common), true) if said.str() != common => {
            said.invalid(format!("the actual common encoding version is {common}"));
        }
        _ => {}
    }
}

/// Checks conditions. The reference reports errors as if the status were the list.
fn conditions(status: Field) {
    let mut seen = HashMap::new();
    for (index, condition) in status.at("conditions").items().enumerate() {
        let path = status.path();
        let condition = condition.named(path.index(index));
        let ty = condition.at("type");
        if let Some(first) = seen.insert(ty.str(), index) {
            ty.invalid(format!(
                "the type of the condition is not unique, it also appears in conditions[{first}]"
            ));
        }
        ty.label_name();
        condition.at("status").label_name();
        condition.at("reason").must("");
        condition.at("message").must("");
    }
}

/// Checks a version with an optional group.
fn api_version(field: Field) {
    let parts: Vec<&str> = field.str().split('/').collect();
    let part = |called: &str, text: &str, problems: fn(&str) -> Vec<String>| match text {
        "" => vec![format!("{called} part: must be non-empty")],
        text => problems(text).into_iter().map(|why| format!("{called} part: {why}")).collect(),
    };
    let problems = match parts[..] {
        [version] => part("version", version, name::is_dns1035_label),
        [group, version] => {
            let mut problems = part("group", group, name::is_dns1123_subdomain);
            problems.extend(part("version", version, name::is_dns1035_label));
            problems
        }
        _ => vec![
            "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric \
             characters or '-', start with an alphabetic character, and end with an alphanumeric \
             character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyVersion')"
                .to_owned(),
        ],
    };
    if !problems.is_empty() {
        field.invalid(problems.join(","));
    }
}
