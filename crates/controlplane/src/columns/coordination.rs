//! `coordination.k8s.io`

use kevel_server::columns::Column;

use super::Kind;
use super::cell::cells;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "leases",
        definitions: &[
            Column::NAME,
            Column::text("Holder", "coordination.v1.LeaseSpec#holderIdentity"),
            Column::AGE,
        ],
        cells: |o| cells![o.name(), o.text("spec.holderIdentity"), o.age()],
        ..Kind::PLAIN
    },
    Kind {
        plural: "leasecandidates",
        definitions: &[
            Column::NAME,
            Column::text("LeaseName", "coordination.v1beta1.LeaseCandidateSpec#leaseName"),
            Column::text("BinaryVersion", "The candidate's version."),
            Column::text("EmulationVersion", "The version that it behaves as."),
            Column::AGE,
        ],
        cells: |o| {
            let of = |field: &str| o.at("spec").text(field);
            let versions = (of("binaryVersion"), of("emulationVersion"));
            cells![o.name(), of("leaseName"), versions.0, versions.1, o.age()]
        },
        ..Kind::PLAIN
    },
];
