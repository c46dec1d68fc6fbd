//! Fields of a resource or subresource that writers may own (upstream: fieldpath.Filter).

use super::path::PathElement;
use super::set::{Node, Set};

/// Filter of owned fields: fields that the resource's strategy resets are not owned.
#[derive(Clone, Debug, Default)]
pub enum Filter {
    /// All fields.
    #[default]
    All,
    /// All except these fields and everything below.
    Exclude(Set),
    /// Only fields on the way to or below one of these paths, in which `None` is any element.
    Include(Vec<Vec<Option<PathElement>>>),
}

impl Filter {
    /// All except these fields: `Filter::excluding(&[&["status"]])`.
    pub fn excluding(paths: &[&[&str]]) -> Filter {
        Filter::Exclude(Set::of_fields(paths))
    }

    pub(super) fn apply(&self, mut set: Set) -> Set {
        match self {
            Filter::All => set,
            Filter::Exclude(fields) => {
                set.subtract_recursively(fields);
                set
            }
            Filter::Include(paths) => {
                let paths: Vec<_> = paths.iter().map(Vec::as_slice).collect();
                include(&set, &paths)
            }
        }
    }
}

fn include(set: &Set, paths: &[&[Option<PathElement>]]) -> Set {
    if paths.iter().any(|path| path.is_empty()) {
        return set.clone();
    }
    let nodes = set.nodes().iter().filter_map(|node| {
        let matching = paths.iter().filter_map(|path| match path {
            [first, rest @ ..] if first.as_ref().is_none_or(|e| *e == node.element) => Some(rest),
            _ => None,
        });
        let matching: Vec<_> = matching.collect();
        if matching.is_empty() {
            return None;
        }
        let children = include(&node.children, &matching);
        Some(Node { element: node.element.clone(), member: node.member, children })
    });
    Set::from_nodes(nodes.collect())
}
