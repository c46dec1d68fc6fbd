//! The store contract, held against every engine: embedded in a directory, embedded in memory, a real etcd
//! when there is one (in `KEVEL_ETCD`, or on the `PATH`), and one that is not of this crate.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod concurrency;
mod cut_off;
mod engines;
mod outside;
mod reads;
mod reconnect;
mod tls;
mod updates;
mod watches;
mod writes;

/// One test for each engine out of one statement of the contract.
macro_rules! contract {
    ($($(#[$doc:meta])* async fn $name:ident($store:ident: &Store) $body:block)*) => {
        mod contract {
            #[allow(unused_imports)]
            use super::*;
            use crate::engines::Store;
            $($(#[$doc])* pub async fn $name($store: &Store) $body)*
        }
        crate::contract!(@engine embedded: $($name)*);
        crate::contract!(@engine memory: $($name)*);
        crate::contract!(@engine etcd: $($name)*);
        crate::contract!(@engine outside: $($name)*);
    };
    (@engine $engine:ident: $($name:ident)*) => {
        mod $engine {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(store) = crate::engines::Store::$engine().await {
                    super::contract::$name(&store).await;
                    store.close().await;
                }
            })*
        }
    };
}
pub(crate) use contract;
