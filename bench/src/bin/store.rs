//! Cost of the embedded store, beside a plain log that appends and syncs with the same batching.
//!
//! `cargo run --profile dist -p kevel-bench --bin store [-- DIRECTORY]`; the directory decides the disk.
//! Each measurement runs in a process of its own, so that memory is its own too.

use std::{
    env,
    fs::{self, File},
    io::Write,
    mem,
    path::Path,
    process::Command,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use kevel_bench::Outcome;
use kevel_store::{
    Engine, RangeOptions, Revision,
    embedded::{Embedded, Options},
};
use tokio::sync::oneshot;

const WRITERS: u64 = 64;
const VALUE_BYTES: usize = 2048;
const OBJECTS: u64 = 100_000;
const SECONDS: u64 = 8;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["log", directory] => runtime.block_on(bare_log(Path::new(directory))),
        ["create", directory] => runtime.block_on(create(Path::new(directory))),
        ["update", directory] => runtime.block_on(update(Path::new(directory))),
        ["open", directory] => runtime.block_on(open(Path::new(directory))),
        [] => all(&env::temp_dir()),
        [directory] => all(Path::new(directory)),
        _ => Err("usage: store [DIRECTORY]".into()),
    }
}

fn all(parent: &Path) -> Outcome {
    let directory = tempfile::tempdir_in(parent)?;
    for step in ["log", "create", "update", "open"] {
        let status = Command::new(env::current_exe()?).arg(step).arg(directory.path()).status()?;
        if !status.success() {
            return Err(format!("{step} failed").into());
        }
    }
    Ok(())
}

async fn bare_log(directory: &Path) -> Outcome {
    let log = Arc::new(Log::start(&directory.join("log"))?);
    let tasks = (0..WRITERS).map(|_| {
        let log = log.clone();
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            let end = Instant::now() + Duration::from_secs(SECONDS);
            while Instant::now() < end {
                let begin = Instant::now();
                log.append(value(1)).await?;
                latencies.push(begin.elapsed());
            }
            Ok(latencies)
        })
    });
    measure("bare log", tasks.collect()).await?;
    fs::remove_file(directory.join("log"))?;
    Ok(())
}

async fn create(directory: &Path) -> Outcome {
    let store = Arc::new(Embedded::open(&directory.join("store"), Options::default())?);
    let tasks = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            for number in (writer..OBJECTS).step_by(WRITERS as usize) {
                let begin = Instant::now();
                store.create(&key(number), value(number), None).await?;
                latencies.push(begin.elapsed());
            }
            Ok(latencies)
        })
    });
    measure("create", tasks.collect()).await?;
    store.close().await;
    Ok(())
}

async fn update(directory: &Path) -> Outcome {
    let store = Arc::new(Embedded::open(&directory.join("store"), Options::default())?);
    let tasks = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            // As clients do, a writer knows the revision of what it updates.
            let mut known: Vec<(u64, Revision)> = Vec::new();
            for number in (writer..OBJECTS).step_by(WRITERS as usize * 8) {
                if let Some(entry) = store.get(&key(number), None).await?.entry {
                    known.push((number, entry.mod_revision));
                }
            }
            let mut latencies = Vec::new();
            let end = Instant::now() + Duration::from_secs(SECONDS);
            while Instant::now() < end {
                for (number, revision) in &mut known {
                    let begin = Instant::now();
                    *revision =
                        store.update(&key(*number), value(*number), *revision, None).await?;
                    latencies.push(begin.elapsed());
                }
            }
            Ok(latencies)
        })
    });
    measure("update", tasks.collect()).await?;
    // Left as after a kill: the log is not folded in and nothing is closed.
    let log = fs::metadata(directory.join("store/kevel.db-wal"))?.len();
    println!("           log left behind {} MiB", log >> 20);
    std::process::exit(0);
}

