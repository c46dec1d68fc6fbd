//! JSON encoding of audit events.

use std::net::IpAddr;

use kevel_api::json_string::write_json_string;

use super::{Event, ObjectReference};
use kevel_registry::user::User;

impl Event {
    /// Writes the fields in the reference's order, and the closing brace.
    pub(super) fn write_fields(&self, out: &mut Vec<u8>) {
        member(out, "level", self.level.name());
        member(out, ",auditID", &self.audit_id);
        member(out, ",stage", self.stage.name());
        member(out, ",requestURI", &self.request_uri);
        member(out, ",verb", self.verb.as_str());
        key(out, ",user");
        match &self.user {
            Some(user) => write_user(out, user),
            None => out.extend_from_slice(b"{}"),
        }
        if let Some(user) = &self.impersonated_user {
            key(out, ",impersonatedUser");
            write_user(out, user);
        }
        if !self.impersonation_constraint.is_empty() {
            key(out, ",authenticationMetadata");
            members(out, &[("impersonationConstraint", &self.impersonation_constraint)]);
        }
        if !self.source_ips.is_empty() {
            key(out, ",sourceIPs");
            strings(out, self.source_ips.iter().map(IpAddr::to_string));
        }
        if !self.user_agent.is_empty() {
            member(out, ",userAgent", &self.user_agent);
        }
        if let Some(object) = &self.object_ref {
            key(out, ",objectRef");
            object.write(out);
        }
        let documents = [
            (",responseStatus", self.response_status.as_ref().map(|status| &status.json)),
            (",requestObject", self.request_object.as_ref()),
            (",responseObject", self.response_object.as_ref()),
        ];
        for (name, document) in documents {
            if let Some(document) = document {
                key(out, name);
                out.extend_from_slice(document);
            }
        }
        member(out, ",requestReceivedTimestamp", &self.request_received_timestamp.to_string());
        member(out, ",stageTimestamp", &self.stage_timestamp.to_string());
        if !self.annotations.is_empty() {
            key(out, ",annotations");
            let annotations = self.annotations.iter();
            let annotations: Vec<_> = annotations.map(|(key, value)| (&**key, &**value)).collect();
            map(out, &annotations, write_json_string);
        }
        out.push(b'}');
    }
}

impl ObjectReference {
    fn write(&self, out: &mut Vec<u8>) {
        let fields = [
            ("resource", &*self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiGroup", &self.api_group),
            ("apiVersion", &self.api_version),
            ("resourceVersion", &self.resource_version),
            ("subresource", &self.subresource),
        ];
        members(out, &fields);
    }
}

fn write_user(out: &mut Vec<u8>, user: &User) {
    members(out, &[("username", &*user.name), ("uid", &user.uid)]);
    out.pop();
    let comma = |out: &mut Vec<u8>| {
        if !out.ends_with(b"{") {
            out.push(b',');
        }
    };
    if !user.groups.is_empty() {
        comma(out);
        key(out, "groups");
        strings(out, user.groups.iter());
    }
    if !user.extra.is_empty() {
        comma(out);
        key(out, "extra");
        let mut extra: Vec<_> = user.extra.iter().map(|(key, values)| (&**key, values)).collect();
        extra.sort_by_key(|(key, _)| *key);
        map(out, &extra, |out, values| strings(out, values.iter()));
    }
    out.push(b'}');
}

/// Writes a key; a leading comma is written before its quotes.
fn key(out: &mut Vec<u8>, name: &str) {
    let name = match name.strip_prefix(',') {
        Some(name) => {
            out.push(b',');
            name
        }
        None => name,
    };
    write_json_string(out, name);
    out.push(b':');
}

fn member(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    write_json_string(out, value);
}

/// Writes an object of strings, without empty ones.
fn members(out: &mut Vec<u8>, fields: &[(&str, &str)]) {
    let fields: Vec<_> = fields.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
    map(out, &fields, write_json_string);
}

fn map<T: Copy>(out: &mut Vec<u8>, entries: &[(&str, T)], write: impl Fn(&mut Vec<u8>, T)) {
    out.push(b'{');
    for (index, (name, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json_string(out, name);
        out.push(b':');
        write(out, *value);
    }
    out.push(b'}');
}

fn strings<S: AsRef<str>>(out: &mut Vec<u8>, items: impl Iterator<Item = S>) {
    out.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json_string(out, item.as_ref());
    }
    out.push(b']');
}
