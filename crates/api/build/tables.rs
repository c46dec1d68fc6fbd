//! Generator of the arrays of `schema::Table`, as Rust source, from definitions.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use kevel_definition::{Facts, FieldDef, Module, Resource, TypeDef, TypeExpr};

type Result<T> = std::result::Result<T, String>;

/// Source of all tables.
pub fn generate(modules: &[Module]) -> Result<String> {
    let mut tables = Tables::new(modules);
    for module in modules {
        for ty in &module.types {
            tables.named(&module.stem, &ty.name)?;
        }
    }
    // Named types are numbered first, so that a definition can refer to any other.
    for (module, ty) in modules.iter().flat_map(|m| m.types.iter().map(move |t| (m, t))) {
        let id = tables.named(&module.stem, &ty.name)?;
        tables.types[id] = tables.define(module, ty)?;
    }
    tables.mark_defaults();
    tables.mark_documents();
    tables.mark_written_empty();
    tables.name_types();
    tables.source(modules)
}

struct Tables<'m> {
    definitions: HashMap<String, (&'m Module, &'m TypeDef)>,
    ids: HashMap<String, usize>,
    types: Vec<Type>,
    fields: Vec<Entry>,
    members: Vec<String>,
    defaults: Vec<String>,
    merges: Vec<String>,
    names: Vec<String>,
    /// Name of each type, `core.v1.Pod`; empty for unnamed types.
    type_names: Vec<String>,
    strings: HashMap<String, String>,
    /// Field names, with their positions in `keys` and in `text`.
    field_names: HashMap<String, (usize, String)>,
    keys: Vec<String>,
    text: String,
}

#[derive(Clone)]
enum Type {
    Unknown,
    Struct {
        name: String,
        package: String,
        fields: (usize, usize),
        members: (usize, usize),
        internal: String,
        flags: u8,
    },
    List {
        item: usize,
        list: String,
        message: bool,
    },
    Map {
        value: usize,
        atomic: bool,
    },
    Scalar(&'static str),
    Union {
        object: (u16, usize),
        other: (u16, usize),
    },
    Any,
}

struct Entry {
    /// Source before and after the flags.
    source: (String, String),
    flags: u16,
    ty: usize,
    defaulted: bool,
}

const ATOMIC: u8 = 1;
const DEFAULTS: u8 = 8;
const EXTERNAL: u8 = 16;
const DOCUMENTS: u8 = 32;
const POINTER: u16 = 1;
const ALWAYS: u16 = 2;
const OMIT_ZERO: u16 = 32;
const DEFAULTS_BELOW: u16 = 256;
const WRITTEN_EMPTY: u16 = 512;
const DIRECT: u16 = 1024;

/// Kubernetes version of the definitions.
const LEVEL: (u32, u32) = (1, 36);

/// Value of `map=`: owned as one value; `granular` is field by field.
const ATOMIC_MAP: &str = "atomic";

/// Definition file whose types have no internal form in the reference.
const EXTERNAL_ONLY: &str = "meta.v1";

/// Limit on fields; must equal `schema::MAX_FIELDS`.
const MAX_FIELDS: usize = 64;

const SCALARS: [(&str, &str); 14] = [
    ("string", "String"),
    ("bool", "Bool"),
    ("int32", "Int32"),
    ("int64", "Int64"),
    ("float64", "Double"),
    ("bytes", "Bytes"),
    ("time", "Time"),
    ("microtime", "MicroTime"),
    ("duration", "Duration"),
    ("quantity", "Quantity"),
    ("intOrString", "IntOrString"),
    ("raw", "Raw"),
    ("json", "Json"),
    ("fieldsV1", "FieldsV1"),
];

/// Scalars that are structs in Go.
const GO_STRUCTS: [&str; 8] =
    ["Time", "MicroTime", "Duration", "Quantity", "IntOrString", "Raw", "Json", "FieldsV1"];

impl<'m> Tables<'m> {
    fn new(modules: &'m [Module]) -> Self {
        let definitions = modules
            .iter()
            .flat_map(|m| m.types.iter().map(move |t| (format!("{}.{}", m.stem, t.name), (m, t))))
            .collect();
        Tables {
            definitions,
            ids: HashMap::new(),
            types: Vec::new(),
            fields: Vec::new(),
            members: Vec::new(),
            defaults: Vec::new(),
            merges: Vec::new(),
            names: Vec::new(),
            type_names: Vec::new(),
            strings: HashMap::new(),
            field_names: HashMap::new(),
            keys: Vec::new(),
            text: String::new(),
        }
    }

