//! Fields of an object that a JSON patch can read or change.

use std::collections::{BTreeMap, BTreeSet};

use kevel_api::value::{Map, Value};

use super::{Operation, Patch};

/// Fields that a patch reaches, by the first two names of its JSON pointers. Objects are large and patches small:
/// applying a patch to these fields alone saves processing the others.
///
/// ```
/// use kevel_codec::json::{Unknown, decode_any};
/// use kevel_patch::json_patch::Patch;
/// let read = |text: &str| decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
/// let patch = br#"[{"op":"add","path":"/metadata/labels/a","value":"b"}]"#;
/// let reach = Patch::decode(patch, Unknown::Ignore).unwrap().0.reach().unwrap();
/// let mut object = read(r#"{"metadata":{"name":"n","labels":{}},"spec":{"large":true}}"#);
/// assert_eq!(reach.cut(&object), read(r#"{"metadata":{"labels":{}}}"#));
/// reach.paste(&mut object, read(r#"{"metadata":{"labels":{"a":"b"}}}"#));
/// assert_eq!(object, read(r#"{"metadata":{"name":"n","labels":{"a":"b"}},"spec":{"large":true}}"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach(BTreeMap<String, Fields>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fields {
    All,
    Some(BTreeSet<String>),
}

impl Patch {
    /// Fields that the patch reaches; `None` if it may be any.
    pub fn reach(&self) -> Option<Reach> {
        let mut reach = Reach(BTreeMap::new());
        let places = self.operations.iter().flat_map(Operation::places);
        places.map(|place| reach.add(place)).collect::<Option<()>>()?;
        Some(reach)
    }
}

impl Reach {
    fn add(&mut self, place: &str) -> Option<()> {
        // Names of fields need no escaping.
        let path = place.strip_prefix('/').filter(|path| !path.contains('~'))?;
        let mut names = path.splitn(3, '/');
        let (first, second) = (names.next()?, names.next());
        let fields = self.0.entry(first.to_owned()).or_insert(Fields::Some(BTreeSet::new()));
        match (fields, second) {
            (Fields::All, _) => {}
            (fields, None) => *fields = Fields::All,
            (Fields::Some(fields), Some(second)) => _ = fields.insert(second.to_owned()),
        }
        Some(())
    }

    /// Object with only these fields.
    pub fn cut(&self, object: &Value) -> Value {
        let fields = self.0.iter().filter_map(|(name, fields)| {
            let value = object.at(&[name])?;
            let value = match (fields, value) {
                (Fields::Some(names), Value::Map(map)) => {
                    let there =
                        names.iter().filter_map(|name| Some((&**name, map.get(name)?.clone())));
                    Value::Map(Map::from_iter(there))
                }
                _ => value.clone(),
            };
            Some((&**name, value))
        });
        Value::Map(Map::from_iter(fields))
    }

    /// Replaces these fields of the object with those of `cut`; fields missing there are removed.
    pub fn paste(&self, object: &mut Value, mut cut: Value) {
        let (Some(object), Some(cut)) = (object.as_map_mut(), cut.as_map_mut()) else { return };
        for (name, fields) in &self.0 {
            match (fields, object.get_mut(name), cut.remove(name)) {
                (Fields::Some(names), Some(Value::Map(there)), None) => {
                    names.iter().for_each(|name| drop(there.remove(name)));
                }
                (Fields::Some(names), Some(Value::Map(there)), Some(Value::Map(mut new))) => {
                    for name in names {
                        drop(match new.remove(name) {
                            Some(value) => there.insert(name, value),
                            None => there.remove(name),
                        });
                    }
                }
                (_, _, Some(new)) => drop(object.insert(name, new)),
                (_, _, None) => drop(object.remove(name)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::{Unknown, decode_any};

    fn read(text: &str) -> Value {
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    fn patch(text: &str) -> Patch {
        Patch::decode(text.as_bytes(), Unknown::Ignore).unwrap().0
    }

    #[test]
    fn lazy_patch_equals_patch_of_the_whole_object() {
        let object = r#"{"a":{"b":{"c":1},"d":[1,2],"e":0},"f":[{"g":1}],"h":"i"}"#;
        for text in [
            r#"[{"op":"add","path":"/a/b/x","value":1}]"#,
            r#"[{"op":"remove","path":"/a/b"}]"#,
            r#"[{"op":"remove","path":"/a"}]"#,
            r#"[{"op":"replace","path":"/a","value":{"z":1}}]"#,
            r#"[{"op":"add","path":"/a/d/-","value":3},{"op":"remove","path":"/a/e"}]"#,
            r#"[{"op":"move","from":"/a/b","path":"/h"}]"#,
            r#"[{"op":"copy","from":"/a/d/0","path":"/a/n"}]"#,
            r#"[{"op":"add","path":"/f/0/k","value":{}},{"op":"test","path":"/h","value":"i"}]"#,
            r#"[{"op":"add","path":"/new","value":{"x":1}},{"op":"add","path":"/new/y","value":2}]"#,
            r#"[{"op":"add","path":"/a/b/c","value":null},{"op":"replace","path":"/h","value":{}}]"#,
        ] {
            let (object, patch) = (read(object), patch(text));
            let reach = patch.reach().unwrap();
            let whole = patch.apply(object.clone(), 0).unwrap();
            let part = patch.apply(reach.cut(&object), 0).unwrap();
            let mut pasted = object;
            reach.paste(&mut pasted, part);
            assert_eq!(pasted, whole, "{text}");
        }
    }

    #[test]
    fn some_patches_may_go_anywhere() {
        for place in ["", "no slash", "/a~1b/c", "/a/b~0"] {
            let text = format!(r#"[{{"op":"add","path":"{place}","value":1}}]"#);
            assert_eq!(patch(&text).reach(), None, "{place}");
        }
    }
}
