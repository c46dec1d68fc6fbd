//! The results: a row for each attack, its cost beside the limits.

use std::fmt;
use std::time::Duration;

use kevel_bench::probe::ServerLoad;

/// CPU time of one request.
const MOST_CPU: Duration = Duration::from_secs(1);
/// Memory of one request above that before it.
const MOST_GROWTH_MIB: f64 = 64.0;
/// Time that other clients wait, on a quiet machine.
const MOST_WAIT: Duration = Duration::from_millis(100);

/// CostLimits of a row.
#[derive(Clone, Copy, Debug)]
pub struct CostLimits {
    wait: Duration,
}

impl CostLimits {
    pub fn new(slack: usize) -> Self {
        CostLimits { wait: MOST_WAIT * u32::try_from(slack.max(1)).unwrap_or(u32::MAX) }
    }

    /// The measures that are over, with so many requests at a time.
    pub fn over(&self, load: &ServerLoad, at_a_time: u32) -> Vec<&'static str> {
        let measures = [
            ("CPU", load.cpu > MOST_CPU * at_a_time),
            ("memory", load.growth_mib > MOST_GROWTH_MIB * f64::from(at_a_time)),
            ("/livez", load.livez > self.wait),
            ("handshake", load.handshake > self.wait),
            ("other get", load.get > self.wait),
        ];
        measures.into_iter().filter(|(_, over)| *over).map(|(name, _)| name).collect()
    }

    /// Whether a wait that only one row measures is over.
    pub fn is_wait_over(&self, wait: Duration) -> bool {
        wait > self.wait
    }
}

/// All rows so far.
#[derive(Debug)]
pub struct CostTable {
    pub limits: CostLimits,
    lines: Vec<String>,
    over: usize,
}

impl CostTable {
    pub fn new(limits: CostLimits) -> Self {
        CostTable { limits, lines: Vec::new(), over: 0 }
    }

    /// Number of rows that are over.
    pub fn over(&self) -> usize {
        self.over
    }

    /// Adds a row; `wrong` are failures besides the limits, `note` is shown always.
    pub fn add(
        &mut self,
        name: &str,
        load: &ServerLoad,
        at_a_time: u32,
        wrong: &[String],
        note: &str,
    ) {
        let mut reasons: Vec<String> =
            self.limits.over(load, at_a_time).into_iter().map(str::to_owned).collect();
        reasons.extend_from_slice(wrong);
        let verdict = match reasons.is_empty() {
            true => "ok".to_owned(),
            false => format!("**over**: {}", reasons.join(", ")),
        };
        self.over += usize::from(!reasons.is_empty());
        let ms = |time: Duration| match time.as_secs() {
            999.. => "no answer".to_owned(),
            _ => format!("{:.0}", time.as_secs_f64() * 1e3),
        };
        let (cpu, growth) = (load.cpu.as_secs_f64(), load.growth_mib);
        let (livez, handshake, get) = (ms(load.livez), ms(load.handshake), ms(load.get));
        let line = format!(
            "| {name} | {cpu:.2} | {growth:.0} | {livez} | {handshake} | {get} | {verdict}; {note} |"
        );
        println!("{line}");
        self.lines.push(line);
    }

    /// Adds a row that could not be measured.
    pub fn failed(&mut self, name: &str, why: &str) {
        self.over += 1;
        let why: String = why.chars().take(200).map(|c| if c == '\n' { ' ' } else { c }).collect();
        let line = format!("| {name} | | | | | | **over**: {why} |");
        println!("{line}");
        self.lines.push(line);
    }
}

impl fmt::Display for CostTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n| row | CPU s | growth MiB | /livez max ms | handshake max ms | other get max ms | verdict |"
        )?;
        writeln!(f, "| --- | ---: | ---: | ---: | ---: | ---: | --- |")?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        write!(f, "{} of {} rows over", self.over, self.lines.len())
    }
}
