//! Waiting for what must come, with a limit: a test that hangs says nothing.

use std::time::Duration;

/// Nothing in a test takes this long on a busy machine unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long is waited between two looks. Not a delay that anything depends on.
const BETWEEN: Duration = Duration::from_millis(5);

/// Looks again and again until something holds. `what` is what the test says if it never does.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looks = async {
        while !holds().await {
            tokio::time::sleep(BETWEEN).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, looks).await;
    assert!(done.is_ok(), "never within {PATIENCE:?}: {what}");
}

/// What comes of a future that must end.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("this takes too long")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "never within 60s: the sun is green")]
    async fn what_never_holds_fails() {
        until("the sun is green", async || false).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "this takes too long")]
    async fn what_never_ends_fails() {
        soon(std::future::pending::<()>()).await;
    }

    #[tokio::test]
    async fn looks_are_taken_until_one_holds() {
        let mut looks = 0;
        until("the third look", async || {
            looks += 1;
            looks == 3
        })
        .await;
        assert_eq!(looks, 3);
    }
}
