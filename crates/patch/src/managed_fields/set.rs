//! Field sets, as trees (upstream: fieldpath.Set).

use std::cmp::Ordering;
use std::fmt;
use std::ops::ControlFlow;

use super::path::PathElement;

/// Set of fields of an object. Membership of a field is independent of that of enclosing fields.
///
/// ```
/// use kevel_patch::managed_fields::Set;
/// let a = Set::from_fields(r#"{"f:spec":{"f:replicas":{},"f:paused":{}}}"#)?;
/// let b = Set::from_fields(r#"{"f:spec":{"f:paused":{}}}"#)?;
/// assert_eq!(a.difference(&b).to_string(), ".spec.replicas");
/// assert_eq!(a.union(&b), a);
/// # Ok::<(), kevel_patch::managed_fields::FieldsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Sorted; every node is a member or has members below.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: Set,
}

impl Set {
    /// Makes an empty set.
    pub const fn new() -> Set {
        Set { nodes: Vec::new() }
    }

    /// Makes a set of these paths of field names.
    pub fn of_fields(paths: &[&[&str]]) -> Set {
        let mut set = Set::new();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[PathElement]) {
        let [element, rest @ ..] = path else { return };
        let node = self.node_mut(element);
        if rest.is_empty() { node.member = true } else { node.children.insert(rest) }
    }

    fn node_mut(&mut self, element: &PathElement) -> &mut Node {
        let i = match self.find(element) {
            Ok(i) => i,
            Err(i) => {
                let children = Set::new();
                self.nodes.insert(i, Node { element: element.clone(), member: false, children });
                i
            }
        };
        &mut self.nodes[i]
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        match self.nodes.last() {
            Some(last) if last.element < *element => Err(self.nodes.len()),
            _ => self.nodes.binary_search_by(|node| node.element.cmp(element)),
        }
    }

    pub(super) fn get(&self, element: &PathElement) -> Option<&Node> {
        self.find(element).ok().map(|i| &self.nodes[i])
    }

