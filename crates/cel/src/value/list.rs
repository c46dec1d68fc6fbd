//! Lists: built by expressions, joined of two, or part of an object.

use std::sync::Arc;

use kevel_api::schema::Schema;
use kevel_api::value::Value as Tree;

use super::Value;
use super::index::Bucket;
use super::index::Index;
use crate::declared::{DeclKind, DeclType, ListKind};
use crate::error::Error;

/// A list.
#[derive(Clone, Debug)]
pub struct List<'a>(ListValue<'a>);

#[derive(Clone, Debug)]
enum ListValue<'a> {
    Made(Arc<Vec<Value<'a>>>),
    Joined(Arc<Joined<'a>>),
    Tree(&'a [Tree], Option<&'a DeclType>),
    /// Elements as clients see them.
    Typed(&'a [Tree], Schema<'a>),
}

#[derive(Debug)]
struct Joined<'a> {
    left: List<'a>,
    right: List<'a>,
    len: usize,
}

/// Limit on the length of joined lists. Joining takes constant time, so that repeated doubling would otherwise make
/// lists that take forever to read.
const MAX_JOINED: usize = 1 << 24;

impl<'a> From<Vec<Value<'a>>> for List<'a> {
    fn from(elements: Vec<Value<'a>>) -> Self {
        List(ListValue::Made(Arc::new(elements)))
    }
}

impl<'a> List<'a> {
    /// List in an object; `declared` is the list's type.
    pub(super) fn from_tree(elements: &'a [Tree], declared: Option<&'a DeclType>) -> Self {
        List(ListValue::Tree(elements, declared))
    }

    pub(super) fn typed(elements: &'a [Tree], item: Schema<'a>) -> Self {
        List(ListValue::Typed(elements, item))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.0 {
            ListValue::Made(elements) => elements.len(),
            ListValue::Joined(joined) => joined.len,
            ListValue::Tree(elements, _) | ListValue::Typed(elements, _) => elements.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element by index; an error if the object does not conform to its schema.
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        match &self.0 {
            ListValue::Made(elements) => elements.get(index).cloned().map(Ok),
            ListValue::Joined(joined) => match index.checked_sub(joined.left.len()) {
                None => joined.left.get(index),
                Some(index) => joined.right.get(index),
            },
            ListValue::Typed(elements, item) => {
                Some(Ok(Value::from_typed(elements.get(index)?, *item)))
            }
            ListValue::Tree(elements, declared) => {
                let element = elements.get(index)?;
                Some(match declared.map(|declared| &declared.kind) {
                    Some(DeclKind::List { element: ty, .. }) => Value::from_declared(element, ty),
                    _ => Ok(Value::from_tree(element)),
                })
            }
        }
    }

    /// Elements; see [`List::get`].
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Error>> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Concatenation. Lists of objects that are declared as sets or maps stay such: an element that is present already
    /// is not added, or replaces the one with equal keys.
    pub(crate) fn join(self, other: &List<'a>) -> Result<List<'a>, Error> {
        match self.declared_kind() {
            Some(ListKind::Set) => {
                return self.union(other, |element| Ok(Bucket::of(element)), |a, b| a.equals(b));
            }
            Some(ListKind::Map(keys)) => {
                let same = |a: &Value<'a>, b: &Value<'a>| Ok(a.map_key(keys)? == b.map_key(keys)?);
                return self.union(other, |element| element.bucket_by(keys), same);
            }
            _ => {}
        }
        if self.is_empty() {
            return Ok(other.clone());
        }
        if other.is_empty() {
            return Ok(self);
        }
        let len = self.len() + other.len();
        if len > MAX_JOINED {
            return Err(Error::cost_limit());
        }
        let left = match self.0 {
            ListValue::Made(mut elements) => match Arc::get_mut(&mut elements) {
                // The list has no other reference: a comprehension accumulates its result in it.
                Some(own) => {
                    for element in other.iter() {
                        own.push(element?);
                    }
                    return Ok(List(ListValue::Made(elements)));
                }
                None => List(ListValue::Made(elements)),
            },
            form => List(form),
        };
        Ok(List(ListValue::Joined(Arc::new(Joined { left, right: other.clone(), len }))))
    }

    pub(super) fn declared_kind(&self) -> Option<&'a ListKind> {
        match &self.0 {
            ListValue::Tree(_, Some(DeclType { kind: DeclKind::List { list, .. }, .. })) => {
                Some(list)
            }
            _ => None,
        }
    }

    fn union(
        &self,
        other: &List<'a>,
        bucket: impl Fn(&Value<'a>) -> Result<Bucket<'a>, Error>,
        same: impl Fn(&Value<'a>, &Value<'a>) -> Result<bool, Error>,
    ) -> Result<List<'a>, Error> {
        let mut elements = self.iter().collect::<Result<Vec<_>, _>>()?;
        let mut index = Index::default();
        for (at, element) in elements.iter().enumerate() {
            index.add(bucket(element)?, at);
        }
        for element in other.iter() {
            let element = element?;
            let bucket = bucket(&element)?;
            let found = index.find(&bucket, |at| same(&elements[at], &element))?;
            match found.and_then(|at| elements.get_mut(at)) {
                Some(known) => *known = element,
                None => {
                    index.add(bucket, elements.len());
                    elements.push(element);
                }
            }
        }
        Ok(elements.into())
    }
}
