//! Compiled schemas.

use std::cell::RefCell;

use kevel_api::value::Value;
use kevel_regexp::{Regexp, SyntaxError};

use super::format::{self, Check};
use super::pattern::Patterns;
use super::props::{Additional, Props};
use super::rules::Rules;

/// A compiled schema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// Names of the allowed types; empty allows any.
    pub types: Vec<Box<str>>,
    pub nullable: bool,
    pub format: Option<Format>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Pattern>,
    pub bounds: Bounds,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub values: Vec<Value>,
    pub required: Vec<Box<str>>,
    pub items: Option<Box<Node>>,
    /// Sorted by name.
    pub properties: Vec<(Box<str>, Node)>,
    pub additional: AdditionalNode,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
    pub embedded: bool,
    pub list: ListType,
    pub rules: Option<Box<Rules>>,
    /// Type of the schema, if it has rules but no CEL declaration type.
    pub undeclared: Option<Box<str>>,
    /// Features that this schema or one below it uses.
    pub inside: Inside,
}

/// Extensions beyond OpenAPI that a schema or one below it uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inside {
    pub embedded: bool,
    pub lists: bool,
    pub rules: bool,
}

#[derive(Debug)]
pub(crate) struct Format {
    pub name: Box<str>,
    /// `None` for formats of numbers.
    pub check: Option<Check>,
}

#[derive(Debug)]
pub(crate) struct Pattern {
    pub text: Box<str>,
    pub regex: Result<Regexp, SyntaxError>,
}

#[derive(Debug, Default)]
pub(crate) struct Bounds {
    pub multiple_of: Option<f64>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
}

#[derive(Debug, Default)]
pub(crate) enum AdditionalNode {
    #[default]
    Allowed,
    Forbidden,
    Schema(Box<Node>),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<Box<str>>),
}

/// Purpose of compiling a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Validation of custom objects.
    Objects,
    /// Validation of default values: `x-kubernetes-int-or-string` is checked by `anyOf` alone, and formats are checked
    /// whatever the type is.
    Defaults,
}

/// Position of a child schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpinePlace {
    Property,
    /// Items and additional properties.
    Element,
}

/// Compiles schemas.
#[derive(Clone, Copy, Debug)]
struct Reader<'r> {
    purpose: Purpose,
    patterns: &'r RefCell<Patterns>,
}

impl Node {
    /// Compiles the schema of a resource. Rules are compiled where CEL has a type for the values.
    pub fn new(schema: Props<'_>, purpose: Purpose) -> Node {
        let patterns = &RefCell::default();
        Node::with_rules(schema, Reader { purpose, patterns }, true, true)
    }

