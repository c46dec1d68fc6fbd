//! The admission plug-ins of the control plane, one file or folder each.

mod namespace_lifecycle;
mod node_restriction;

pub use namespace_lifecycle::NamespaceLifecycle;
pub use node_restriction::NodeRestriction;

use std::sync::Arc;

use kevel_server::admission::Plugin;
use kevel_server::authorization::Authorizer;
use kevel_server::resource::Rows;
use kevel_server::storage::Storage;

/// What plug-ins are made of.
pub struct Context<'a> {
    /// Where the objects are kept that decide.
    pub rows: &'a Rows,
    /// The whole server's.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// Whether a feature gate is on.
    pub feature: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Where a resource that every cluster has is kept.
    fn storage(&self, group: &str, plural: &str) -> Result<Arc<Storage>, String> {
        self.served(group, plural).ok_or_else(|| format!("{plural} must be served"))
    }

    /// Where a resource is kept, if it is served.
    fn served(&self, group: &str, plural: &str) -> Option<Arc<Storage>> {
        self.rows.get(group, "v1", plural).and_then(|row| row.storage.clone())
    }
}

type Made = Result<Arc<dyn Plugin>, String>;

/// How each plug-in is made. Which of them run, and in which order, is the command line's business.
const PLUGINS: &[(&str, fn(&Context<'_>) -> Made)] = &[
    ("NamespaceLifecycle", |context| {
        Ok(Arc::new(NamespaceLifecycle::new(context.storage("", "namespaces")?)))
    }),
    ("NodeRestriction", |context| Ok(Arc::new(NodeRestriction::new(context)?))),
];

/// The plug-ins of these names, in their order; those that others make are left out.
pub fn plugins(names: &[&str], context: &Context<'_>) -> Result<Vec<Arc<dyn Plugin>>, String> {
    let made = |name: &&str| PLUGINS.iter().find(|(plugin, _)| plugin == name);
    names.iter().filter_map(made).map(|(_, make)| make(context)).collect()
}
