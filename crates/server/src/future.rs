//! Futures behind a pointer, for traits whose implementations are chosen while the server runs.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Waits for all of some futures at once, or for the first that fails: the others then end where they are.
pub async fn try_join_all<E>(mut futures: Vec<Pending<'_, Result<(), E>>>) -> Result<(), E> {
    std::future::poll_fn(|context| {
        let mut failed = None;
        futures.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(error)) => {
                failed = Some(error);
                false
            }
            Poll::Pending => true,
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if futures.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}
