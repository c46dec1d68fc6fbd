//! Providers in error messages: as the reference shows them, but without secrets, which must not be logged.

use kevel_api::field_error::BadValue;
use kevel_api::quote::quote;

use super::{Key, KmsConfiguration, ProviderConfiguration};

pub(super) fn provider(provider: &ProviderConfiguration) -> BadValue {
    let keys = |keys: &Option<Vec<Key>>| match keys {
        None => "null".to_owned(),
        Some(keys) => {
            let shown = keys
                .iter()
                .map(|key| format!(r#"{{"Name":{},"Secret":"REDACTED"}}"#, quote(&key.name)));
            format!(r#"{{"Keys":[{}]}}"#, shown.collect::<Vec<_>>().join(","))
        }
    };
    let ProviderConfiguration { aesgcm, aescbc, secretbox, identity, kms } = provider;
    BadValue::Text(format!(
        r#"{{"AESGCM":{},"AESCBC":{},"Secretbox":{},"Identity":{},"KMS":{}}}"#,
        keys(aesgcm),
        keys(aescbc),
        keys(secretbox),
        if *identity { "{}" } else { "null" },
        kms.as_ref().map_or_else(|| "null".to_owned(), self::kms),
    ))
}

fn kms(kms: &KmsConfiguration) -> String {
    let size = kms.cache_size.map_or_else(|| "null".to_owned(), |size| size.to_string());
    format!(
        r#"{{"APIVersion":{},"Name":{},"CacheSize":{size},"Endpoint":{},"Timeout":"{}"}}"#,
        quote(&kms.api_version),
        quote(&kms.name),
        quote(&kms.endpoint),
        kms.timeout,
    )
}
