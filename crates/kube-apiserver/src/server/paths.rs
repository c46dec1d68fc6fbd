//! Plain paths: what is served beside the resources.

use std::sync::Arc;

use kevel_auth::service_account::OPEN_ID_DOCUMENTS;
use kevel_features::{Feature, MajorMinor};
use kevel_server::delegate::Path;
use kevel_server::flowcontrol::{DUMPS, DumpHandler};
use kevel_server::handler::Handler;
use kevel_server::health::HealthHandler;
use kevel_server::metrics::Metrics;
use kevel_server::openapi::{About, PlainDocument};
use kevel_server::version::{Info, Version};
use kevel_server::zpages::{Flagz, PageHandler, Statusz};

use super::config::Config;
use super::debug_flags::{FlagIndex, Verbosity};
use super::profiles::{Profiles, ROOT};

/// Documents that other handlers serve and `/` lists with the plain paths.
const DOCUMENTS: [&str; 3] = ["/openapi/v2", "/openapi/v3", "/openapi/v3/"];
/// Paths that `/statusz` links to.
const WORTH_A_LOOK: [&str; 7] =
    ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];

/// The plain paths of a server.
pub struct PlainPaths {
    pub served: Vec<Path>,
    /// Paths that `/` lists.
    pub listed: Vec<String>,
    /// Documents of plain paths and the version, for OpenAPI.
    pub about: About,
}

impl PlainPaths {
    pub fn new(config: &Config, health: HealthHandler, metrics: &Arc<Metrics>) -> Self {
        let mut listed = health.paths();
        listed.extend(DOCUMENTS.map(str::to_owned));
        let version = config.options.effective_version.emulation.to_string();
        let enums = config.options.feature_gates.enabled(Feature::OpenAPIEnums);
        let about = About { version, plain: Vec::new(), without_enums: !enums };
        let mut paths = PlainPaths { served: Vec::new(), listed, about };
        let slis = health.slis();
        let health: Arc<dyn Handler> = Arc::new(health);
        for name in ["healthz", "livez", "readyz"] {
            paths.serve(&format!("/{name}"), health.clone());
            paths.serve(&format!("/{name}/"), health.clone());
        }
        let flags = &config.options.flags;
        let level = |MajorMinor(major, minor)| (major.to_string(), minor.to_string());
        let effective = config.options.effective_version;
        let info = Info {
            emulation: level(effective.emulation),
            min_compatibility: level(effective.min_compatibility),
            ..Info::reporting(flags.global.version.reported())
        };
        let version: Arc<dyn Handler> = Arc::new(Version::new(&info).route());
        paths.serve("/version/", version.clone());
        paths.list("/version", version);
        paths.list("/metrics", metrics.clone());
        paths.list("/metrics/slis", slis);
        let enabled = |gate: Feature| config.options.feature_gates.enabled(gate);
        let cbor = config.cbor();
        if enabled(Feature::ComponentFlagz) {
            let values = flags.flags().into_iter();
            let values = values.map(|(flag, value)| (flag.name().to_owned(), value.text()));
            paths.list("/flagz", Arc::new(PageHandler { page: Flagz(values.collect()), cbor }));
        }
        if enabled(Feature::ComponentStatusz) {
            let worth_a_look = WORTH_A_LOOK.map(str::to_owned).to_vec();
            let page = Statusz::new(info, worth_a_look, config.options.clock.clone());
            paths.list("/statusz", Arc::new(PageHandler { page, cbor }));
        }
        if flags.features.profiling {
            paths.serve(ROOT.trim_end_matches('/'), Arc::new(Profiles));
            paths.serve(ROOT, Arc::new(Profiles));
            paths.serve("/debug/flags", Arc::new(FlagIndex));
            paths.serve("/debug/flags/", Arc::new(FlagIndex));
            paths.serve("/debug/flags/v", Arc::new(Verbosity));
        }
        if let Some(flow_control) = &config.flow_control {
            for (path, dump) in DUMPS {
                let flow_control = flow_control.clone();
                paths.serve(path, Arc::new(DumpHandler { flow_control, dump }));
            }
        }
        for path in config.authentication.open_id_paths(&config.options) {
            if !path.path.ends_with('/') {
                paths.listed.push(path.path.clone());
                paths.about.plain.extend(documented(&path.path));
            }
            paths.served.push(path);
        }
        paths
    }

    fn serve(&mut self, path: &str, handler: Arc<dyn Handler>) {
        self.served.push(Path { path: path.to_owned(), handler });
    }

    fn list(&mut self, path: &str, handler: Arc<dyn Handler>) {
        self.listed.push(path.to_owned());
        self.serve(path, handler);
    }
}

/// OpenAPI document of a path.
fn documented(path: &str) -> Option<PlainDocument> {
    OPEN_ID_DOCUMENTS.into_iter().find(|document| document.path == path)
}
