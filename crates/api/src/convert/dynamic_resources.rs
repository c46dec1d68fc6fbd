//! Conversion of dynamic resource allocation: v1beta1 has requests and devices in another structure than later
//! versions.

use super::ReadJson;
use crate::value::{Map, Value};

/// Fields of a v1beta1 request that later versions have in `exactly`.
const EXACTLY: [&str; 7] = [
    "adminAccess",
    "allocationMode",
    "capacity",
    "count",
    "deviceClassName",
    "selectors",
    "tolerations",
];

pub(super) fn claim_from_v1beta1(claim: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    requests(claim, &["devices", "requests"], gather_exactly);
    Ok(())
}

pub(super) fn claim_to_v1beta1(claim: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    requests(claim, &["devices", "requests"], spread_exactly);
    Ok(())
}

pub(super) fn template_from_v1beta1(template: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    requests(template, &["spec", "devices", "requests"], gather_exactly);
    Ok(())
}

pub(super) fn template_to_v1beta1(template: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    requests(template, &["spec", "devices", "requests"], spread_exactly);
    Ok(())
}

/// Moves the fields of a v1beta1 device out of `basic`.
pub(super) fn slice_from_v1beta1(slice: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    requests(slice, &["devices"], |device| {
        if let Some(Value::Map(basic)) = device.remove("basic") {
            device_fields(basic, device);
        }
    });
    Ok(())
}

pub(super) fn slice_to_v1beta1(slice: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    requests(slice, &["devices"], |device| {
        let mut basic = Map::new();
        let name = device.remove("name");
        device_fields(std::mem::take(device), &mut basic);
        if let Some(name) = name {
            device.insert("name", name);
        }
        device.insert("basic", Value::Map(basic));
    });
    Ok(())
}

fn device_fields(from: Map, to: &mut Map) {
    for (field, value) in from.into_entries() {
        to.insert(field, value);
    }
}

fn gather_exactly(request: &mut Map) {
    let mut exactly = Map::new();
    for field in EXACTLY {
        if let Some(value) = request.remove(field) {
            exactly.insert(field, value);
        }
    }
    if !exactly.is_empty() {
        request.insert("exactly", Value::Map(exactly));
    }
}

fn spread_exactly(request: &mut Map) {
    if let Some(Value::Map(exactly)) = request.remove("exactly") {
        device_fields(exactly, request);
    }
}

/// Changes each struct of a list below `spec`.
fn requests(object: &mut Map, path: &[&str], change: impl Fn(&mut Map)) {
    let list = object.get_mut("spec").and_then(|spec| spec.at_mut(path));
    let list = list.and_then(Value::as_list_mut).into_iter().flatten();
    list.filter_map(Value::as_map_mut).for_each(change);
}
