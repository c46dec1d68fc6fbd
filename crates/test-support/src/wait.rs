//! Waiting for conditions, with a limit: a test that hangs reports nothing.

use std::panic::Location;
use std::time::Duration;

/// Limit of every wait: nothing in a test takes this long on a busy machine unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between two checks. Nothing depends on it.
const BETWEEN: Duration = Duration::from_millis(5);

/// Polls until a condition holds. Otherwise the test fails and names the waiting line.
#[track_caller]
pub fn until(mut holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let looks = async {
            while !holds().await {
                tokio::time::sleep(BETWEEN).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, looks).await;
        assert!(done.is_ok(), "never within {PATIENCE:?}: what {caller} waits for");
    }
}

/// Result of a future that must end within the limit.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("this takes too long")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "src/wait.rs")]
    async fn what_never_holds_fails_and_says_where() {
        until(async || false).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "this takes too long")]
    async fn what_never_ends_fails() {
        soon(std::future::pending::<()>()).await;
    }

    #[tokio::test]
    async fn looks_are_taken_until_one_holds() {
        let mut looks = 0;
        until(async || {
            looks += 1;
            looks == 3
        })
        .await;
        assert_eq!(looks, 3);
    }
}
