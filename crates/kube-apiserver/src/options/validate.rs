//! Validation of all options, with all errors at once.

use super::{CompletedOptions, StorageKind};
use kevel_api::quote::quote;
use kevel_features::Feature;
use std::collections::BTreeSet;
use std::fs;

impl CompletedOptions {
    /// Everything that is wrong, in the reference's order and words.
    pub fn validate(&self) -> Vec<String> {
        let (options, gates, given) = (&self.flags, &self.feature_gates, &self.flags.given);
        let mut errors = options.generic.validate();
        errors.extend(self.version_errors());
        errors.extend(self.storage_error());
        errors.extend(options.etcd.validate());
        if options.features.enable_priority_and_fairness {
            errors.extend(options.api_enablement.fairness_error());
            errors.extend(self.concurrency_error());
        }
        errors.extend(options.secure_serving.validate());
        errors.extend(options.authentication.validate(given, gates, self.signs_externally()));
        errors.extend(self.overlapping_authorities());
        errors.extend(options.authorization.validate(given));
        errors.extend(options.audit.validate());
        errors.extend(options.admission.validate(given));
        errors.extend(options.api_enablement.validate(self.emulation()));
        errors.extend(self.token_request_error());
        errors.extend(options.metrics.validate());
        errors.extend(options.misc.peer_errors(gates));
        errors.extend(self.signing_errors());
        errors.extend(options.misc.leadership_errors());
        errors.extend(self.service_ip_errors());
        errors.extend(options.misc.node_port_errors());
        errors.extend(self.family_error());
        errors.extend(options.misc.reconciler_errors());
        errors.extend(options.egress_selector.validate());
        errors.extend(options.traces.validate());
        errors.extend(options.kevel.validate());
        errors.extend(options.refused());
        errors.extend(gates.refused());
        errors
    }

    fn version_errors(&self) -> Vec<String> {
        let generic = &self.flags.generic;
        let errors = self.effective_version.validate();
        let mut errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        for (name, set) in [
            ("EmulationForwardCompatible", generic.emulation_forward_compatible),
            (
                "RuntimeConfigEmulationForwardCompatible",
                generic.runtime_config_emulation_forward_compatible,
            ),
        ] {
            if set && !self.effective_version.is_emulated() {
                errors.push(format!(
                    "ServerRunOptions.{name} cannot be set to true if the emulation version is the \
                     same as the binary version"
                ));
            }
        }
        errors
    }

    /// Etcd needs servers, and nothing else does.
    fn storage_error(&self) -> Option<String> {
        let servers = !self.flags.etcd.etcd_servers.is_empty();
        let overrides = !self.flags.etcd.etcd_servers_overrides.is_empty();
        match self.storage {
            StorageKind::Etcd if !servers => Some("--etcd-servers must be specified".to_owned()),
            StorageKind::Embedded | StorageKind::Memory if servers => {
                Some("--etcd-servers can only be specified with --storage=etcd".to_owned())
            }
            StorageKind::Embedded | StorageKind::Memory if overrides => Some(
                "--etcd-servers-overrides can only be specified with --storage=etcd".to_owned(),
            ),
            _ => None,
        }
    }

    fn concurrency_error(&self) -> Option<String> {
        let generic = &self.flags.generic;
        let (reads, writes) =
            (generic.max_requests_inflight, generic.max_mutating_requests_inflight);
        (reads == 0 && writes == 0).then(|| {
            format!(
                "invalid configuration: MaxRequestsInFlight={reads} and \
                 MaxMutatingRequestsInFlight={writes}; they must add up to something positive"
            )
        })
    }

    /// Clients with a certificate of an authority that also vouches for proxies could name any
    /// user in a header.
    fn overlapping_authorities(&self) -> Option<String> {
        let authentication = &self.flags.authentication;
        if !authentication.requestheader_allowed_names.is_empty() {
            return None;
        }
        let clients = certificates(&authentication.client_ca_file);
        let proxies = certificates(&authentication.requestheader_client_ca_file);
        (!clients.is_disjoint(&proxies)).then(|| {
            "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
             --requestheader-allowed-names must be specified to ensure regular client certificates \
             cannot set authenticating proxy headers for arbitrary users"
                .to_owned()
        })
    }