    fn qualify(&self, stem: &str, name: &str) -> String {
        match name.contains('.') {
            true => name.to_owned(),
            false => format!("{stem}.{name}"),
        }
    }

    fn add(&mut self, key: String, ty: Type) -> usize {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        self.types.push(ty);
        self.ids.insert(key, self.types.len() - 1);
        self.types.len() - 1
    }

    /// Number of a named type.
    fn named(&mut self, stem: &str, name: &str) -> Result<usize> {
        if let Some((_, scalar)) = SCALARS.iter().find(|(n, _)| *n == name) {
            return Ok(self.add(name.to_owned(), Type::Scalar(scalar)));
        }
        if name == "any" {
            return Ok(self.add(name.to_owned(), Type::Any));
        }
        let full = self.qualify(stem, name);
        if !self.definitions.contains_key(&full) {
            return Err(format!("{stem}: no type {name}"));
        }
        Ok(self.add(full, Type::Unknown))
    }

    /// Number of a type expression, with the facts of the field that uses it.
    fn expression(&mut self, stem: &str, ty: &TypeExpr, facts: &Facts) -> Result<usize> {
        match ty {
            TypeExpr::Pointer(ty) => self.expression(stem, ty, facts),
            TypeExpr::Name(name) => {
                let id = self.named(stem, name)?;
                let Some(owned) = facts.get("map") else { return Ok(id) };
                // A copy of the struct type, with another ownership in this field.
                let full = self.qualify(stem, name);
                let (module, ty) = self.definitions[&full];
                let Type::Struct { name, package, fields, members, internal, flags } =
                    self.define(module, ty)?
                else {
                    return Err(format!("{stem}: {full} cannot be {owned}"));
                };
                let flags = if owned == ATOMIC_MAP { flags | ATOMIC } else { flags & !ATOMIC };
                let ty = Type::Struct { name, package, fields, members, internal, flags };
                Ok(self.add(format!("{owned} {full}"), ty))
            }
            TypeExpr::List(item) => {
                let item = self.expression(stem, item, &Facts::default())?;
                let list = match facts.get("list") {
                    None => "List::Atomic".to_owned(),
                    Some("set") => "List::Set".to_owned(),
                    Some(keys) => {
                        let keys = keys.strip_prefix("map:").ok_or("list is set or map:KEYS")?;
                        format!("List::Map({})", self.name_list(keys.split(',')))
                    }
                };
                let key = format!("[]{item} {list}");
                Ok(self.add(key, Type::List { item, list, message: false }))
            }
            TypeExpr::Map(value) => {
                let value = self.expression(stem, value, &Facts::default())?;
                let atomic = facts.get("map") == Some(ATOMIC_MAP);
                Ok(self.add(format!("map {value} {atomic}"), Type::Map { value, atomic }))
            }
        }
    }

