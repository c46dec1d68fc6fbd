//! `internal.apiserver.k8s.io`

use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Few, UNSET, cells};

pub(super) const KINDS: &[Kind] = &[Kind {
    plural: "storageversions",
    definitions: &[
        Column::NAME,
        Column::text("CommonEncodingVersion", "The version that all servers store."),
        Column::text("StorageVersions", "The versions that the first few servers store."),
        Column::AGE,
    ],
    cells: |o| {
        let servers = o.each("status.storageVersions").map(|server| {
            format!("{}={}", server.text("apiServerID"), server.text("encodingVersion"))
        });
        let common = o.set_or("status.commonEncodingVersion", UNSET);
        cells![o.name(), common, Few::of(servers).or(UNSET), o.age()]
    },
    ..Kind::PLAIN
}];