    fn has_issuer(&self) -> bool {
        let issuers = &self.flags.authentication.service_account_issuer;
        issuers.first().is_some_and(|issuer| !issuer.is_empty())
    }

    fn signs_externally(&self) -> bool {
        self.has_issuer() && !self.flags.misc.service_account_signing_endpoint.is_empty()
    }

    fn token_request_error(&self) -> Option<String> {
        let signing_key = !self.flags.misc.service_account_signing_key_file.is_empty();
        if self.has_issuer() && (signing_key || self.signs_externally()) {
            return None;
        }
        let audiences = self.flags.given.has("api_audiences");
        let error = if signing_key || self.has_issuer() || audiences {
            "--service-account-signing-key-file, --service-account-issuer, and --api-audiences \
             should be specified together"
        } else {
            "--service-account-signing-key-file and --service-account-issuer are required flags"
        };
        Some(error.to_owned())
    }

    fn signing_errors(&self) -> Vec<String> {
        let misc = &self.flags.misc;
        let endpoint = misc.service_account_signing_endpoint.as_str();
        let mut errors = Vec::new();
        if endpoint.is_empty() {
            return errors;
        }
        let key_files = &self.flags.authentication.service_account_key_file;
        if !misc.service_account_signing_key_file.is_empty() || !key_files.is_empty() {
            errors.push(
                "can't set `--service-account-signing-key-file` and/or \
                 `--service-account-key-file` with `--service-account-signing-endpoint` (They are \
                 mutually exclusive)"
                    .to_owned(),
            );
        }
        let gate = Feature::ExternalServiceAccountTokenSigner;
        if !self.feature_gates.enabled(gate) {
            errors.push(format!(
                "setting `--service-account-signing-endpoint` requires enabling {gate} feature gate"
            ));
        }
        let name = |part: &str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
            !part.is_empty() && part.bytes().all(allowed)
        };
        if endpoint
            .strip_prefix('@')
            .is_some_and(|abstract_name| !abstract_name.split('.').all(name))
        {
            errors.push(format!(
                "invalid value {} passed for `--service-account-signing-endpoint`, when prefixed \
                 with @ must be a valid abstract socket name",
                quote(endpoint)
            ));
        }
        errors
    }

    fn service_ip_errors(&self) -> Vec<String> {
        let gates = &self.feature_gates;
        let bitmap = !gates.enabled(Feature::MultiCIDRServiceAllocator)
            || !gates.enabled(Feature::DisableAllocatorDualWrite);
        self.service_ips.validate(&self.flags.misc.service_cluster_ip_range, bitmap)
    }

    /// The kubernetes service has one family, and its endpoint is the server's address.
    fn family_error(&self) -> Option<String> {
        let (service, address) = (self.service_ips.primary, self.advertise_address);
        let reconciled = self.flags.misc.endpoint_reconciler_type != "none";
        (reconciled && service.address.is_ipv4() != address.is_ipv4()).then(|| {
            format!(
                "service IP family {} must match public address family {}",
                quote(&service.to_string()),
                quote(&address.to_string())
            )
        })
    }
}

/// The largest file of authorities that is looked into.
const MAX_BUNDLE: u64 = 4 << 20;

/// The certificates in a PEM file, none if it cannot be read.
fn certificates(path: &str) -> BTreeSet<String> {
    let readable = fs::metadata(path).is_ok_and(|file| file.len() <= MAX_BUNDLE);
    let text = if readable { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = blocks.filter_map(|block| block.split_once("-----END CERTIFICATE-----"));
    bodies.map(|(body, _)| body.split_whitespace().collect()).collect()
}
