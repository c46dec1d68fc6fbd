//! Rows by name: attacks that were found by hand.

use kevel_conformance::Result;
use kevel_conformance::client::Request;
use serde_json::{Value, json};

use crate::attack::{TOGETHER, send};
use crate::fill::{StoredBytes, list, map, store, store_largest};
use crate::table::CostTable;
use crate::world::{ATTACKER, HostileCluster, NAMESPACE, binding, by_attacker, collection};

/// An attack.
#[derive(Clone, Copy, Debug)]
pub struct NamedRow {
    pub name: &'static str,
    kind: AttackKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttackKind {
    Roles,
    ClaimSelectors,
    Eviction,
    ImpersonateExtra,
    LimitRanges,
    PullSecrets,
}

pub const ROWS: [NamedRow; 6] = [
    NamedRow { name: "roles", kind: AttackKind::Roles },
    NamedRow { name: "resource claim selectors", kind: AttackKind::ClaimSelectors },
    NamedRow { name: "eviction", kind: AttackKind::Eviction },
    NamedRow { name: "impersonate-extra headers", kind: AttackKind::ImpersonateExtra },
    NamedRow { name: "limit ranges", kind: AttackKind::LimitRanges },
    NamedRow { name: "image pull secrets", kind: AttackKind::PullSecrets },
];

const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// Objects of a megabyte: what etcd takes at most is half as much again.
const LARGE: usize = 1_000_000;
const PDBS: usize = 40;
const LIMIT_RANGES: usize = 20;
/// Rules of the attacker's own Role: a megabyte of them.
const RULES: usize = 19_000;
/// Bytes of imagePullSecrets that are tried, the largest first: a body has three megabytes at most, an object 1.5 MiB, of
/// which an account needs half a kilobyte beside its secrets, and a Pod more.
const PULL_SECRETS: [usize; 3] = [3_000_000, 1_572_000, 1_571_000];
/// Letters in the name of a secret: with shorter ones an account has more secrets than the decoder takes objects.
const SECRET_NAME: usize = 40;
/// Code of an object that admission makes larger than etcd takes.
const TOO_LARGE: u16 = 500;
/// Headers of one request: a megabyte as HTTP/2 counts them, which is the reference's limit.
const HEADERS: usize = 17_500;
/// Calls of `matches` in a ResourceClaim, and in each of its expressions, which may have 10 KiB.
const MATCHES: usize = 1_500;
const MATCHES_OF_AN_EXPRESSION: usize = 250;

/// A request on state that is there.
struct Attack {
    request: Request,
    stored: StoredBytes,
    expected: ExpectedAnswer,
}

/// Answer that a request must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedAnswer {
    Any,
    Refused,
    Code(u16),
}

impl ExpectedAnswer {
    fn is(self, code: u16) -> bool {
        match self {
            ExpectedAnswer::Any => true,
            ExpectedAnswer::Refused => (400..500).contains(&code),
            ExpectedAnswer::Code(expected) => code == expected,
        }
    }
}

/// Fills, then sends the request one at a time and several at a time.
pub async fn run(row: &NamedRow, world: &HostileCluster, table: &mut CostTable) -> Result<()> {
    let attack = match row.kind {
        AttackKind::Roles => roles(world).await?,
        AttackKind::ClaimSelectors => claim_selectors(world).await?,
        AttackKind::Eviction => eviction(world).await?,
        AttackKind::ImpersonateExtra => impersonate_extra(world),
        AttackKind::LimitRanges => limit_ranges(world).await?,
        AttackKind::PullSecrets => pull_secrets(world).await?,
    };
    for at_a_time in [1, TOGETHER] {
        let (codes, load) = send(world, &table.limits, &attack.request, at_a_time).await?;
        let mut wrong = Vec::new();
        if codes.contains(&0) {
            wrong.push("no answer".to_owned());
        }
        if let Some(code) = codes.iter().find(|code| !attack.expected.is(**code)) {
            wrong.push(format!("answer {code}, not {:?}", attack.expected));
        }
        let name = format!("{}, {at_a_time} at a time", row.name);
        let StoredBytes { objects, bytes } = attack.stored;
        let note = format!("{objects} objects of {} KB stored, answer {}", bytes / 1000, codes[0]);
        table.add(&name, &load, at_a_time, &wrong, &note);
    }
    Ok(())
}

/// A Role of 300 resources and 60 verbs, by an administrator of a namespace with 19,000 rules.
async fn roles(world: &HostileCluster) -> Result<Attack> {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let rules = vec![rule; world.part(RULES)];
    let role = json!({"metadata": {"name": "own"}, "rules": rules});
    let path = collection(RBAC, "roles");
    let stored = store(world, &path, &role, world.part(LARGE)).await?;
    // A right that comes after the others shows that all are in effect.
    let marker = json!({"metadata": {"name": "marker"},
        "rules": [{"apiGroups": [""], "resources": ["marker"], "verbs": ["list"]}]});
    world.admin.json(Request::post(&path, &marker)).await?;
    for name in ["own", "marker"] {
        let binding = binding(name, "Role", name, ATTACKER);
        world.admin.json(Request::post(collection(RBAC, "rolebindings"), &binding)).await?;
    }
    world.until(by_attacker(Request::get(collection("v1", "marker"))), 404).await?;
    let names = |letter: &str, count: usize| -> Vec<String> {
        (0..count).map(|number| format!("{letter}{number}")).collect()
    };
    let resources = names("r", world.part(300));
    let rule = json!({"apiGroups": ["x"], "resources": resources, "verbs": names("v", 60)});
    let role = json!({"metadata": {"name": "new"}, "rules": [rule]});
    let request = by_attacker(Request::post(path, &role));
    Ok(Attack { request, stored, expected: ExpectedAnswer::Refused })
}

