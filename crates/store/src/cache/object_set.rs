//! A persistent set of objects in order of key, which knows how many objects there are before a key.
//!
//! A B+ tree whose nodes are shared between copies, as those of `imbl::OrdSet`, with the number of objects below each
//! branch: positions, and the size of any range, cost as much as a lookup.

#[cfg(test)]
mod model;

use std::cmp::Ordering;
use std::slice;
use std::sync::Arc;

use super::Object;

/// Maximum number of objects of a leaf, and of branches of an inner node. A change copies one node of each level, and
/// counts another reference to everything in it.
const FANOUT: usize = 16;
/// Number below which a node is joined with its neighbour, if both fit into one.
const SPARSE: usize = FANOUT / 2;

/// Objects in order of key, each key once. A clone costs a reference count.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectSet {
    root: Arc<ObjectNode>,
}

#[derive(Clone, Debug)]
enum ObjectNode {
    Leaf(Vec<HashedObject>),
    Inner(Vec<Branch>),
}

/// An object with a hash of its key: a lookup reads the keys of few other objects, each of which is a cache miss.
#[derive(Clone, Debug)]
struct HashedObject {
    hash: u32,
    object: Arc<Object>,
}

impl HashedObject {
    fn new(object: Arc<Object>) -> Self {
        HashedObject { hash: hash_of(object.key()), object }
    }

    fn key(&self) -> &str {
        self.object.key()
    }
}

fn hash_of(key: &str) -> u32 {
    crc32c::crc32c(key.as_bytes())
}

#[derive(Clone, Debug)]
struct Branch {
    /// Lower bound of the branch's keys, above all keys of the branch before.
    least: Arc<str>,
    /// Number of objects.
    len: usize,
    node: Arc<ObjectNode>,
}

/// A place between two keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edge<'k> {
    Before(&'k str),
    After(&'k str),
}

impl Edge<'_> {
    /// Whether an object with this key stands on the left of the edge.
    pub fn is_behind(self, key: &str) -> bool {
        match self {
            Edge::Before(edge) => key < edge,
            Edge::After(edge) => key <= edge,
        }
    }
}

impl Default for ObjectNode {
    fn default() -> Self {
        ObjectNode::Leaf(Vec::new())
    }
}

impl ObjectSet {
    /// Set of objects that are in order of key.
    pub fn from_sorted(objects: Vec<Arc<Object>>) -> Self {
        let objects = objects.into_iter().map(HashedObject::new);
        let mut level = chunks(objects, ObjectNode::Leaf);
        while level.len() > 1 {
            level = chunks(level.into_iter(), ObjectNode::Inner);
        }
        level.pop().map_or_else(ObjectSet::default, |root| ObjectSet { root: root.node })
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.root.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether two sets are the same copy. Empty ones are.
    pub fn is_same(&self, other: &ObjectSet) -> bool {
        Arc::ptr_eq(&self.root, &other.root) || self.is_empty() && other.is_empty()
    }

    /// Object of a key.
    pub fn get(&self, key: &str) -> Option<&Arc<Object>> {
        let (mut node, hash) = (&*self.root, hash_of(key));
        loop {
            match node {
                ObjectNode::Leaf(objects) => {
                    let mut alike = objects.iter().filter(|one| one.hash == hash);
                    return alike.find(|one| one.key() == key).map(|one| &one.object);
                }
                ObjectNode::Inner(branches) => node = &branches.get(branch_of(branches, key))?.node,
            }
        }
    }

    /// Adds an object; returns the one of the same key that it replaces.
    pub fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let (replaced, split) = Arc::make_mut(&mut self.root).insert(object);
        if let Some(right) = split {
            let left = Branch::new_shared(self.root.clone());
            self.root = Arc::new(ObjectNode::Inner(vec![left, right]));
        }
        replaced
    }

    /// Removes and returns the object of a key.
    pub fn remove(&mut self, key: &str) -> Option<Arc<Object>> {
        // Nothing is copied for a key that is not there.
        self.get(key)?;
        let removed = Arc::make_mut(&mut self.root).remove(key);
        while let ObjectNode::Inner(branches) = &*self.root
            && let [only] = branches.as_slice()
        {
            self.root = only.node.clone();
        }
        removed
    }

