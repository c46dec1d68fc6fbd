//! Elements of a list by what they may be equal to, so that lists are compared as sets without
//! looking at each pair.

use std::collections::HashMap;

use super::{Text, Value};
use crate::error::Error;

/// How many pairs of elements are compared for one list: those that nothing tells apart but looking
/// at them. To compare so many would cost more than any expression may.
const MAX_COMPARED: usize = 10_000_000;

/// Equal values have equal buckets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bucket<'a> {
    String(Text<'a>),
    /// A number, whatever its type.
    Number(u64),
    /// What tells an element of a list from the others, as JSON.
    Key(Vec<u8>),
    /// Anything else, by its size.
    Other(u64),
}

impl<'a> Bucket<'a> {
    pub fn of(value: &Value<'a>) -> Self {
        let number = |value: f64| Bucket::Number((value + 0.0).to_bits());
        match value {
            Value::String(text) => Bucket::String(text.clone()),
            Value::Int(value) => number(*value as f64),
            Value::Uint(value) => number(*value as f64),
            Value::Double(value) => number(*value),
            Value::Bool(value) => Bucket::Other(u64::from(*value)),
            other => Bucket::Other(other.size().unwrap_or_default()),
        }
    }
}

/// Elements, and where each stands.
#[derive(Debug, Default)]
pub(super) struct Index<'a> {
    buckets: HashMap<Bucket<'a>, Vec<usize>>,
    compared: usize,
}

impl<'a> Index<'a> {
    pub fn add(&mut self, bucket: Bucket<'a>, at: usize) {
        self.buckets.entry(bucket).or_default().push(at);
    }

    /// The first element in a bucket for which `same` holds.
    pub fn find(
        &mut self,
        bucket: &Bucket<'a>,
        same: impl Fn(usize) -> Result<bool, Error>,
    ) -> Result<Option<usize>, Error> {
        for &at in self.buckets.get(bucket).into_iter().flatten() {
            self.compared += 1;
            if self.compared > MAX_COMPARED {
                return Err(Error::cost_limit());
            }
            if same(at)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
