//! Cost of one request to a server, and delay of other clients meanwhile.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use kevel_conformance::control_plane::ControlPlane;
use kevel_conformance::process::Process;

use crate::{MOST_ANSWER, MOST_CPU, MOST_MEMORY_MIB, MOST_WAIT};

/// Interval of the other clients' requests and handshakes: a handshake costs milliseconds, which count as the
/// request's.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_OF_NEW: Duration = Duration::from_millis(50);
/// For how long others have to have asked, however short the request was.
const LOOK: Duration = Duration::from_millis(15);

/// Cost of a request.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub code: u16,
    pub cpu: Duration,
    memory_mib: f64,
    answer: usize,
    waits: Waits,
}

/// The longest that others waited.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    livez: Duration,
    handshake: Duration,
    asked: usize,
}

impl Cost {
    pub fn is_over(&self) -> bool {
        self.cpu > MOST_CPU
            || self.memory_mib > MOST_MEMORY_MIB
            || self.answer > MOST_ANSWER
            || self.code == 0
            || self.waits.is_over()
    }

    /// The least of two attempts at the same.
    pub fn min(self, other: Cost) -> Cost {
        Cost {
            code: self.code.max(other.code),
            cpu: self.cpu.min(other.cpu),
            memory_mib: self.memory_mib.min(other.memory_mib),
            answer: self.answer.min(other.answer),
            waits: Waits {
                livez: self.waits.livez.min(other.waits.livez),
                handshake: self.waits.handshake.min(other.waits.handshake),
                asked: self.waits.asked + other.waits.asked,
            },
        }
    }
}

impl Waits {
    pub fn is_over(&self) -> bool {
        self.livez > MOST_WAIT || self.handshake > MOST_WAIT
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, answer) = (self.cpu.as_millis(), self.answer >> 10);
        let (code, memory) = (self.code, self.memory_mib);
        write!(f, "{code:3} {cpu:6} ms CPU {memory:5.0} MiB {answer:6} KiB  {}", self.waits)
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (livez, handshake) = (self.livez.as_millis(), self.handshake.as_millis());
        write!(f, "livez {livez:4} ms, handshake {handshake:4} ms")
    }
}

/// Looks at a server while it works.
pub struct Probe {
    server: Process,
    /// The memory of the server at rest, in MiB. What it holds between requests it may need no more.
    rest: f64,
    /// For `/livez` alone.
    livez: Arc<Client>,
    /// Connects each time it is asked.
    plane: Arc<ControlPlane>,
}

impl Probe {
    pub fn new(plane: &ControlPlane) -> Result<Self> {
        let server = plane.processes.last().ok_or("no server runs")?.clone();
        let plane = Arc::new(ControlPlane::open(&plane.folder)?);
        let rest = server.memory_mib("VmRSS");
        Ok(Probe { server, rest, livez: Arc::new(plane.client(1)?), plane })
    }

    /// Sends a request and says what it cost. No answer at all has the code 0.
    pub async fn measure(&self, client: &Client, request: Request) -> Result<Cost> {
        let process = format!("/proc/{}", self.server.pid);
        // The highest is the present from here on.
        std::fs::write(format!("{process}/clear_refs"), "5")?;
        let cpu = self.server.cpu_seconds();
        let others = Others::begin(self);
        let answer = client.send(request).await;
        let waits = others.end().await?;
        let cpu = Duration::from_secs_f64((self.server.cpu_seconds() - cpu).max(0.0));
        let memory_mib = self.server.memory_mib("VmHWM") - self.rest;
        if !self.server.is_alive() {
            return Err(format!("the server has ended:\n{}", self.server.last_words()).into());
        }
        let (code, answer) = answer.map_or((0, 0), |answer| (answer.code, answer.body.len()));
        Ok(Cost { code, cpu, memory_mib, answer, waits })
    }

    /// Many senders for a while.
    pub async fn storm(
        &self,
        client: &Arc<Client>,
        requests: Vec<Request>,
        senders: usize,
        time: Duration,
    ) -> Result<Waits> {
        let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
        let until = Instant::now() + time;
        let others = Others::begin(self);
        let senders: Vec<_> = (0..senders)
            .map(|_| {
                let (client, requests, next) = (client.clone(), requests.clone(), next.clone());
                tokio::spawn(async move {
                    while Instant::now() < until {
                        let turn = next.fetch_add(1, Ordering::Relaxed) % requests.len();
                        // What is answered does not matter here, nor when.
                        let _ = client.send(requests[turn].clone()).await;
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await?;
        }
        others.end().await
    }
}

/// Other clients during a request.
struct Others {
    done: Arc<AtomicBool>,
    livez: tokio::task::JoinHandle<(Duration, usize)>,
    handshake: tokio::task::JoinHandle<Duration>,
    begun: Instant,
}

impl Others {
    fn begin(probe: &Probe) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let (ended, client) = (done.clone(), probe.livez.clone());
        let livez = tokio::spawn(async move {
            let (mut longest, mut asked) = (Duration::ZERO, 0);
            while !ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let answer = client.send(Request::get("/livez")).await;
                let waited = match answer {
                    Ok(answer) if answer.code == 200 => begun.elapsed(),
                    _ => Duration::MAX,
                };
                longest = longest.max(waited);
                asked += 1;
                tokio::time::sleep(PAUSE).await;
            }
            (longest, asked)
        });
        let (ended, plane) = (done.clone(), probe.plane.clone());
        let longest = Arc::new(AtomicU64::new(0));
        let handshake = tokio::spawn(async move {
            while !ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let fresh = plane.client(1);
                let answered = match fresh {
                    Ok(client) => client.send(Request::get("/livez")).await.is_ok(),
                    Err(_) => false,
                };
                let waited = if answered { begun.elapsed() } else { Duration::MAX };
                let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
                longest.fetch_max(waited, Ordering::Relaxed);
                tokio::time::sleep(PAUSE_OF_NEW).await;
            }
            Duration::from_micros(longest.load(Ordering::Relaxed))
        });
        Others { done, livez, handshake, begun: Instant::now() }
    }

    async fn end(self) -> Result<Waits> {
        tokio::time::sleep(LOOK.saturating_sub(self.begun.elapsed())).await;
        self.done.store(true, Ordering::Relaxed);
        let (livez, asked) = self.livez.await?;
        Ok(Waits { livez, handshake: self.handshake.await?, asked })
    }
}
