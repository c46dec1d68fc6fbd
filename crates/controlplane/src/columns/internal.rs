//! `internal.apiserver.k8s.io`

use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Few, UNSET, cells};

pub(super) const KINDS: &[Kind] = &[Kind {
    plural: "storageversions",
    definitions: &[
        Column::NAME,
        Column::text(
            "CommonEncodingVersion",
            "apiserverinternal.v1alpha1.StorageVersionStatus#commonEncodingVersion",
        ),
        Column::text(
            "StorageVersions",
            "apiserverinternal.v1alpha1.StorageVersionStatus#storageVersions",
        ),
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
