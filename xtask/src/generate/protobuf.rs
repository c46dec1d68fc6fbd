//! Messages to types.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kevel_definition::{FieldDef, Module, TypeDef, TypeExpr};
use serde_json::Value;

use super::{Error, merge};

/// Messages that are leaves for us.
const SCALARS: [(&str, &str); 10] = [
    ("k8s.io.apimachinery.pkg.apis.meta.v1.Time", "time"),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime", "microtime"),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.Duration", "duration"),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1", "fieldsV1"),
    ("k8s.io.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("k8s.io.apimachinery.pkg.util.intstr.IntOrString", "intOrString"),
    ("k8s.io.apimachinery.pkg.runtime.RawExtension", "raw"),
    ("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON", "json"),
    // Audit events' objects; they are only ever written as JSON.
    ("k8s.io.apimachinery.pkg.runtime.Unknown", "raw"),
    ("double", "float64"),
];

/// Packages that are not named after their group.
const PACKAGES: [(&str, &str); 5] = [
    ("k8s.io.api.apiserverinternal.", "internal."),
    ("k8s.io.apimachinery.pkg.apis.meta.", "meta."),
    ("k8s.io.apiserver.pkg.apis.audit.", "audit."),
    ("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.", "apiextensions."),
    ("k8s.io.kube_aggregator.pkg.apis.apiregistration.", "apiregistration."),
];

/// The type that a message or an OpenAPI schema of that (protobuf) name is: `core.v1.Pod`.
pub fn qualified(message: &str) -> Option<String> {
    for (package, stem) in PACKAGES {
        if let Some(rest) = message.strip_prefix(package) {
            return Some(format!("{stem}{rest}"));
        }
    }
    message.strip_prefix("k8s.io.api.").map(str::to_owned)
}

/// One module for each shape overlay, with the fields of its messages.
pub fn modules(
    path: &Path,
    shape: BTreeMap<String, Module>,
) -> Result<BTreeMap<String, Module>, Error> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let messages: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&text)?;
    let mut modules = BTreeMap::new();
    for (stem, overlay) in &shape {
        let types = Vec::new();
        modules.insert(stem.clone(), Module { types, resources: Vec::new(), ..overlay.clone() });
    }
    for (message, fields) in &messages {
        if SCALARS.iter().any(|(name, _)| name == message) {
            continue;
        }
        let Some((stem, name)) = qualified(message).and_then(|q| {
            let (stem, name) = q.rsplit_once('.')?;
            Some((stem.to_owned(), name.to_owned()))
        }) else {
            continue;
        };
        let Some(module) = modules.get_mut(&stem) else { continue };
        let overlay = shape[&stem].types.iter().find(|t| t.name == name);
        let empty = TypeDef { name: name.clone(), ..TypeDef::default() };
        let overlay = overlay.unwrap_or(&empty);
        let mut ty = TypeDef { fields: Vec::new(), ..overlay.clone() };
        for field in fields {
            ty.fields.push(field_of(&stem, field, overlay)?);
        }
        module.types.push(ty);
    }
    // Types that have no message are spelled out in the overlay.
    for (stem, overlay) in shape {
        let module = modules.get_mut(&stem).ok_or("unreachable")?;
        for ty in overlay.types {
            if module.types.iter().any(|t| t.name == ty.name) {
                continue;
            }
            let mut spelled = TypeDef { fields: Vec::new(), ..ty.clone() };
            for mut field in ty.fields {
                let name = format!("{stem}.{}.{}", ty.name, field.name);
                let expr = field.facts.get("type").ok_or(format!("{name} has no message"))?;
                field.ty = expr.parse()?;
                spelled.fields.push(field);
            }
            module.types.push(spelled);
        }
    }
    Ok(modules)
}

fn field_of(stem: &str, field: &Value, overlay: &TypeDef) -> Result<FieldDef, Error> {
    let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = text("name");
    let shape = overlay.fields.iter().find(|f| f.facts.get("proto").unwrap_or(&f.name) == name);
    let mut ty = match text("type") {
        "map" => TypeExpr::Map(Box::new(type_name(stem, text("value"))?)),
        message => type_name(stem, message)?,
    };
    if field.get("repeated").and_then(Value::as_bool) == Some(true) {
        ty = TypeExpr::List(Box::new(ty));
    }
    let tag = field.get("tag").and_then(Value::as_u64).unwrap_or_default();
    let mut def = FieldDef {
        name: shape.map_or(name, |f| &f.name).to_owned(),
        tag: u16::try_from(tag)?,
        ty,
        ..FieldDef::default()
    };
    if let Some(shape) = shape {
        merge(&mut def.facts, &shape.facts);
    }
    Ok(def)
}

fn type_name(stem: &str, message: &str) -> Result<TypeExpr, Error> {
    if let Some((_, name)) = SCALARS.iter().find(|(name, _)| *name == message) {
        return Ok(TypeExpr::Name((*name).to_owned()));
    }
    if !message.contains('.') {
        return Ok(TypeExpr::Name(message.to_owned()));
    }
    let name = qualified(message).ok_or(format!("unknown message {message}"))?;
    let local = name.rsplit_once('.').filter(|(package, _)| *package == stem);
    Ok(TypeExpr::Name(local.map_or(name.clone(), |(_, name)| name.to_owned())))
}
