//! Columns of `coordination.k8s.io`.

use kevel_registry::columns::Column;

use super::{Columns, columns};

pub(crate) const LEASE: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Holder", "coordination.v1.LeaseSpec#holderIdentity") =>
        o.text("spec.holderIdentity"),
    Column::AGE => o.age(),
);

pub(crate) const LEASE_CANDIDATE: Columns = columns!(
    |o| where {
        let of = |field: &str| o.at("spec").text(field);
        let versions = (of("binaryVersion"), of("emulationVersion"));
    }
    Column::NAME => o.name(),
    Column::text("LeaseName", "coordination.v1beta1.LeaseCandidateSpec#leaseName") =>
        of("leaseName"),
    Column::text("BinaryVersion", "The candidate's version.") => versions.0,
    Column::text("EmulationVersion", "The version that it behaves as.") => versions.1,
    Column::AGE => o.age(),
);
