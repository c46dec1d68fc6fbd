//! An API server with a kind of its own: stored, listed, watched, applied and explained as the kinds of a cluster are.
//!
//! ```sh
//! cargo run -p sample-apiserver                     # data, keys and a kubeconfig in ./wardle-data
//! kubectl --kubeconfig wardle-data/admin.kubeconfig apply -f examples/sample-apiserver/fish.yaml
//! ```
//!
//! Behind the aggregation layer of a cluster it takes users from the aggregator's headers and asks the cluster who may do
//! what: `sample-apiserver --listen ADDRESS --data-dir FOLDER --requestheader-client-ca-file FILE --kubeconfig FILE`.

use std::error::Error;

use kevel_generic_apiserver::{
    ApiKind, FieldError, FieldErrors, GenericApiServer, ObjectRules, Path, Value, stop_requested,
};

/// Rules of Flunders that no schema has.
struct FlunderRules;

impl ObjectRules for FlunderRules {
    fn validate_create(&self, flunder: &Value) -> FieldErrors {
        let (name, reference) = (flunder.str_at(&["metadata", "name"]), reference(flunder));
        let to_itself = kind(flunder) == "Flunder" && name == reference;
        let error = || {
            let spec = Path::new("spec");
            FieldError::invalid(
                &spec.child("reference"),
                reference,
                "must not be the object itself",
            )
        };
        to_itself.then(error).into_iter().collect()
    }

    fn warnings(&self, flunder: &Value, old: Option<&Value>) -> Vec<String> {
        let changed = old.is_some_and(|old| reference(old) != reference(flunder));
        changed
            .then(|| "the fish is told about its new reference later".to_owned())
            .into_iter()
            .collect()
    }
}

fn reference(flunder: &Value) -> &str {
    flunder.str_at(&["spec", "reference"])
}

fn kind(flunder: &Value) -> &str {
    flunder.str_at(&["spec", "referenceType"])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let flunders = ApiKind::from_yaml(include_str!("../flunders.yaml"))?.with_rules(FlunderRules);
    let mut server = GenericApiServer::new("wardle").kind(flunders);
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
        server = match flag.as_str() {
            "--listen" => server.listen(value.parse()?),
            "--data-dir" => server.data_dir(value),
            "--host" => server.host(value),
            "--requestheader-client-ca-file" => server.request_header_ca(value),
            "--kubeconfig" => server.delegate_authorization(value),
            _ => return Err(format!("unknown flag {flag}").into()),
        };
    }
    let running = server.start().await?;
    println!("serving on {}", running.address());
    println!("kubectl --kubeconfig {} get flunders", running.kubeconfig().display());
    stop_requested().await?;
    running.stop().await?;
    Ok(())
}
