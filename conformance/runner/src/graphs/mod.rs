//! Random graphs of owners, deleted in all modes: the garbage collectors of Kevel and of kube-controller-manager
//! leave the same objects, step by step; after kills of the server, every deletion still ends.

mod plan;
mod play;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plan::DeletionGraph;
use play::{Play, each, prepare, settled};

use crate::Result;
use crate::control_plane::{Component, ControlPlane, Server, cache};
use crate::random::source::Source;

/// Number of graphs that are on a server at a time.
const WAVE: usize = 250;
/// Times that a graph with different states is played again: some end in several ways, on the reference too.
const AGAIN: usize = 3;
/// Distance between the numbers of a graph that is played again.
const ATTEMPT: usize = 1_000_000;
/// Limit on printed differences.
const SHOWN: usize = 10;
/// Time limit for all deletions to end after the last kill.
const PATIENCE: Duration = Duration::from_secs(60);

/// States of a graph after its creation and after each step.
type States = Vec<Vec<String>>;

/// Plays graphs on both servers. Returns whether their states are equal.
pub async fn compare(seed: u64, count: usize) -> Result<bool> {
    let mut planes = Vec::new();
    for server in Server::ALL {
        planes.push(start(server).await?);
    }
    let [reference, kevel] = &planes[..] else { return Err("two servers".into()) };
    let outcome = compare_on(reference, kevel, seed, count).await;
    for plane in &mut planes {
        plane.check()?;
        plane.stop_all()?;
    }
    outcome
}

async fn start(server: Server) -> Result<ControlPlane> {
    let mut plane = ControlPlane::prepare(&cache().join("run/graphs").join(server.name()))?;
    // The controller manager asks no more than 20 times a second otherwise.
    plane.component_flags = vec!["--kube-api-qps=1000".into(), "--kube-api-burst=2000".into()];
    if server == Server::Kevel {
        plane.flags.push("--controllers=*".to_owned());
    }
    plane.start_server(server, server == Server::Reference).await?;
    if server == Server::Reference {
        plane.start(Component::Controllers).await?;
    }
    prepare(&plane.client(1)?).await?;
    Ok(plane)
}

async fn compare_on(
    reference: &ControlPlane,
    kevel: &ControlPlane,
    seed: u64,
    count: usize,
) -> Result<bool> {
    let (mut equal, mut unlike) = (0, Vec::new());
    for begin in (0..count).step_by(WAVE) {
        let numbers: Vec<_> = (begin..count.min(begin + WAVE)).collect();
        let (theirs, ours) = tokio::try_join!(
            states(reference, seed, &numbers, 0),
            states(kevel, seed, &numbers, 0)
        )?;
        let different = numbers.iter().filter(|number| theirs.get(number) != ours.get(number));
        let before = unlike.len();
        unlike.extend(different.copied());
        equal += numbers.len() - (unlike.len() - before);
        println!("{} graphs: {equal} equal, {} not at once", begin + numbers.len(), unlike.len());
    }
    let different = again(reference, kevel, seed, &unlike).await?;
    let by_chance = unlike.len() - different.len();
    println!(
        "{equal} equal, {by_chance} equal in one of {AGAIN} more attempts, {} different",
        different.len()
    );
    for (number, (theirs, ours)) in different.iter().take(SHOWN) {
        println!("\ngraph {number}: {:#?}", DeletionGraph::random(seed, *number));
        let step = theirs.iter().zip(ours).position(|(theirs, ours)| theirs != ours);
        let step = step.unwrap_or_default();
        println!("after step {step}:");
        for (name, states) in [("reference", theirs), ("kevel", ours)] {
            println!("  {name}: {:#?}", states.get(step));
        }
    }
    Ok(different.is_empty())
}

/// Plays graphs again that were different; returns those that had no state in common in any attempt.
async fn again(
    reference: &ControlPlane,
    kevel: &ControlPlane,
    seed: u64,
    numbers: &[usize],
) -> Result<BTreeMap<usize, (States, States)>> {
    let mut seen: BTreeMap<usize, (BTreeSet<States>, BTreeSet<States>)> = BTreeMap::new();
    for attempt in 1..=AGAIN {
        let (mut theirs, mut ours) = tokio::try_join!(
            states(reference, seed, numbers, attempt),
            states(kevel, seed, numbers, attempt)
        )?;
        for number in numbers {
            let (reference, kevel) = seen.entry(*number).or_default();
            reference.extend(theirs.remove(number));
            kevel.extend(ours.remove(number));
        }
    }
    seen.retain(|_, (reference, kevel)| reference.is_disjoint(kevel));
    let first = |states: BTreeSet<States>| states.into_iter().next().unwrap_or_default();
    Ok(seen
        .into_iter()
        .map(|(number, (theirs, ours))| (number, (first(theirs), first(ours))))
        .collect())
}

/// States of graphs on one server.
async fn states(
    plane: &ControlPlane,
    seed: u64,
    numbers: &[usize],
    attempt: usize,
) -> Result<BTreeMap<usize, States>> {
    let client = Arc::new(plane.client(4)?);
    let mut plays = plays(seed, numbers, attempt);
    let mut states: BTreeMap<usize, States> = BTreeMap::new();
    let steps = plays.iter().map(Play::steps).max().unwrap_or_default();
    for step in 0..=steps {
        plays = match step {
            0 => each(plays, &client, Play::create).await?,
            _ => each(plays, &client, move |play, client| play.step(client, step - 1)).await?,
        };
        plane.check()?;
        for (number, lines) in settled(&client, &plays).await? {
            states.entry(number % ATTEMPT).or_default().push(lines);
        }
    }
    Ok(states)
}

fn plays(seed: u64, numbers: &[usize], attempt: usize) -> Vec<Play> {
    let graph = |number: &usize| {
        let shape = DeletionGraph::random(seed, *number);
        Play::new(DeletionGraph { number: number + attempt * ATTEMPT, ..shape })
    };
    numbers.iter().map(graph).collect()
}

/// Plays graphs on Kevel while it is killed and started again. Returns whether every deletion has ended that can.
pub async fn with_kills(seed: u64, count: usize) -> Result<bool> {
    let mut plane = start(Server::Kevel).await?;
    let client = Arc::new(plane.client(4)?);
    let playing = tokio::spawn(play_all(seed, count, Arc::clone(&client)));
    let (mut source, mut kills) = (Source::new(seed), 0);
    while !playing.is_finished() {
        tokio::time::sleep(Duration::from_millis(200 + source.below(800) as u64)).await;
        plane.kill(Server::Kevel.name())?;
        plane.start_server(Server::Kevel, false).await?;
        kills += 1;
    }
    playing.await??;
    let limit = Instant::now() + PATIENCE;
    let stuck = loop {
        let stuck = play::unfinished(&client).await?;
        if stuck.is_empty() || Instant::now() > limit {
            break stuck;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    };
    plane.stop_all()?;
    println!("{count} graphs, {kills} kills, {} deletions that do not end", stuck.len());
    stuck.iter().take(SHOWN).for_each(|line| println!("  {line}"));
    Ok(stuck.is_empty())
}

/// Plays graphs step by step without waiting in between.
async fn play_all(
    seed: u64,
    count: usize,
    client: Arc<crate::client::Client>,
) -> Result<Vec<Play>> {
    let numbers: Vec<_> = (0..count).collect();
    each(plays(seed, &numbers, 0), &client, |play, client| async move {
        let mut play = play.create(Arc::clone(&client)).await?;
        for step in 0..play.steps() {
            play = play.step(Arc::clone(&client), step).await?;
        }
        Ok(play)
    })
    .await
}
