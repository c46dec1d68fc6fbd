//! The program, running, as its clients see it.
#![allow(clippy::unwrap_used)]

mod bundles;
mod certificates;
mod clean_start;
mod damage;
mod disk;
mod earlier;
mod endless_logs;
mod etcd_killed;
mod etcd_overrides;
mod files;
mod full_disk;
mod fuzzed;
mod hanging_webhook;
mod health;
mod hostile;
mod killed;
mod migrated;
mod observed;
mod protocol;
mod shutdown;
mod slowloris;
mod stand_in;
mod start;
mod troubled_folder;
mod unread;
mod unreadable_definitions;
mod watches;
mod without_ipv4;
mod written;

use kevel_test_support::process::Server;
use kevel_test_support::{soon, wire as client};

/// Number of repetitions: few in every run of the tests, more where the variable `name` says so.
fn amount(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
