//! Table columns of the built-in kinds, one file per group; a [`Kind`](crate::kind::Kind) names its own.
//!
//! Cells are read from objects in their storage version.

pub(crate) mod admissionregistration;
pub(crate) mod apiregistration;
pub(crate) mod apps;
pub(crate) mod autoscaling;
pub(crate) mod batch;
mod cell;
pub(crate) mod certificates;
pub(crate) mod coordination;
pub(crate) mod core;
pub(crate) mod discovery;
pub(crate) mod event;
pub(crate) mod flowcontrol;
pub(crate) mod internal;
pub(crate) mod networking;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod resource;
pub(crate) mod scheduling;
pub(crate) mod service;
pub(crate) mod storage;
pub(crate) mod storagemigration;
#[cfg(test)]
mod tests;
pub(crate) mod volume;

use kevel_api::time::MicroTime;
use kevel_api::value::Value;
use kevel_registry::columns::{Column, Columns as _, Completed, NameAndCreation};

use self::cell::Shown;

/// Columns of a kind, made by [`columns!`], which keeps each column's title beside its cell.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    pub definitions: &'static [Column],
    pub cells: fn(&Shown<'_>) -> Vec<Value>,
    /// Reason and message of the row condition Completed; `None` if the object has not run to its end.
    pub completed: fn(&Value) -> Option<Completed>,
    /// Sort key of the rows of a list; `None` sorts by name.
    pub rank: Option<fn(&Value) -> i64>,
}

/// Makes columns from left to right, `title => cell`. Values that several cells need are computed once, after
/// `where`. A cell after `+` has no column, as in the reference's IPAddress.
macro_rules! columns {
    (
        |$o:ident| $(where { $($shared:tt)* })?
        $($column:expr => $cell:expr),+ $(, + $more:expr)* $(,)?
    ) => {
        $crate::columns::Columns {
            definitions: const { &[$($column),+] },
            cells: |$o| {
                $($($shared)*)?
                vec![
                    $($crate::columns::cell::Cell::cell($cell),)+
                    $($crate::columns::cell::Cell::cell($more),)*
                ]
            },
            completed: |_| None,
            rank: None,
        }
    };
}
use columns;

impl Columns {
    /// Columns of kinds without a printer in the reference.
    pub const NAME_AND_CREATION: Columns = Columns {
        definitions: NameAndCreation::DEFINITIONS,
        cells: |o| NameAndCreation.cells(o.object(), o.now()),
        completed: |_| None,
        rank: None,
    };
    /// Columns Name and Age.
    pub const NAME_AND_AGE: Columns =
        columns!(|o| Column::NAME => o.name(), Column::AGE => o.age());
}

impl kevel_registry::columns::Columns for Columns {
    fn definitions(&self) -> &[Column] {
        self.definitions
    }

    fn cells(&self, object: &Value, now: MicroTime) -> Vec<Value> {
        (self.cells)(&Shown::new(object, now))
    }

    fn is_default(&self) -> bool {
        self.definitions == NameAndCreation::DEFINITIONS
    }

    fn completed(&self, object: &Value) -> Option<Completed> {
        (self.completed)(object)
    }

    fn rank(&self) -> Option<fn(&Value) -> i64> {
        self.rank
    }
}
