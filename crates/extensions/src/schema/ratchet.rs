//! Ratcheting: on an update, unchanged values are not validated again (upstream: CorrelatedObject).

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use kevel_api::value::Value;
use kevel_clock::Stopwatch;
use kevel_component::metrics::Histogram;

use super::node::{ListType, Node};

/// Seconds of comparisons of old and new values, in the whole process.
pub static RATCHETING_SECONDS: LazyLock<Arc<Histogram>> = LazyLock::new(|| {
    Arc::new(Histogram::new(&[
        0.00001, 0.00004, 0.00016, 0.00064, 0.00256, 0.01024, 0.04096, 0.16384, 0.65536, 2.62144,
    ]))
});

/// A value and the old value that it replaces.
#[derive(Debug)]
pub(crate) struct Correlated<'a> {
    new: &'a Value,
    old: &'a Value,
    node: &'a Node,
    unchanged: OnceCell<bool>,
}

impl<'a> Correlated<'a> {
    pub fn new(new: &'a Value, old: &'a Value, node: &'a Node) -> Self {
        Correlated { new, old, node, unchanged: OnceCell::new() }
    }

    /// Value under a key, if the old object and the schema have the key.
    pub fn key(&self, key: &str) -> Option<Correlated<'a>> {
        let (new, old) = (self.new.as_map()?.get(key)?, self.old.as_map()?.get(key)?);
        Some(Correlated::new(new, old, self.node.value_at(key)?))
    }

    /// Whether the value is unchanged, by the equality of the schema.
    pub fn is_unchanged(&self) -> bool {
        *self.unchanged.get_or_init(|| {
            let started = Stopwatch::start();
            let unchanged = self.compare();
            RATCHETING_SECONDS.observe_seconds(started.elapsed());
            unchanged
        })
    }

    fn compare(&self) -> bool {
        match (self.new, self.old) {
            (Value::Map(new), Value::Map(old)) => {
                new.len() == old.len()
                    && new.iter().all(|(key, _)| self.key(key).is_some_and(|inner| inner.compare()))
            }
            (Value::List(new), Value::List(old)) => {
                new.len() == old.len()
                    && match &self.node.list {
                        ListType::Map(_) => {
                            let before = MapList::of(self);
                            let items = self.node.items.as_deref();
                            new.iter().all(|item| {
                                let pair = before.get(item).zip(items);
                                pair.is_some_and(|(old, node)| {
                                    Correlated::new(item, old, node).compare()
                                })
                            })
                        }
                        _ => new == old,
                    }
            }
            (new, old) => new == old,
        }
    }
}

/// Old elements of a list of type `map`, by key.
#[derive(Debug, Default)]
pub(crate) struct MapList<'a> {
    keys: &'a [Box<str>],
    elements: HashMap<String, &'a Value>,
}

impl<'a> MapList<'a> {
    pub fn of(list: &Correlated<'a>) -> Self {
        MapList::new(list.node, Some(list.old))
    }

    /// Empty for a list of another type.
    pub fn new(node: &'a Node, old: Option<&'a Value>) -> Self {
        let (ListType::Map(keys), Some(Value::List(list))) = (&node.list, old) else {
            return MapList::default();
        };
        let mut elements = HashMap::with_capacity(list.len());
        if node.is_type("array") && !keys.is_empty() {
            for element in list {
                if let Some(key) = composite(keys, element) {
                    elements.entry(key).or_insert(element);
                }
            }
        }
        MapList { keys, elements }
    }

    /// Old element with the same keys.
    pub fn get(&self, element: &Value) -> Option<&'a Value> {
        if self.elements.is_empty() {
            return None;
        }
        self.elements.get(&composite(self.keys, element)?).copied()
    }
}

/// Keys of an element as one text; `None` unless they are all scalars.
fn composite(keys: &[Box<str>], element: &Value) -> Option<String> {
    let element = element.as_map()?;
    let mut text = String::new();
    for key in keys {
        let _ = match element.get(key)? {
            Value::Bool(value) => write!(text, "\0b{value}"),
            Value::Int(value) => write!(text, "\0i{value}"),
            Value::Float(value) => write!(text, "\0f{value}"),
            Value::String(value) => write!(text, "\0s{value:?}"),
            _ => return None,
        };
    }
    Some(text)
}
