//! Kind LimitRange: validation.

use std::collections::HashSet;

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::quantity::Quantity;
use kevel_api::value::Value;
use uuid::Uuid;

use crate::kind::{Kind, MetadataChecks};
use crate::pod::resources;
use crate::rules::Rules;
use crate::validation::Field;

/// `limitranges`
pub static KIND: Kind = Kind {
    allow_create_on_update: true,
    rules: Rules {
        prepare_for_create: |range, _| give_name(range),
        validate_create: check,
        validate_update: |range, _| check(range),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::Meta,
    ..Kind::new("", "limitranges")
};

/// Gives a LimitRange without a name a random one.
fn give_name(range: &mut Value) {
    if range.str_at(&["metadata", "name"]).is_empty() {
        let name = Uuid::new_v4().to_string();
        range.make_map(&["metadata"]).insert("name", name.as_str().into());
    }
}

fn check(range: Field) {
    let mut types = HashSet::new();
    for limit in range.at("spec").at("limits").items().map(|limit| limit.get()).enumerate() {
        let (index, value) = limit;
        let limits = range.down("spec.limits");
        let field = limits.index(index);
        let limit = field.with(value);
        let ty = limit.at("type");
        type_name(ty);
        ty.unique(&mut types, ty.str());
        names(limit);
        amounts(limit);
    }
}

fn type_name(ty: Field) {
    let problems = name::is_label_key(ty.str());
    let shown = || BadValue::named_string(ty.str());
    let known = matches!(ty.str(), "Pod" | "Container" | "PersistentVolumeClaim");
    if problems.is_empty() && !ty.str().contains('/') && !known {
        ty.invalid_as(shown(), "must be a standard limit type or fully qualified");
    }
    problems.into_iter().for_each(|problem| ty.invalid_as(shown(), problem));
}

fn names(limit: Field) {
    let ty = limit.at("type").str();
    let check = |list: &str| {
        for (resource, amount) in limit.at(list).entries() {
            match ty {
                "Pod" | "Container" => resources::container_resource_name(amount, resource),
                _ => resources::resource_name(amount, resource),
            }
        }
    };
    check("max");
    check("min");
    for list in ["default", "defaultRequest"] {
        match ty {
            "Pod" if !limit.at(list).is_empty() => {
                limit.at(list).forbidden("may not be specified when `type` is 'Pod'");
            }
            "Pod" => {}
            _ => check(list),
        }
    }
    let storage = |list: &str| limit.at(list).key("storage").is_set();
    if ty == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        limit.at("limits").required(why);
    }
    check("maxLimitRequestRatio");
}

fn amounts(limit: Field) {
    let lists = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let mut resources: Vec<&str> = lists.iter().flat_map(|list| limit.at(list).keys()).collect();
    resources.sort_unstable();
    resources.dedup();
    let of_pod = limit.at("type").str() == "Pod";
    for resource in resources {
        let amount = |list: &str| {
            let unused = of_pod && list.starts_with("default");
            let amount = limit.at(list).key(resource).quantity().filter(|_| !unused)?;
            Some((amount, limit.at(list).key(resource).quantity_text()))
        };
        let wrong = |list: &str, shown: &str, why: String| {
            let shown = BadValue::named_string(shown);
            limit.at(list).key(resource).invalid_as(shown, why);
        };
        let (min, max) = (&amount("min"), &amount("max"));
        let (default, request) = (&amount("default"), &amount("defaultRequest"));
        // Pairs that must not exceed each other, with their names, the reported list and the value shown.
        for (less, less_name, more, more_name, list, shown) in [
            (min, "min value", max, "max value", "min", min),
            (min, "min value", request, "default request value", "defaultRequest", request),
            (request, "default request value", max, "max value", "defaultRequest", request),
            (
                request,
                "default request value",
                default,
                "default limit value",
                "defaultRequest",
                request,
            ),
            (min, "min value", default, "default value", "default", min),
            (default, "default value", max, "max value", "default", max),
        ] {
            if let (Some((less, less_text)), Some((more, more_text)), Some((_, shown))) =
                (less, more, shown)
                && less > more
            {
                let why =
                    format!("{less_name} {less_text} is greater than {more_name} {more_text}");
                wrong(list, shown, why);
            }
        }
        if let Some((ratio, text)) = amount("maxLimitRequestRatio") {
            if ratio < Quantity::new(1, Default::default()) {
                wrong("maxLimitRequestRatio", &text, format!("ratio {text} is less than 1"));
            }
            if let (Some((min, _)), Some((max, _))) = (min, max) {
                let most = max.milli_value() as f64 / min.milli_value() as f64;
                if ratio.milli_value() as f64 / 1000.0 > most {
                    let why = format!("ratio {text} is greater than max/min = {most:.6}");
                    wrong("maxLimitRequestRatio", &text, why);
                }
            }
        }
        let overcommitted = !resource.starts_with("hugepages-")
            && (!resource.contains('/') || resource.contains("kubernetes.io/"));
        if let (Some((default, default_text)), Some((request, text))) = (default, request)
            && !overcommitted
            && default != request
        {
            let why = format!(
                "default value {default_text} must equal to defaultRequest value {text} in \
                 {resource}"
            );
            wrong("defaultRequest", text, why);
        }
    }
}