/// A ResourceClaim whose selectors compile large regular expressions.
async fn claim_selectors(world: &HostileCluster) -> Result<Attack> {
    world.grant_everything().await?;
    let call = r#""a".matches("(a{1,100}){1,100}")"#;
    let matches = world.part(MATCHES);
    let selectors: Vec<Value> = (0..matches.div_ceil(MATCHES_OF_AN_EXPRESSION))
        .map(|number| {
            let rest = matches - number * MATCHES_OF_AN_EXPRESSION;
            let calls = vec![call; rest.min(MATCHES_OF_AN_EXPRESSION)];
            json!({"cel": {"expression": calls.join("&&")}})
        })
        .collect();
    let exactly = json!({"deviceClassName": "c", "selectors": selectors});
    let claim = json!({"metadata": {"generateName": "claim-"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
    let path = collection("resource.k8s.io/v1", "resourceclaims");
    let request = by_attacker(Request::post(path, &claim));
    Ok(Attack { request, stored: StoredBytes::default(), expected: ExpectedAnswer::Any })
}

/// A dry run of an eviction that 40 PodDisruptionBudgets of a megabyte select.
async fn eviction(world: &HostileCluster) -> Result<Attack> {
    let pods = collection("v1", "pods");
    let pod = json!({"metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.admin.json(Request::post(&pods, &pod)).await?;
    // Budgets do not protect a Pod that is pending.
    let running = json!({"status": {"phase": "Running"}});
    let status = format!("{pods}/p/status");
    world.admin.json(Request::patch(status, "merge-patch+json", &running)).await?;
    let size = world.part(LARGE);
    let values = list(size, |index| format!("\"v{index:06}\""));
    let path = collection("policy/v1", "poddisruptionbudgets");
    let mut stored = StoredBytes::default();
    for number in 0..PDBS {
        let selector =
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": values}]});
        let budget = json!({"metadata": {"name": format!("b{number}")},
            "spec": {"minAvailable": 1, "selector": selector}});
        add(&mut stored, store(world, &path, &budget, size).await?);
    }
    let eviction = json!({"metadata": {"name": "p", "namespace": NAMESPACE},
        "deleteOptions": {"dryRun": ["All"]}});
    let request = by_attacker(Request::post(format!("{pods}/p/eviction"), &eviction));
    Ok(Attack { request, stored, expected: ExpectedAnswer::Any })
}

/// A request without credentials, with thousands of headers that each ask for a right.
fn impersonate_extra(world: &HostileCluster) -> Attack {
    let mut request = Request::get("/api").with_header("impersonate-user", "a");
    let headers = (0..world.part(HEADERS))
        .map(|number| (format!("impersonate-extra-a{number:05}"), "x".to_owned()));
    request.headers.extend(headers);
    Attack { request, stored: StoredBytes::default(), expected: ExpectedAnswer::Refused }
}

/// A Pod in a namespace with 20 LimitRanges of a megabyte. They are of a type of their own, so that none refuses the Pod
/// before the others are read.
async fn limit_ranges(world: &HostileCluster) -> Result<Attack> {
    world.grant_everything().await?;
    let size = world.part(LARGE);
    let most = map(size, |index| format!("\"x.io/r{index:06}\":\"1\""));
    let path = collection("v1", "limitranges");
    let mut stored = StoredBytes::default();
    for number in 0..LIMIT_RANGES {
        let range = json!({"metadata": {"name": format!("l{number}")},
            "spec": {"limits": [{"type": "x.io/any", "max": most}]}});
        add(&mut stored, store(world, &path, &range, size).await?);
    }
    let pod = json!({"metadata": {"generateName": "p-"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let request = by_attacker(Request::post(collection("v1", "pods"), &pod));
    Ok(Attack { request, stored, expected: ExpectedAnswer::Any })
}

/// A Pod of the largest ServiceAccount, whose imagePullSecrets it gets: more than a Pod may have, unless by `--short`.
async fn pull_secrets(world: &HostileCluster) -> Result<Attack> {
    let account = |size: usize| {
        let name = "a".repeat(SECRET_NAME);
        let secrets = list(size, |_| json!({"name": name}).to_string());
        json!({"metadata": {"name": "large"}, "imagePullSecrets": secrets})
    };
    let path = collection("v1", "serviceaccounts");
    let stored = store_largest(world, &path, &PULL_SECRETS, account).await?;
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"serviceAccountName": "large",
        "containers": [{"name": "c", "image": "i"}]}});
    let request = by_attacker(Request::post(collection("v1", "pods"), &pod));
    let expected =
        if world.is_short() { ExpectedAnswer::Any } else { ExpectedAnswer::Code(TOO_LARGE) };
    Ok(Attack { request, stored, expected })
}

fn add(sum: &mut StoredBytes, one: StoredBytes) {
    sum.objects += one.objects;
    sum.bytes += one.bytes;
}