    fn define(&mut self, module: &Module, ty: &TypeDef) -> Result<Type> {
        let stem = &module.stem;
        if ty.facts.has("list") {
            let [items] = ty.fields.as_slice() else {
                return Err(format!("{}: one field", ty.name));
            };
            let TypeExpr::List(item) = &items.ty else {
                return Err(format!("{}: no list", ty.name));
            };
            let item = self.expression(stem, item, &Facts::default())?;
            return Ok(Type::List { item, list: "List::Atomic".into(), message: true });
        }
        if ty.facts.has("union") {
            let (mut object, mut other) = (None, None);
            for field in &ty.fields {
                let id = self.expression(stem, &field.ty, &field.facts)?;
                let named = matches!(&field.ty, TypeExpr::Name(n) if n != "bool");
                *(if named { &mut object } else { &mut other }) = Some((field.tag, id));
            }
            let (Some(object), Some(other)) = (object, other) else {
                return Err(format!("{}: a union has an object and another form", ty.name));
            };
            return Ok(Type::Union { object, other });
        }
        let fields = self.json_fields(module, ty)?;
        let members = self.protobuf_members(module, ty)?;
        let flags = if ty.facts.has("atomic") { ATOMIC } else { 0 };
        let flags = flags | if *stem == EXTERNAL_ONLY { EXTERNAL } else { 0 };
        let internal = self.name_list(ty.facts.list("internal"));
        let name = self.string(&ty.name);
        let package = self.string(&module.version);
        Ok(Type::Struct { name, package, fields, members, internal, flags })
    }

    /// JSON fields of a struct, with inlined ones, sorted by name.
    fn json_fields(&mut self, module: &Module, ty: &TypeDef) -> Result<(usize, usize)> {
        let flat = flat_fields(&self.definitions, module, ty)?;
        let mut ranked: Vec<_> = flat.into_iter().enumerate().collect();
        ranked.sort_by(|a, b| a.1.1.name.cmp(&b.1.1.name));
        let ranked: Vec<(usize, String, FieldDef)> = ranked
            .into_iter()
            .map(|(rank, (stem, field))| (rank, stem.to_owned(), field))
            .collect();
        let count = ranked.len();
        if count > MAX_FIELDS {
            return Err(format!("{}: more than {MAX_FIELDS} fields", ty.name));
        }
        // All entries are made before any is stored, because a field may define a struct type of its own.
        let entries = ranked.iter().map(|(rank, stem, field)| self.entry(stem, *rank, field));
        let entries: Vec<Entry> = entries.collect::<Result<_>>()?;
        let start = self.fields.len();
        self.fields.extend(entries);
        Ok((start, count))
    }

    fn entry(&mut self, stem: &str, rank: usize, field: &FieldDef) -> Result<Entry> {
        let facts = &field.facts;
        let ty = self.expression(stem, &field.ty, facts)?;
        let required = facts.has("required");
        let always = facts.has("always") || (required && !facts.has("omitempty"));
        let flags = [
            (POINTER, matches!(field.ty, TypeExpr::Pointer(_))),
            (ALWAYS, always),
            (4, required),
            (8, facts.has("deprecated")),
            (16, facts.has("nullable")),
            (OMIT_ZERO, facts.has("omitzero")),
            (64, facts.has("type-meta")),
            (DIRECT, facts.has("direct")),
        ];
        let flags: u16 = flags.iter().filter(|(_, set)| *set).map(|(bit, _)| bit).sum();
        let (key, name) = self.field_name(&field.name);
        let head = head(&field.name);
        let go = self.string(facts.get("go").unwrap_or_default());
        let default = self.default(facts)?;
        let merge = self.merge(facts);
        let values = facts.get("enum").map(|list| list.trim_matches('"').split(','));
        let values = self.name_list(values.into_iter().flatten());
        let go_name = match facts.get("name") {
            Some(name) => self.name_index(name) + 1,
            None => 0,
        };
        let before = format!(
            "FieldEntry {{ head: {head:#x}, name: {name}, go: {go}, ty: {ty}, rank: {rank}, "
        );
        let after = format!(
            "default: {default}, merge: {merge}, values: {values}, key: {key}, go_name: {go_name} }}"
        );
        // An empty default fills in nothing but a pointer; it serves as the key of list elements.
        let zero = facts.get("default") == Some("\"\"") && flags & POINTER == 0;
        let defaulted = default != 0 && !zero;
        Ok(Entry { source: (before, after), flags, ty, defaulted })
    }

