//! rbac.authorization.k8s.io: Role, ClusterRole, RoleBinding and ClusterRoleBinding.

use kevel_api::name;

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::{Field, null};

const GROUP: &str = "rbac.authorization.k8s.io";

/// `roles`
pub static ROLE: Kind = Kind {
    validate_name: name::is_path_segment_name,
    allow_create_on_update: true,
    rules: Rules {
        validate_create: |role| policy_rules(role, true),
        validate_update: |role, _| policy_rules(role, true),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("rbac.authorization.k8s.io", "roles")
};

/// `clusterroles`
pub static CLUSTER_ROLE: Kind = Kind {
    validate_name: name::is_path_segment_name,
    allow_create_on_update: true,
    rules: Rules {
        validate_create: |role| cluster_role(role, false),
        validate_update: |role, old| {
            let aggregation = old.at("aggregationRule");
            let selectors = aggregation.at("clusterRoleSelectors");
            let odd = selectors.items().any(|selector| selector.has_odd_values());
            cluster_role(role, odd);
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("rbac.authorization.k8s.io", "clusterroles")
};

/// `rolebindings`
pub static ROLE_BINDING: Kind = Kind {
    validate_name: name::is_path_segment_name,
    allow_create_on_update: true,
    columns: columns::rbac::BINDINGS,
    rules: Rules {
        validate_create: |binding| role_binding(binding, true),
        validate_update: |binding, old| {
            role_binding(binding, true);
            binding.metadata_again();
            same_role(binding, old);
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("rbac.authorization.k8s.io", "rolebindings")
};

/// `clusterrolebindings`
pub static CLUSTER_ROLE_BINDING: Kind = Kind {
    validate_name: name::is_path_segment_name,
    allow_create_on_update: true,
    columns: columns::rbac::BINDINGS,
    rules: Rules {
        validate_create: |binding| role_binding(binding, false),
        validate_update: |binding, old| {
            role_binding(binding, false);
            binding.metadata_again();
            same_role(binding, old);
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("rbac.authorization.k8s.io", "clusterrolebindings")
};

fn cluster_role(role: Field, any_values: bool) {
    policy_rules(role, false);
    let aggregation = role.at("aggregationRule");
    if aggregation.is_absent() {
        return;
    }
    let selectors = aggregation.at("clusterRoleSelectors");
    selectors.must("at least one clusterRoleSelector required if aggregationRule is non-nil");
    for selector in selectors.items() {
        selector.label_selector(any_values);
        if selector.selects(&role).is_none() {
            selector.invalid_as(null(), "invalid label selector.");
        }
    }
}

fn policy_rules(role: Field, namespaced: bool) {
    role.at("rules").items().for_each(|rule| policy_rule(rule, namespaced));
}

fn policy_rule(rule: Field, namespaced: bool) {
    rule.at("verbs").must("verbs must contain at least one value");
    let urls = rule.at("nonResourceURLs");
    if !urls.is_empty() {
        if namespaced {
            urls.invalid("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !rule.at(name).is_empty())
        {
            urls.invalid("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    rule.at("apiGroups").must("resource rules must supply at least one api group");
    rule.at("resources").must("resource rules must supply at least one resource");
}

fn role_binding(binding: Field, namespaced: bool) {
    let role = binding.at("roleRef");
    role.at("apiGroup").one_of(&[GROUP]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    role.at("kind").one_of(kinds);
    let name = role.at("name");
    if name.must("") {
        name.object_name(name::is_path_segment_name);
    }
    binding.at("subjects").items().for_each(|found| subject(found, namespaced));
}

fn same_role(binding: Field, old: Field) {
    let role = binding.at("roleRef");
    if !role.same(&old.at("roleRef")) {
        role.invalid("cannot change roleRef");
    }
}

fn subject(subject: Field, namespaced: bool) {
    let (name, group) = (subject.at("name"), subject.at("apiGroup"));
    let named = name.must("");
    let kind = subject.at("kind");
    match kind.str() {
        "ServiceAccount" => {
            if named {
                name.object_name(name::name_is_dns_subdomain);
            }
            group.one_of(&[""]);
            if !namespaced {
                subject.at("namespace").must("");
            }
        }
        "User" | "Group" => group.one_of(&[GROUP]),
        _ => kind.unsupported(&["ServiceAccount", "User", "Group"]),
    }
}
