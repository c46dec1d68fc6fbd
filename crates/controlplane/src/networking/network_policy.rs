//! Network policies.

use std::collections::HashSet;

use kevel_api::ip::{self, Cidr};
use kevel_api::value::Value;
use kevel_api::warning::WarningList;

use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::{self, Field};

/// Network policies.
pub static KIND: Kind = Kind {
    counts_generation: true,
    counts_empty_lists: true,
    columns: columns::networking::NETWORK_POLICY,
    rules: Rules {
        validate_create: |policy| check(policy.at("spec"), false, &HashSet::new()),
        validate_update,
        warnings,
        ..Rules::NONE
    },
    ..Kind::new("networking.k8s.io", "networkpolicies")
};

fn validate_update(policy: Field, old: Field) {
    let was = old.at("spec");
    let odd = was.at("podSelector").fails(|selector| selector.label_selector(false));
    let mut known = HashSet::new();
    each_block(was, |block| {
        known.insert(block.at("cidr").str());
        known.extend(block.at("except").strings());
    });
    check(policy.at("spec"), odd, &known);
}

/// Checks a policy; networks that were there before may be of an odd form.
fn check(spec: Field, any_values: bool, known: &HashSet<&str>) {
    spec.at("podSelector").label_selector(any_values);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.at(rules).items() {
            rule.at("ports").items().for_each(check_port);
            for peer in rule.at(peers).items() {
                check_peer(peer, any_values, known);
            }
        }
    }
    let types = spec.at("policyTypes");
    if types.len() > 2 {
        return types.invalid("may not specify more than two policyTypes");
    }
    types.items().for_each(|ty| ty.one_of(&["Ingress", "Egress"]));
}

fn check_port(rule: Field) {
    let (protocol, port, end) = (rule.at("protocol"), rule.at("port"), rule.at("endPort"));
    if protocol.is_set() {
        protocol.one_of(&["TCP", "UDP", "SCTP"]);
    }
    match port.get() {
        None if end.is_set() => end.invalid("may not be specified when `port` is not specified"),
        None => {}
        Some(Value::String(_)) => {
            if end.is_set() {
                end.invalid("may not be specified when `port` is non-numeric");
            }
            port.port_or_name();
        }
        Some(_) => {
            port.port_or_name();
            if end.is_set() {
                if end.int() < port.int() {
                    end.invalid_as(port.int(), "must be greater than or equal to `port`");
                }
                end.in_range(1, 65_535);
            }
        }
    }
}

fn check_peer(peer: Field, any_values: bool, known: &HashSet<&str>) {
    let block = peer.at("ipBlock");
    let selectors = ["podSelector", "namespaceSelector"];
    selectors.iter().for_each(|selector| peer.at(selector).label_selector(any_values));
    let selected = selectors.iter().any(|selector| peer.at(selector).is_set());
    if block.is_set() {
        check_block(block, known);
    }
    match (selected, block.is_set()) {
        (false, false) => peer.required("must specify a peer"),
        (true, true) => peer.forbidden("may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn check_block(block: Field, known: &HashSet<&str>) {
    let valid = |field: Field| {
        let strict = field.strict_ips() && !known.contains(field.str());
        field.extend(ip::is_valid_cidr_for_legacy_field(&field.path(), field.str(), strict));
        Cidr::parse_sloppy(field.str())
    };
    let cidr = block.at("cidr");
    if !cidr.must("") {
        return;
    }
    let Some(whole) = valid(cidr) else { return };
    for except in block.at("except").items() {
        let Some(part) = valid(except) else { continue };
        if !whole.contains(part.first()) || whole.prefix_length >= part.prefix_length {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}

fn each_block<'v>(spec: Field<'v, '_>, mut visit: impl FnMut(Field<'v, '_>)) {
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.at(rules).items() {
            for peer in rule.at(peers).items() {
                if peer.at("ipBlock").is_set() {
                    visit(peer.at("ipBlock"));
                }
            }
        }
    }
}

fn warnings(policy: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = WarningList::default();
    validation::errors(policy, |policy| {
        each_block(policy.at("spec"), |block| {
            let cidr = block.at("cidr");
            warnings.extend(ip::cidr_warnings(&cidr.path(), cidr.str()));
            for except in block.at("except").items() {
                warnings.extend(ip::cidr_warnings(&except.path(), except.str()));
            }
        });
    });
    warnings.into_said()
}