    fn protobuf_members(&mut self, module: &Module, ty: &TypeDef) -> Result<(usize, usize)> {
        let flat = flat_fields(&self.definitions, module, ty)?;
        let mut names: Vec<&str> = flat.iter().map(|(_, field)| field.name.as_str()).collect();
        names.sort_unstable();
        let mut members: Vec<(u16, String)> = Vec::new();
        for field in ty.fields.iter().filter(|f| f.tag != 0) {
            let role = match names.binary_search(&field.name.as_str()) {
                Ok(position) => format!("Role::Field({position})"),
                Err(_) => {
                    let TypeExpr::Name(name) = &field.ty else {
                        return Err(format!("{}: only a struct can be inlined", ty.name));
                    };
                    let full = self.qualify(&module.stem, name);
                    format!("Role::Inline({})", self.named(&module.stem, &full)?)
                }
            };
            members.push((field.tag, role));
        }
        members.sort();
        let start = self.members.len();
        let count = members.len();
        let source = |(tag, role)| format!("Member {{ tag: {tag}, role: {role} }}");
        self.members.extend(members.into_iter().map(source));
        Ok((start, count))
    }

    /// Number of a field's default, from 1; 0 for none.
    fn default(&mut self, facts: &Facts) -> Result<usize> {
        let Some(json) = facts.get("default") else { return Ok(0) };
        let quoted = json.strip_prefix('"').and_then(|s| s.strip_suffix('"'));
        let value = match json {
            "true" | "false" => format!("Constant::Bool({json})"),
            "{}" => "Constant::EmptyMap".to_owned(),
            "[]" => "Constant::EmptyList".to_owned(),
            _ if json.parse::<i64>().is_ok() => format!("Constant::Int({json})"),
            _ if json.starts_with('$') => format!("Constant::Sibling({})", self.string(&json[1..])),
            _ if json.starts_with('@') => format!("Constant::Rule({})", self.string(&json[1..])),
            _ => match quoted {
                Some(text) if !text.contains('\\') => {
                    format!("Constant::Str({})", self.string(text))
                }
                _ => format!("Constant::Json({})", self.string(json)),
            },
        };
        let when = match facts.get("when").map(|when| when.split_once(':')) {
            None => "None".to_owned(),
            Some(Some((field, value))) => {
                format!("Some(({}, {}))", self.string(field), self.string(value))
            }
            Some(None) => return Err("when is FIELD:VALUE".into()),
        };
        let source = format!("DefaultEntry {{ value: {value}, when: {when} }}");
        Ok(number(&mut self.defaults, source))
    }

    /// Number of a field's merge facts, from 1; 0 for none.
    fn merge(&mut self, facts: &Facts) -> usize {
        let Some(patch) = facts.get("patch") else { return 0 };
        let (strategies, key) = patch.split_once(':').unwrap_or((patch, ""));
        let has = |name| strategies.split(',').any(|s| s == name);
        let key = self.string(key);
        let (merge, retain) = (has("merge"), has("retainKeys"));
        let source = format!("MergeEntry {{ merge: {merge}, retain_keys: {retain}, key: {key} }}");
        number(&mut self.merges, source)
    }

    fn name_list<'s>(&mut self, list: impl Iterator<Item = &'s str>) -> String {
        let list: Vec<String> = list.map(|name| self.string(name)).collect();
        if list.is_empty() {
            return "Span(0, 0)".to_owned();
        }
        let found = self.names.windows(list.len()).position(|window| window == list.as_slice());
        let start = found.unwrap_or_else(|| {
            self.names.extend(list.iter().cloned());
            self.names.len() - list.len()
        });
        format!("Span({start}, {})", list.len())
    }

    /// Position of a name among the names.
    fn name_index(&mut self, name: &str) -> usize {
        let name = self.string(name);
        let found = self.names.iter().position(|known| *known == name);
        found.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }

    fn string(&mut self, s: &str) -> String {
        if s.is_empty() {
            return "Str(0, 0)".to_owned();
        }
        if let Some(known) = self.strings.get(s) {
            return known.clone();
        }
        let source = format!("Str({}, {})", self.text.len(), s.len());
        self.text.push_str(s);
        self.strings.insert(s.to_owned(), source.clone());
        source
    }