    /// Node of a field, by linear search: for sets with few nodes.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        let named =
            |node: &&Node| matches!(&node.element, PathElement::Field(field) if field == name);
        self.nodes.iter().find(named)
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.nodes.iter_mut()
    }

    /// Makes a set of nodes in any order; of equal elements, any membership and the last children count.
    pub(super) fn from_nodes(mut nodes: Vec<Node>) -> Set {
        nodes.retain(|node| node.member || !node.children.is_empty());
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes.sort_by(|a, b| a.element.cmp(&b.element));
            nodes.dedup_by(|later, kept| {
                let same = later.element == kept.element;
                if same {
                    kept.member |= later.member;
                    if !later.children.is_empty() {
                        std::mem::swap(&mut kept.children, &mut later.children);
                    }
                }
                same
            });
        }
        Set { nodes }
    }

    /// Whether a path is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let [element, rest @ ..] = path else { return false };
        self.get(element).is_some_and(|node| {
            if rest.is_empty() { node.member } else { node.children.contains(rest) }
        })
    }

    /// Union.
    pub fn union(&self, other: &Set) -> Set {
        join(self, other, |pair| match pair {
            (Some(a), Some(b)) => Some(Node {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
            (a, b) => a.or(b).cloned(),
        })
    }

    /// Intersection.
    pub fn intersection(&self, other: &Set) -> Set {
        // A manager's small set is looked up in the large one of a write's changes.
        let (few, many) =
            if self.nodes.len() <= other.nodes.len() { (self, other) } else { (other, self) };
        let nodes = few.nodes.iter().filter_map(|a| {
            let b = many.get(&a.element)?;
            let member = a.member && b.member;
            let children = a.children.intersection(&b.children);
            let there = member || !children.is_empty();
            there.then(|| Node { element: a.element.clone(), member, children })
        });
        Set { nodes: nodes.collect() }
    }

    /// Members of this set that are not in the other.
    pub fn difference(&self, other: &Set) -> Set {
        let mut set = self.clone();
        set.subtract(other);
        set
    }

    /// Members of this set that are neither in the other nor below one of its members.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        let mut set = self.clone();
        set.subtract_recursively(other);
        set
    }

    pub(super) fn subtract(&mut self, other: &Set) {
        self.subtract_nodes(other, |node| {
            node.member = false;
            true
        });
    }

    pub(super) fn subtract_recursively(&mut self, other: &Set) {
        self.subtract_nodes(other, |_| false);
    }

    /// Removes members of `other`. For each node that both sets have and that is a member of `other`, `keep_below` says
    /// whether the node stays for its children.
    fn subtract_nodes(&mut self, other: &Set, keep_below: fn(&mut Node) -> bool) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain_mut(|node| {
            let Some(other) = other.get(&node.element) else { return true };
            if other.member && !keep_below(node) {
                return false;
            }
            node.children.subtract_nodes(&other.children, keep_below);
            node.member || !node.children.is_empty()
        });
    }

    /// Union of two owned sets.
    pub(super) fn merged(self, other: Set) -> Set {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other } else { self };
        }
        let mut nodes = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let mut others = other.nodes.into_iter().peekable();
        for mut node in self.nodes {
            while let Some(first) = others.next_if(|other| other.element < node.element) {
                nodes.push(first);
            }
            if let Some(same) = others.next_if(|other| other.element == node.element) {
                node.member |= same.member;
                node.children = node.children.merged(same.children);
            }
            nodes.push(node);
        }
        nodes.extend(others);
        Set { nodes }
    }

    /// Union of many sets, merged pairwise, so that each set is walked only logarithmically often.
    pub(super) fn union_of(mut sets: Vec<Set>) -> Set {
        while sets.len() > 1 {
            let mut pairs = sets.into_iter();
            let mut merged = Vec::with_capacity(pairs.len().div_ceil(2));
            while let Some(first) = pairs.next() {
                merged.push(first.merged(pairs.next().unwrap_or_default()));
            }
            sets = merged;
        }
        sets.pop().unwrap_or_default()
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        let below = |node: &Node| usize::from(node.member) + node.children.count();
        self.nodes.iter().map(below).sum()
    }

    /// Calls `visit` with each member's path, one level before the levels below it, until it breaks.
    pub fn try_for_each(
        &self,
        mut visit: impl FnMut(&[&PathElement]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        type Visit<'v> = &'v mut dyn FnMut(&[&PathElement]) -> ControlFlow<()>;
        fn walk<'s>(
            set: &'s Set,
            path: &mut Vec<&'s PathElement>,
            visit: Visit<'_>,
        ) -> ControlFlow<()> {
            for node in set.nodes.iter().filter(|node| node.member) {
                path.push(&node.element);
                visit(path)?;
                path.pop();
            }
            for node in set.nodes.iter().filter(|node| !node.children.is_empty()) {
                path.push(&node.element);
                walk(&node.children, path, visit)?;
                path.pop();
            }
            ControlFlow::Continue(())
        }
        walk(self, &mut Vec::new(), &mut visit)
    }
}

/// Prints one path per line.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        let _ = self.try_for_each(|path| {
            lines.push(PathText(path).to_string());
            ControlFlow::Continue(())
        });
        f.write_str(&lines.join("\n"))
    }
}

/// Prints a path as in messages: `.spec.containers[name="a"].image`.
pub(super) struct PathText<'a>(pub &'a [&'a PathElement]);

impl fmt::Display for PathText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

/// Walks two sets side by side.
fn join<'s>(
    a: &'s Set,
    b: &'s Set,
    mut combine: impl FnMut((Option<&'s Node>, Option<&'s Node>)) -> Option<Node>,
) -> Set {
    let mut nodes = Vec::with_capacity(a.nodes.len());
    let (mut a, mut b) = (a.nodes.iter().peekable(), b.nodes.iter().peekable());
    loop {
        kevel_compute::charge(1);
        let order = match (a.peek(), b.peek()) {
            (None, None) => return Set { nodes },
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.element.cmp(&b.element),
        };
        let pair = match order {
            Ordering::Less => (a.next(), None),
            Ordering::Equal => (a.next(), b.next()),
            Ordering::Greater => (None, b.next()),
        };
        let node = combine(pair);
        nodes.extend(node.filter(|node| node.member || !node.children.is_empty()));
    }
}