    /// Number of objects on the left of an edge.
    pub fn rank(&self, edge: Edge<'_>) -> usize {
        let (mut node, mut rank) = (&*self.root, 0);
        loop {
            match node {
                ObjectNode::Leaf(objects) => {
                    return rank + objects.partition_point(|object| edge.is_behind(object.key()));
                }
                ObjectNode::Inner(branches) => {
                    let at = edge_branch(branches, edge);
                    rank += branches.iter().take(at).map(|branch| branch.len).sum::<usize>();
                    let Some(branch) = branches.get(at) else { return rank };
                    node = &branch.node;
                }
            }
        }
    }

    /// At most `count` objects from an edge on.
    pub fn from(&self, edge: Edge<'_>, count: usize) -> SetObjects<'_> {
        let mut objects = SetObjects { inner: Vec::new(), leaf: [].iter(), left: count };
        let mut node = &*self.root;
        loop {
            match node {
                ObjectNode::Leaf(leaf) => {
                    let at = leaf.partition_point(|object| edge.is_behind(object.key()));
                    objects.leaf = leaf.get(at..).unwrap_or_default().iter();
                    return objects;
                }
                ObjectNode::Inner(branches) => {
                    let mut rest = branches.iter();
                    let Some(branch) = rest.nth(edge_branch(branches, edge)) else {
                        return objects;
                    };
                    objects.inner.push(rest);
                    node = &branch.node;
                }
            }
        }
    }

    /// All objects.
    pub fn iter(&self) -> SetObjects<'_> {
        self.from(Edge::Before(""), usize::MAX)
    }
}

/// Branches with full nodes of these parts.
fn chunks<T>(
    mut parts: impl ExactSizeIterator<Item = T>,
    node: fn(Vec<T>) -> ObjectNode,
) -> Vec<Branch> {
    let mut branches = Vec::with_capacity(parts.len().div_ceil(FANOUT));
    loop {
        kevel_compute::charge(FANOUT);
        let chunk: Vec<T> = parts.by_ref().take(FANOUT).collect();
        if chunk.is_empty() {
            return branches;
        }
        branches.push(Branch::new(node(chunk)));
    }
}

/// The branch that a key belongs to.
fn branch_of(branches: &[Branch], key: &str) -> usize {
    branches.partition_point(|branch| *branch.least <= *key).saturating_sub(1)
}

/// The branch that an edge falls into.
fn edge_branch(branches: &[Branch], edge: Edge<'_>) -> usize {
    let begins_behind = |branch: &Branch| match edge {
        Edge::Before(key) => *branch.least < *key,
        Edge::After(key) => *branch.least <= *key,
    };
    branches.partition_point(begins_behind).saturating_sub(1)
}

impl Branch {
    fn new(node: ObjectNode) -> Self {
        Branch::new_shared(Arc::new(node))
    }

    fn new_shared(node: Arc<ObjectNode>) -> Self {
        Branch { least: node.least(), len: node.len(), node }
    }
}

impl ObjectNode {
    fn len(&self) -> usize {
        match self {
            ObjectNode::Leaf(objects) => objects.len(),
            ObjectNode::Inner(branches) => branches.iter().map(|branch| branch.len).sum(),
        }
    }

    fn least(&self) -> Arc<str> {
        match self {
            ObjectNode::Leaf(objects) => objects.first().map(|one| one.object.shared_key().clone()),
            ObjectNode::Inner(branches) => branches.first().map(|branch| branch.least.clone()),
        }
        .unwrap_or_default()
    }

    /// Number of objects or branches of the node itself.
    fn width(&self) -> usize {
        match self {
            ObjectNode::Leaf(objects) => objects.len(),
            ObjectNode::Inner(branches) => branches.len(),
        }
    }

    /// Adds an object. Returns the replaced one, and the right part of the node if it was split.
    fn insert(&mut self, object: Arc<Object>) -> (Option<Arc<Object>>, Option<Branch>) {
        match self {
            ObjectNode::Leaf(objects) => {
                match objects.binary_search_by(|one| one.key().cmp(object.key())) {
                    Ok(at) => (Some(std::mem::replace(&mut objects[at].object, object)), None),
                    Err(at) => {
                        objects.insert(at, HashedObject::new(object));
                        (None, split(objects, at).map(|right| Branch::new(ObjectNode::Leaf(right))))
                    }
                }
            }
            ObjectNode::Inner(branches) => {
                let at = branch_of(branches, object.key());
                let Some(branch) = branches.get_mut(at) else { return (None, None) };
                if *object.key() < *branch.least {
                    branch.least = object.shared_key().clone();
                }
                let (replaced, right) = Arc::make_mut(&mut branch.node).insert(object);
                branch.len += usize::from(replaced.is_none());
                let Some(right) = right else { return (replaced, None) };
                branch.len -= right.len;
                branches.insert(at + 1, right);
                let right = split(branches, at + 1);
                (replaced, right.map(|right| Branch::new(ObjectNode::Inner(right))))
            }
        }
    }

