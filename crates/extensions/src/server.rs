//! API extensions server: CustomResourceDefinitions, custom resources, and their controllers (upstream:
//! CustomResourceDefinitions).

use std::sync::Arc;

use kevel_controller_runtime::Client;
use kevel_registry::admission::Plugin;
use kevel_registry::resource::{Resource, Resources};
use kevel_server::delegate::Delegate;
use kevel_server::endpoints::Endpoints;
use tokio::sync::watch as signal;

use crate::controllers::Controllers;
use crate::definition::{GROUP, PLURAL};
use crate::definitions::{self, DefinitionForm};
use crate::rows::RestOptions;
use crate::terminating::Terminating;

/// Resources of the server.
#[derive(Debug)]
pub struct Extensions {
    /// Resource row of CustomResourceDefinitions.
    pub definitions: Arc<Resources>,
    /// Resource rows of custom resources, which follow the definitions.
    pub custom: Arc<Resources>,
    terminating: Arc<Terminating>,
    options: RestOptions,
}

impl Extensions {
    /// Makes a server that stores definitions in this form.
    pub fn new(options: RestOptions, form: DefinitionForm) -> Self {
        let definitions = Resources::default();
        definitions.install(definitions::row(&options, form));
        Extensions {
            definitions: Arc::new(definitions),
            custom: Arc::default(),
            terminating: Arc::default(),
            options,
        }
    }

    /// Server of custom resources, the last in the delegation chain.
    pub fn custom_resources(&self, endpoints: Arc<Endpoints>) -> Delegate {
        Delegate {
            name: "custom resources",
            resources: self.custom.clone(),
            owns_groups: false,
            endpoints,
            paths: Vec::new(),
            next: None,
        }
    }

    /// Admission plug-in for custom objects, besides the general ones.
    pub fn admission(&self) -> Arc<dyn Plugin> {
        self.terminating.clone()
    }

    /// Controllers of definitions, which write with this client.
    pub fn controllers(&self, client: Client) -> Result<Controllers, String> {
        let row: Option<Arc<Resource>> = {
            let rows = self.definitions.current();
            rows.get(GROUP, "v1", PLURAL).cloned()
        };
        let row = row.ok_or("custom resource definitions must be served")?;
        Controllers::new(
            row,
            self.custom.clone(),
            self.terminating.clone(),
            self.options.clone(),
            client,
            signal::Sender::new(false),
        )
    }
}
