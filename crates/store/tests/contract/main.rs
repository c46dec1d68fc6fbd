//! The store contract, tested on every engine: embedded in a directory, embedded in memory, a real etcd when there is
//! one (in `KEVEL_ETCD`, or on the `PATH`), and one from outside of this crate.

// Test helpers may unwrap, too.
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

/// Generates one test for each engine from one test of the contract.
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
