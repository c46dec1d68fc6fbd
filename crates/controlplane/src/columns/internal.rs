//! Columns of `internal.apiserver.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::{Few, UNSET};
use super::{Columns, columns};

pub(crate) const STORAGE_VERSION: Columns = columns!(
    |o| where {
        let servers = o.each("status.storageVersions").map(|server| {
            format!("{}={}", server.text("apiServerID"), server.text("encodingVersion"))
        });
        let common = o.set_or("status.commonEncodingVersion", UNSET);
    }
    Column::NAME => o.name(),
    Column::text(
        "CommonEncodingVersion",
        "apiserverinternal.v1alpha1.StorageVersionStatus#commonEncodingVersion",
    ) => common,
    Column::text(
        "StorageVersions",
        "apiserverinternal.v1alpha1.StorageVersionStatus#storageVersions",
    ) => Few::of(servers).or(UNSET),
    Column::AGE => o.age(),
);