async fn open(directory: &Path) -> Outcome {
    let store_directory = directory.join("store");
    let begin = Instant::now();
    let store = Embedded::open(&store_directory, Options::default())?;
    println!("open       {:.1?} (after a kill)", begin.elapsed());
    let opened = resident_mib();
    let begin = Instant::now();
    let count = store.count(b"/registry/").await?;
    println!("count      {count} keys in {:.1?}", begin.elapsed());
    let begin = Instant::now();
    let whole = store.range(b"/registry/", RangeOptions::default()).await?;
    println!("scan       {} objects at once in {:.1?}", whole.entries.len(), begin.elapsed());
    drop(whole);
    let begin = Instant::now();
    let (mut options, mut objects, mut bytes) = (RangeOptions::default(), 0, 0);
    options.limit = 10_000;
    loop {
        let page = store.range(b"/registry/", options.clone()).await?;
        objects += page.entries.len();
        bytes += page.entries.iter().map(|entry| entry.value.len()).sum::<usize>();
        options.revision = Some(page.revision);
        options.after = page.entries.last().map(|entry| entry.key.clone());
        if !page.more {
            break;
        }
    }
    println!(
        "scan       {objects} objects, {} MB in pages of 10,000 in {:.1?}",
        bytes / 1_000_000,
        begin.elapsed()
    );
    println!("memory     {opened} MiB when open, {} MiB after the scan", resident_mib());
    store.close().await;
    let begin = Instant::now();
    let store = Embedded::open(&store_directory, Options::default())?;
    println!("open       {:.1?} (after a close)", begin.elapsed());
    store.close().await;
    let file = fs::metadata(store_directory.join("kevel.db"))?.len();
    println!("file       {} MB", file / 1_000_000);
    Ok(())
}

/// Keys in no order, as names with random ends are.
fn key(number: u64) -> Vec<u8> {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("/registry/pods/namespace-{:02}/name-{scattered:016x}", scattered % 50).into()
}

fn value(number: u64) -> Bytes {
    let mut value = vec![b'v'; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value.into()
}

async fn measure(
    name: &str,
    tasks: Vec<tokio::task::JoinHandle<Outcome<Vec<Duration>>>>,
) -> Outcome {
    let (begin, cpu) = (Instant::now(), cpu_time());
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let (elapsed, cpu) = (begin.elapsed(), cpu_time() - cpu);
    latencies.sort_unstable();
    let writes = latencies.len();
    let percentile = |p: usize| latencies.get(writes * p / 1000).copied().unwrap_or_default();
    println!(
        "{name:<10} {:.0} writes/s, p50 {:.2?}, p99 {:.2?}, p99.9 {:.2?}, {:.1} µs of CPU per write",
        writes as f64 / elapsed.as_secs_f64(),
        percentile(500),
        percentile(990),
        percentile(999),
        cpu.as_micros() as f64 / writes as f64,
    );
    println!("           {} MiB resident", resident_mib());
    Ok(())
}

/// User and system time of this process.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) >> 10
}

/// The least that a durable write can cost: one thread appends all that waits, syncs once, answers.
struct Log {
    waiting: Arc<(Mutex<Vec<Append>>, Condvar)>,
}

struct Append {
    value: Bytes,
    done: oneshot::Sender<()>,
}

impl Log {
    fn start(path: &Path) -> Outcome<Log> {
        let mut file = File::create(path)?;
        let waiting: Arc<(Mutex<Vec<Append>>, Condvar)> = Arc::default();
        let queue = waiting.clone();
        thread::spawn(move || -> Outcome {
            let (requests, arrived) = &*queue;
            let (mut buffer, mut last) = (Vec::new(), 1);
            loop {
                let waiting = requests.lock().map_err(|e| e.to_string())?;
                let waiting = arrived
                    .wait_while(waiting, |waiting| waiting.is_empty())
                    .map_err(|e| e.to_string())?;
                // The store waits in the same way for those it answered last.
                let (mut waiting, _) = arrived
                    .wait_timeout_while(waiting, Duration::from_micros(200), |w| w.len() < last)
                    .map_err(|e| e.to_string())?;
                let batch = mem::take(&mut *waiting);
                drop(waiting);
                last = batch.len();
                buffer.clear();
                for append in &batch {
                    buffer.extend_from_slice(&append.value);
                }
                file.write_all(&buffer)?;
                file.sync_data()?;
                for append in batch {
                    let _ = append.done.send(());
                }
            }
        });
        Ok(Log { waiting })
    }

    async fn append(&self, value: Bytes) -> Outcome {
        let (done, answer) = oneshot::channel();
        self.waiting.0.lock().map_err(|e| e.to_string())?.push(Append { value, done });
        self.waiting.1.notify_one();
        Ok(answer.await?)
    }
}
