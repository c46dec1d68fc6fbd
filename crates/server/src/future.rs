//! Futures behind a pointer, for traits whose implementations are chosen while the server runs.

use std::future::Future;
use std::pin::Pin;

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
