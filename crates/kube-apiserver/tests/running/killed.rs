//! kill -9 while there is much to do. `KEVEL_CRASH_ROUNDS` sets the number of kills.

use std::sync::Arc;

use crate::written::Written;
use crate::{Server, amount};

const WRITERS: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_kill() {
    let mut server = Server::start(&[]).await;
    let rounds = amount("KEVEL_CRASH_ROUNDS", 3);
    let mut acknowledged = 0;
    for round in 0..rounds {
        let written = Arc::new(Written::default());
        let mut writers = written.begin(&server, WRITERS);
        written.more(100 + 37 * (round % 7)).await;
        let folder = server.kill().await;
        written.stop();
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
        server = Server::start_on(folder, &[]).await;
        written.check(&server).await;
        acknowledged += written.acknowledged.load(std::sync::atomic::Ordering::SeqCst);
        assert!(!server.log().contains("panicked"), "{}", server.log());
    }
    println!("{rounds} kills, {acknowledged} acknowledged writes, none lost");
}