    /// Positions of a field's name in the keys and in the text, which has it as in JSON: after a comma, quoted and with
    /// a colon.
    fn field_name(&mut self, name: &str) -> (usize, String) {
        if let Some(known) = self.field_names.get(name) {
            return known.clone();
        }
        let at = (self.keys.len(), format!("Str({}, {})", self.text.len() + 2, name.len()));
        let _ = write!(self.text, ",{name:?}:");
        self.keys.push(format!("CompactString::const_new({name:?})"));
        self.field_names.insert(name.to_owned(), at.clone());
        at
    }

    /// Records the names of named types.
    fn name_types(&mut self) {
        let mut names = vec![String::new(); self.types.len()];
        for (key, id) in &self.ids {
            let name = key.split_once(' ').map_or(key.as_str(), |(_, name)| name);
            if self.definitions.contains_key(name) {
                names[*id] = name.to_owned();
            }
        }
        self.type_names = names.iter().map(|name| self.string(name)).collect();
    }

    /// Marks every struct that has a default in it or below it.
    fn mark_defaults(&mut self) {
        let marked = self.reaching(|field| field.defaulted, |_| false);
        for field in &mut self.fields {
            field.flags |= if marked[field.ty] { DEFAULTS_BELOW } else { 0 };
        }
        self.mark(DEFAULTS, &marked);
    }

    /// Marks every struct that has a raw document in it or below it.
    fn mark_documents(&mut self) {
        let marked = self.reaching(|_| false, |scalar| scalar == "Raw");
        self.mark(DOCUMENTS, &marked);
    }

    fn mark(&mut self, flag: u8, marked: &[bool]) {
        for (ty, marked) in self.types.iter_mut().zip(marked) {
            if let (Type::Struct { flags, .. }, true) = (ty, marked) {
                *flags |= flag;
            }
        }
    }

    /// Types that have such a field or are such a scalar, or contain one.
    fn reaching(&self, has: impl Fn(&Entry) -> bool, is: impl Fn(&str) -> bool) -> Vec<bool> {
        let mut marked = vec![false; self.types.len()];
        loop {
            let before = marked.clone();
            for (id, ty) in self.types.iter().enumerate() {
                marked[id] |= match ty {
                    Type::Struct { fields: (start, count), .. } => self.fields
                        [*start..start + count]
                        .iter()
                        .any(|field| has(field) || before[field.ty]),
                    Type::List { item, .. } => before[*item],
                    Type::Map { value, .. } => before[*value],
                    Type::Union { object, other } => before[object.1] || before[other.1],
                    Type::Scalar(scalar) => is(scalar),
                    Type::Any | Type::Unknown => false,
                };
            }
            if marked == before {
                return marked;
            }
        }
    }

    /// Marks every field that is written although it is absent: see `FieldFlags::WRITTEN_EMPTY`.
    fn mark_written_empty(&mut self) {
        for field in &mut self.fields {
            let go_struct = match &self.types[field.ty] {
                Type::Struct { .. } => true,
                Type::Scalar(name) => GO_STRUCTS.contains(name),
                _ => false,
            };
            let always = field.flags & ALWAYS != 0;
            if always || go_struct && field.flags & (POINTER | OMIT_ZERO) == 0 {
                field.flags |= WRITTEN_EMPTY;
            }
        }
    }

