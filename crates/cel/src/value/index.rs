//! Index of list elements by hash, so that lists are compared as sets without comparing each pair.

use std::collections::HashMap;

use super::{Text, Value};
use crate::error::Error;

/// Limit on compared pairs of elements in one bucket. Comparing more would cost more than any expression may.
const MAX_COMPARED: usize = 10_000_000;

/// Hash key of a value: equal values have equal buckets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bucket<'a> {
    String(Text<'a>),
    /// A number of any type.
    Number(u64),
    /// Key fields of a list's element, as JSON.
    Key(Vec<u8>),
    /// Any other value, by its size.
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

/// Positions of elements, by bucket.
#[derive(Debug, Default)]
pub(super) struct Index<'a> {
    buckets: HashMap<Bucket<'a>, Vec<usize>>,
    compared: usize,
}

impl<'a> Index<'a> {
    pub fn add(&mut self, bucket: Bucket<'a>, at: usize) {
        self.buckets.entry(bucket).or_default().push(at);
    }

    /// First element in a bucket for which `same` holds.
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