    /// Removes the object of a key.
    fn remove(&mut self, key: &str) -> Option<Arc<Object>> {
        match self {
            ObjectNode::Leaf(objects) => {
                let at = objects.binary_search_by(|object| object.key().cmp(key)).ok()?;
                Some(objects.remove(at).object)
            }
            ObjectNode::Inner(branches) => {
                let at = branch_of(branches, key);
                let branch = branches.get_mut(at)?;
                let removed = Arc::make_mut(&mut branch.node).remove(key)?;
                branch.len -= 1;
                let width = branch.node.width();
                if width == 0 {
                    branches.remove(at);
                } else if width < SPARSE {
                    join(branches, at);
                }
                Some(removed)
            }
        }
    }

    /// Appends the content of the node on the right, which is of the same level.
    fn append(&mut self, right: &ObjectNode) {
        match (self, right) {
            (ObjectNode::Leaf(left), ObjectNode::Leaf(right)) => left.extend_from_slice(right),
            (ObjectNode::Inner(left), ObjectNode::Inner(right)) => left.extend_from_slice(right),
            _ => {}
        }
    }
}

/// The right part of a node that has become too wide. A node that grew at its end keeps all but the last: a set that
/// is filled in order has full nodes.
fn split<T>(parts: &mut Vec<T>, grown_at: usize) -> Option<Vec<T>> {
    let at = match (parts.len() > FANOUT, grown_at + 1 == parts.len()) {
        (false, _) => return None,
        (true, true) => FANOUT,
        (true, false) => parts.len() / 2,
    };
    Some(parts.split_off(at))
}

/// Joins a sparse branch with a neighbour if both fit into one node.
fn join(branches: &mut Vec<Branch>, at: usize) {
    let fits = |left: usize| match branches.get(left..left + 2) {
        Some([left, right]) => left.node.width() + right.node.width() <= FANOUT,
        _ => false,
    };
    let left = [at.checked_sub(1), Some(at)].into_iter().flatten().find(|left| fits(*left));
    let Some(left) = left else { return };
    let right = branches.remove(left + 1);
    if let Some(branch) = branches.get_mut(left) {
        Arc::make_mut(&mut branch.node).append(&right.node);
        branch.len += right.len;
    }
}

/// Objects of a set in order of key.
#[derive(Clone, Debug)]
pub(super) struct SetObjects<'s> {
    /// Remaining children of the nodes on the path from the root.
    inner: Vec<slice::Iter<'s, Branch>>,
    leaf: slice::Iter<'s, HashedObject>,
    /// Number of objects that are left at most.
    left: usize,
}

impl<'s> Iterator for SetObjects<'s> {
    type Item = &'s Arc<Object>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        loop {
            if let Some(one) = self.leaf.next() {
                return Some(&one.object);
            }
            let mut node = loop {
                match self.inner.last_mut()?.next() {
                    Some(branch) => break &*branch.node,
                    None => self.inner.pop(),
                };
            };
            self.leaf = loop {
                match node {
                    ObjectNode::Leaf(leaf) => break leaf.iter(),
                    ObjectNode::Inner(branches) => {
                        let mut rest = branches.iter();
                        node = &rest.next()?.node;
                        self.inner.push(rest);
                    }
                }
            };
        }
    }
}

/// Objects of several sets that have none in common, in order of key.
#[derive(Debug)]
pub(super) struct MergedObjects<'s>(Vec<(&'s Arc<Object>, SetObjects<'s>)>);

impl<'s> MergedObjects<'s> {
    pub fn new(sets: impl Iterator<Item = SetObjects<'s>>) -> Self {
        MergedObjects(sets.filter_map(|mut set| Some((set.next()?, set))).collect())
    }
}

impl<'s> Iterator for MergedObjects<'s> {
    type Item = &'s Arc<Object>;

    fn next(&mut self) -> Option<Self::Item> {
        let order = |(one, _): &(&Arc<Object>, _), (other, _): &(&Arc<Object>, _)| -> Ordering {
            one.key().cmp(other.key())
        };
        let (at, _) = self.0.iter().enumerate().min_by(|(_, one), (_, other)| order(one, other))?;
        let (first, rest) = self.0.get_mut(at)?;
        let found = *first;
        match rest.next() {
            Some(next) => *first = next,
            None => drop(self.0.swap_remove(at)),
        }
        Some(found)
    }
}