    /// Compiles a schema with its rules. If `is_declared` is false, CEL has no type for its values.
    fn with_rules(schema: Props<'_>, reader: Reader<'_>, is_root: bool, is_declared: bool) -> Node {
        let has_elements = is_declared && declares_elements(schema);
        let child = |place: SpinePlace, child: Props<'_>| {
            let is_declared = match place {
                SpinePlace::Property => is_declared,
                SpinePlace::Element => has_elements,
            };
            let mut node = Node::with_rules(child, reader, child.embedded(), is_declared);
            if place == SpinePlace::Property && !is_declared {
                node.inside.rules = false;
            }
            node
        };
        let mut node = Node::without_rules(schema, reader, &child);
        match is_declared {
            true => node.rules = Rules::compile(schema, is_root).map(Box::new),
            false if schema.rules().is_empty() => {}
            false => node.undeclared = Some(schema.kind().into()),
        }
        let below = node.spine().any(|child| child.inside.rules);
        node.inside.rules = node.rules.is_some() || node.undeclared.is_some() || below;
        node
    }

    /// Compiles a schema without its own rules. `child` compiles the schemas of properties, items and additional
    /// properties.
    fn without_rules(
        schema: Props<'_>,
        reader: Reader<'_>,
        child: &dyn Fn(SpinePlace, Props<'_>) -> Node,
    ) -> Node {
        let Reader { purpose, patterns } = reader;
        let mut types: Vec<Box<str>> = Vec::new();
        match schema.kind() {
            _ if schema.int_or_string() && purpose == Purpose::Objects => {
                types.extend(["integer".into(), "string".into()]);
            }
            "" => {}
            kind => types.push(kind.into()),
        }
        let nested = |schema| Node::nested(schema, reader);
        let all = |name| schema.schemas(name).map(nested).collect::<Vec<_>>();
        let pattern = Some(schema.text("pattern")).filter(|text| !text.is_empty());
        let mut node = Node {
            format: read_format(&types, schema.text("format"), purpose),
            types,
            nullable: schema.flag("nullable"),
            max_length: schema.int("maxLength"),
            min_length: schema.int("minLength"),
            pattern: pattern.map(|text| Pattern {
                text: text.into(),
                regex: patterns.borrow_mut().compile(text),
            }),
            bounds: Bounds {
                multiple_of: schema.number("multipleOf"),
                minimum: schema.number("minimum"),
                exclusive_minimum: schema.flag("exclusiveMinimum"),
                maximum: schema.number("maximum"),
                exclusive_maximum: schema.flag("exclusiveMaximum"),
            },
            max_items: schema.int("maxItems"),
            min_items: schema.int("minItems"),
            max_properties: schema.int("maxProperties"),
            min_properties: schema.int("minProperties"),
            values: schema.list("enum").to_vec(),
            required: schema.texts("required").map(Into::into).collect(),
            items: schema.item().map(|item| Box::new(child(SpinePlace::Element, item))),
            properties: schema
                .properties()
                .map(|(name, property)| {
                    let mut node = child(SpinePlace::Property, property);
                    // Rules below a property that CEL cannot see are not evaluated.
                    if kevel_cel::escape(name).is_some() && !is_visible(property) {
                        node.inside.rules = false;
                    }
                    (name.into(), node)
                })
                .collect(),
            additional: match schema.additional() {
                Some(Additional::Schema(values)) => {
                    AdditionalNode::Schema(Box::new(child(SpinePlace::Element, values)))
                }
                Some(Additional::Allowed(false)) => AdditionalNode::Forbidden,
                Some(Additional::Allowed(true)) | None => AdditionalNode::Allowed,
            },
            all_of: all("allOf"),
            any_of: all("anyOf"),
            one_of: all("oneOf"),
            not: schema.schema("not").map(|schema| Box::new(nested(schema))),
            embedded: schema.embedded(),
            list: match schema.list_type() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(schema.list_map_keys().map(Into::into).collect()),
                _ => ListType::Atomic,
            },
            rules: None,
            undeclared: None,
            inside: Inside::default(),
        };
        node.inside = Inside {
            embedded: node.embedded || node.spine().any(|child| child.inside.embedded),
            lists: node.list != ListType::Atomic || node.spine().any(|child| child.inside.lists),
            rules: false,
        };
        node
    }

    /// Compiles a schema under `allOf`, `anyOf`, `oneOf` or `not`, which has no rules.
    fn nested(schema: Props<'_>, reader: Reader<'_>) -> Node {
        Node::without_rules(schema, reader, &|_, child| Node::nested(child, reader))
    }

    /// Schemas of properties, items and additional properties.
    fn spine(&self) -> impl Iterator<Item = &Node> {
        let properties = self.properties.iter().map(|(_, node)| node);
        properties.chain(self.items.as_deref()).chain(self.additional_schema())
    }

    pub fn property(&self, name: &str) -> Option<&Node> {
        let found = self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.properties.get(found).map(|(_, node)| node)
    }

    pub fn additional_schema(&self) -> Option<&Node> {
        match &self.additional {
            AdditionalNode::Schema(node) => Some(node),
            _ => None,
        }
    }

    /// Schema of the value under a key.
    pub fn value_at(&self, key: &str) -> Option<&Node> {
        self.property(key).or_else(|| self.additional_schema())
    }

    pub fn is_type(&self, name: &str) -> bool {
        self.types.iter().any(|known| **known == *name)
    }
}

/// Format of a schema, unless it is one that is ignored.
fn read_format(types: &[Box<str>], name: &str, purpose: Purpose) -> Option<Format> {
    if purpose == Purpose::Defaults {
        return (!name.is_empty()).then(|| Format { name: name.into(), check: format::find(name) });
    }
    let check = match types.first().map(|kind| &**kind).filter(|_| types.len() == 1) {
        None | Some("string") => Some(format::find(name)?),
        Some("integer") if matches!(name, "int32" | "int64") => None,
        Some("number") if matches!(name, "float" | "double") => None,
        Some(_) => return None,
    };
    Some(Format { name: name.into(), check })
}

/// Whether the CEL type of a schema is a list or map with elements; `items` of an object have no type.
fn declares_elements(schema: Props<'_>) -> bool {
    match schema.kind() {
        _ if schema.int_or_string() => false,
        "array" => true,
        "object" => schema.additional_schema().is_some(),
        _ => false,
    }
}

/// Whether CEL can see values of a schema.
fn is_visible(schema: Props<'_>) -> bool {
    match schema.kind() {
        _ if schema.int_or_string() => true,
        "array" => schema.item().is_some_and(is_visible),
        "object" => schema.additional_schema().is_none_or(is_visible),
        "string" | "boolean" | "number" | "integer" => true,
        _ => false,
    }
}