    fn source(&self, modules: &[Module]) -> Result<String> {
        let types = self.types.iter().map(|ty| match ty {
            Type::Unknown => "Type::Any".to_owned(),
            Type::Any => "Type::Any".to_owned(),
            Type::Scalar(name) => format!("Type::Scalar(Scalar::{name})"),
            Type::List { item, list, message } => {
                format!("Type::List {{ item: {item}, list: {list}, message: {message} }}")
            }
            Type::Map { value, atomic } => {
                format!("Type::Map {{ value: {value}, atomic: {atomic} }}")
            }
            Type::Union { object, other } => format!(
                "Type::Union {{ object: Choice {{ tag: {}, ty: {} }}, \
                 other: Choice {{ tag: {}, ty: {} }} }}",
                object.0, object.1, other.0, other.1
            ),
            Type::Struct { name, package, fields, members, internal, flags } => format!(
                "Type::Struct(Struct {{ name: {name}, package: {package}, fields: Span({}, {}), \
                 members: Span({}, {}), internal: {internal}, flags: StructFlags({flags}) }})",
                fields.0, fields.1, members.0, members.1
            ),
        });
        let mut out = String::new();
        let mut array = |name: &str, ty: &str, items: Vec<String>| {
            let _ = writeln!(out, "static {name}: [{ty}; {}] = [", items.len());
            items.iter().for_each(|item| {
                let _ = writeln!(out, "    {item},");
            });
            out.push_str("];\n");
        };
        array("TYPES", "Type", types.collect());
        let field = |Entry { source: (before, after), flags, .. }: &Entry| {
            format!("{before}flags: FieldFlags({flags}), {after}")
        };
        array("FIELDS", "FieldEntry", self.fields.iter().map(field).collect());
        array("MEMBERS", "Member", self.members.clone());
        array("DEFAULTS", "DefaultEntry", self.defaults.clone());
        array("MERGES", "MergeEntry", self.merges.clone());
        array("NAMES", "Str", self.names.clone());
        array("KEYS", "CompactString", self.keys.clone());
        array("TYPE_NAMES", "Str", self.type_names.clone());
        array("KINDS", "Kind", self.kinds(modules)?);
        array("RESOURCES", "Resource", resources(modules)?);
        let _ = writeln!(out, "static TEXT: &str = {:?};", self.text);
        Ok(out)
    }

    /// All kinds under every group and version that uses them, in order.
    fn kinds(&self, modules: &[Module]) -> Result<Vec<String>> {
        let mut kinds = BTreeMap::new();
        for module in modules {
            for ty in module.types.iter().filter(|t| t.kind) {
                let id = self.ids[&format!("{}.{}", module.stem, ty.name)];
                let mut homes = vec![(module.group.as_str(), module.version.as_str())];
                if ty.facts.has("core") || ty.facts.has("everywhere") {
                    homes.push(("", "v1"));
                }
                if ty.facts.has("everywhere") {
                    homes.extend(modules.iter().map(|m| (m.group.as_str(), m.version.as_str())));
                }
                for (group, version) in homes {
                    let deprecation = deprecation(group, version, ty).unwrap_or_default();
                    kinds.entry((group, version, ty.name.as_str())).or_insert((id, deprecation));
                }
            }
        }
        Ok(kinds
            .into_iter()
            .map(|((group, version, name), (ty, deprecation))| {
                format!(
                    "Kind {{ group: {group:?}, version: {version:?}, name: {name:?}, ty: {ty}, \
                     deprecation: {deprecation:?} }}"
                )
            })
            .collect())
    }
}

/// Major and minor version in the text of a fact.
fn major_minor(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Deprecation warning of the reference for a kind.
fn deprecation(group: &str, version: &str, ty: &TypeDef) -> Option<String> {
    let since = ty.facts.get("deprecated")?;
    if major_minor(since)? > LEVEL {
        return None;
    }
    let home = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut text = format!("{home} {} is deprecated in v{since}+", ty.name);
    if let Some(removed) = ty.facts.get("removed") {
        let _ = write!(text, ", unavailable in v{removed}+");
    }
    if let Some((version, kind)) = ty.facts.get("replacement").and_then(|gvk| gvk.rsplit_once('/'))
    {
        let _ = write!(text, "; use {version} {kind}");
    }
    Some(text)
}

/// JSON fields of a struct in Go's order, with the definition file of each: `kind` and `apiVersion` first if it has
/// them, fields of inlined structs in place.
fn flat_fields<'m>(
    definitions: &HashMap<String, (&'m Module, &'m TypeDef)>,
    module: &Module,
    ty: &TypeDef,
) -> Result<Vec<(&'m str, FieldDef)>> {
    let mut flat = Vec::new();
    if ty.kind && !ty.facts.has("bare") {
        for name in ["kind", "apiVersion"] {
            let ty = TypeExpr::Name("string".into());
            let mut field = FieldDef { name: name.into(), ty, ..FieldDef::default() };
            field.facts.set("type-meta", None);
            flat.push(("", field));
        }
    }
    flatten(definitions, module, ty, &mut flat)?;
    Ok(flat)
}

