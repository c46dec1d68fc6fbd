//! The API extensions server: definitions, the objects that they define, and what looks after both.

use std::sync::Arc;

use kevel_server::admission::Plugin;
use kevel_server::controller::Client;
use kevel_server::delegate::Delegate;
use kevel_server::endpoints::Endpoints;
use kevel_server::resource::{Resource, Resources};
use tokio::sync::watch as signal;

use crate::controllers::Controllers;
use crate::definition::{GROUP, PLURAL};
use crate::definitions::{self, DefinitionForm};
use crate::rows::RestOptions;
use crate::terminating::Terminating;

/// The rows of the server.
#[derive(Debug)]
pub struct Extensions {
    /// The row of definitions.
    pub definitions: Arc<Resources>,
    /// The rows of custom kinds, as many as there are definitions.
    pub custom: Arc<Resources>,
    terminating: Arc<Terminating>,
    options: RestOptions,
}

impl Extensions {
    /// A server whose definitions are stored in this form.
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

    /// The server of custom objects, the last of the chain.
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

    /// What admits custom objects, besides what admits all others.
    pub fn admission(&self) -> Arc<dyn Plugin> {
        self.terminating.clone()
    }

    /// What looks after definitions, under the name of its own client.
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
