//! Boxed futures, for traits with dynamic dispatch.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Waits for all futures concurrently. The result is the first failure, after all have ended.
pub async fn join_all<E>(mut futures: Vec<Pending<'_, Result<(), E>>>) -> Result<(), E> {
    let mut result = Ok(());
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(ended) => {
                if result.is_ok() {
                    result = ended;
                }
                false
            }
            Poll::Pending => true,
        });
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    result
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn one_that_fails_does_not_end_the_others() {
        let ended = AtomicUsize::new(0);
        let one = |number: u32| -> Pending<'_, Result<(), u32>> {
            let ended = &ended;
            Box::pin(async move {
                for _ in 0..number {
                    tokio::task::yield_now().await;
                }
                ended.fetch_add(1, Ordering::Relaxed);
                if number % 2 == 1 { Err(number) } else { Ok(()) }
            })
        };
        assert_eq!(join_all((0..5).map(one).collect()).await, Err(1));
        assert_eq!(ended.load(Ordering::Relaxed), 5);
        assert_eq!(join_all(Vec::<Pending<'_, Result<(), u32>>>::new()).await, Ok(()));
    }
}