fn flatten<'m>(
    definitions: &HashMap<String, (&'m Module, &'m TypeDef)>,
    module: &Module,
    ty: &TypeDef,
    out: &mut Vec<(&'m str, FieldDef)>,
) -> Result<()> {
    let home = definitions[&format!("{}.{}", module.stem, ty.name)].0;
    for field in &ty.fields {
        if field.name != "-" {
            out.push((&home.stem, field.clone()));
            continue;
        }
        let TypeExpr::Name(name) = &field.ty else {
            return Err(format!("{}: only a struct can be inlined", ty.name));
        };
        let full =
            if name.contains('.') { name.clone() } else { format!("{}.{name}", module.stem) };
        let (module, ty) = definitions.get(&full).ok_or(format!("no type {full}"))?;
        flatten(definitions, module, ty, out)?;
    }
    Ok(())
}

fn resources(modules: &[Module]) -> Result<Vec<String>> {
    let gv: HashMap<&str, (&str, &str)> =
        modules.iter().map(|m| (m.stem.as_str(), (m.group.as_str(), m.version.as_str()))).collect();
    let mut out = Vec::new();
    for module in modules {
        for resource in &module.resources {
            out.push(resource_source(modules, &gv, module, resource)?);
        }
    }
    Ok(out)
}

fn resource_source(
    modules: &[Module],
    gv: &HashMap<&str, (&str, &str)>,
    module: &Module,
    resource: &Resource,
) -> Result<String> {
    let (home, kind) = match resource.kind.rsplit_once('.') {
        Some((stem, kind)) => (*gv.get(stem).ok_or(format!("no module {stem}"))?, kind),
        None => ((module.group.as_str(), module.version.as_str()), resource.kind.as_str()),
    };
    let list = |key: &str| {
        let words: Vec<String> = resource.facts.list(key).map(|w| format!("{w:?}")).collect();
        format!("&[{}]", words.join(", "))
    };
    let kinds = modules.iter().filter(|m| (m.group.as_str(), m.version.as_str()) == home);
    let ty = kinds.flat_map(|m| &m.types).find(|ty| ty.kind && ty.name == kind);
    let at = |fact: &str| ty.and_then(|ty| ty.facts.get(fact)).and_then(major_minor);
    Ok(format!(
        "Resource {{ group: {:?}, version: {:?}, path: {:?}, kind_group: {:?}, kind_version: {:?}, \
         kind: {kind:?}, namespaced: {}, singular: {:?}, short: {}, categories: {}, verbs: {}, \
         on: {}, introduced: {:?}, removed: {:?} }}",
        module.group,
        module.version,
        resource.path,
        home.0,
        home.1,
        resource.namespaced,
        resource.facts.get("singular").unwrap_or_default(),
        list("short"),
        list("categories"),
        list("verbs"),
        !module.facts.has("off") && !resource.facts.has("off"),
        at("introduced"),
        at("removed"),
    ))
}

/// First eight bytes of a name, as in `schema::FieldName::head`.
fn head(name: &str) -> u64 {
    let mut head = [0; 8];
    head.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
    u64::from_be_bytes(head)
}

fn number(list: &mut Vec<String>, source: String) -> usize {
    let found = list.iter().position(|known| *known == source);
    found.unwrap_or_else(|| {
        list.push(source);
        list.len() - 1
    }) + 1
}
