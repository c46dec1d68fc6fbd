//! The auditor, from the options.

use std::path::Path;
use std::sync::Arc;

use kevel_clock::Clock;
use kevel_server::audit::{
    AuditMetrics, Auditor, Backend, Batch, Buffered, Errors, Format, IgnoreErrors, Log, Output,
    Policy, Rotation, Throttle, Truncate, Union, Webhook,
};
use kevel_server::egress::Dialer;
use kevel_server::metrics::Metrics;
use kevel_server::webhook::{Backoff, Client, Endpoint};

use super::config::duration;
use crate::options::{Audit, AuditBackend, CompletedOptions};

/// Auditor of the server; `None` without a policy or a backend. `dialer` reaches the webhook.
pub fn auditor(
    options: &CompletedOptions,
    dialer: Dialer,
    metrics: &Metrics,
) -> Result<Option<Arc<Auditor>>, String> {
    let flags = &options.flags.audit;
    let counts = AuditMetrics::new(metrics);
    if flags.audit_policy_file.is_empty() {
        if !flags.audit_log_path.is_empty() || !flags.audit_webhook_config_file.is_empty() {
            tracing::info!("No audit policy file provided, no events will be recorded");
        }
        return Ok(None);
    }
    let policy = Policy::load(Path::new(&flags.audit_policy_file))
        .map_err(|error| format!("loading audit policy file: {error}"))?;
    let errors = Errors::new(metrics);
    let backends = [log(flags, &options.clock, &errors)?, webhook(flags, dialer, &errors)?];
    let backends: Vec<_> = backends.into_iter().flatten().collect();
    if backends.is_empty() {
        return Ok(None);
    }
    let backend = Union(backends);
    tracing::info!("Using audit backend: {}", backend.name());
    Ok(Some(Arc::new(Auditor::new(policy, Box::new(backend), counts, options.clock.clone()))))
}

fn log(flags: &Audit, clock: &Clock, errors: &Errors) -> Result<Option<Box<dyn Backend>>, String> {
    if flags.audit_log_path.is_empty() {
        return Ok(None);
    }
    let rotation = Rotation {
        max_bytes: count(flags.audit_log_maxsize).saturating_mul(1 << 20) as u64,
        max_age_days: flags.audit_log_maxage,
        max_backups: count(flags.audit_log_maxbackup),
        compress: flags.audit_log_compress,
    };
    let output = Output::open(&flags.audit_log_path, rotation, clock)?;
    let format = match flags.audit_log_format.as_str() {
        "legacy" => Format::Legacy,
        _ => Format::Json,
    };
    // Writers beside each other would only wait for the file.
    Ok(Some(wrapped(Log::new(output, format, errors.clone()), &flags.log(), false, errors)))
}

/// The webhook that takes events, in its mode.
pub(super) fn webhook(
    flags: &Audit,
    dialer: Dialer,
    errors: &Errors,
) -> Result<Option<Box<dyn Backend>>, String> {
    if flags.audit_webhook_config_file.is_empty() {
        return Ok(None);
    }
    let client = Endpoint::from_kubeconfig(Path::new(&flags.audit_webhook_config_file));
    let client = client.and_then(|endpoint| Client::new(Endpoint { dialer, ..endpoint }));
    let webhook = Webhook {
        client: client.map_err(|error| format!("initializing audit webhook: {error}"))?,
        backoff: Backoff::starting_with(duration(flags.audit_webhook_initial_backoff)),
        errors: errors.clone(),
    };
    Ok(Some(wrapped(webhook, &flags.webhook(), true, errors)))
}

/// A backend in the mode that is asked for.
fn wrapped(
    backend: impl Backend,
    flags: &AuditBackend<'_>,
    concurrent: bool,
    errors: &Errors,
) -> Box<dyn Backend> {
    let backend: Box<dyn Backend> = match flags.mode {
        "blocking-strict" => Box::new(backend),
        "blocking" => Box::new(IgnoreErrors(backend)),
        _ => {
            let throttle = flags.throttle.map(|(qps, burst)| Throttle { qps, burst: count(burst) });
            let batch = Batch {
                buffer_size: count(flags.buffer_size),
                max_size: count(flags.max_size),
                max_wait: duration(flags.max_wait),
                throttle,
                concurrent,
            };
            Box::new(Buffered::start(backend, batch, errors.clone()))
        }
    };
    if !flags.truncates {
        return backend;
    }
    let (max_batch, max_event) = flags.truncate;
    Box::new(Truncate {
        delegate: backend,
        max_event: count(max_event),
        max_batch: count(max_batch),
        errors: errors.clone(),
    })
}

/// Number of a flag; a negative one becomes zero.
fn count(flag: i64) -> usize {
    usize::try_from(flag).unwrap_or(0)
}
