//! Cost of encryption at rest: encrypting and decrypting a Secret of 1 KiB, metrics included.
//!
//! `cargo run --profile dist -p kevel-bench --bin encryption`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kevel_encryption::config::EncryptionConfiguration;
use kevel_encryption::{Context, EncryptionMetrics, Location, Options, Transformers};
use kevel_server::metrics::Metrics;

const KEY: &[u8] = b"/registry/secrets/default/token";
const VALUE_BYTES: usize = 1024;
const ROUNDS: u32 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!("{:10} {:>12} {:>12}", "", "write", "read");
    for provider in ["aesgcm", "aescbc", "secretbox", "identity"] {
        let keys = match provider {
            "identity" => "{}",
            _ => "{keys: [{name: a, secret: dGhpcyBpcyBwYXNzd29yZCB0aGlzIGlzIHBhc3N3b3I=}]}",
        };
        let text = format!(
            "{{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: \
             [{{resources: [secrets], providers: [{{{provider}: {keys}}}]}}]}}"
        );
        let metrics = Arc::new(EncryptionMetrics::new(&Metrics::default()));
        let location =
            Location { prefix: "/registry/secrets/".to_owned(), group: "", resource: "secrets" };
        let options = Options {
            root: "/registry/".to_owned(),
            locations: vec![location],
            ..Options::default()
        };
        let config = EncryptionConfiguration::read(text.as_bytes())?;
        let transformers = Transformers::new(&config, &options, &metrics)?;
        let plain = vec![b'x'; VALUE_BYTES];
        let write = || {
            let (resource, providers) = transformers.of(KEY)?;
            let context = Context { key: KEY, resource: &resource, metrics: &metrics };
            runtime.block_on(providers.to_storage(black_box(&plain), context)).ok()
        };
        let stored = Bytes::from(write().ok_or("nothing was written")?);
        let read = || {
            let (resource, providers) = transformers.of(KEY)?;
            let context = Context { key: KEY, resource: &resource, metrics: &metrics };
            let read = runtime.block_on(providers.from_storage(black_box(&stored), context));
            read.ok().map(|read| read.value)
        };
        assert_eq!(read().as_deref(), Some(plain.as_slice()));
        let written = time(|| drop(black_box(write())));
        let read = time(|| drop(black_box(read())));
        println!("{provider:10} {written:9.2} us {read:9.2} us");
    }
    Ok(())
}

/// Microseconds that a round takes.
fn time(round: impl Fn()) -> f64 {
    let started = Instant::now();
    (0..ROUNDS).for_each(|_| round());
    started.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
}
