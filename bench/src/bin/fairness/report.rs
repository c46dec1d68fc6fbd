//! The figures as a table, as JSON and as a plot.

use std::fmt::Write as _;
use std::fs;

use kevel_api::time::Time;
use kevel_clock::Clock;
use kevel_conformance::Result;
use kevel_conformance::control_plane::tree;
use serde_json::{Value, json};

use crate::measure::Measurement;
use crate::{Phase, Sizes};

/// One run: the reference's measurement of each phase and Kevel's.
pub struct Results {
    pub sizes: Sizes,
    pub rows: Vec<(Phase, [Measurement; 2])>,
}

impl Results {
    /// Markdown.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| flood | reference p50, p99 | Kevel p50, p99 | p99 by that alone | quiet requests that failed \
             | renewals missed | memory, highest | the flood's answers a second: served, refused |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        );
        for (phase, [reference, kevel]) in &self.rows {
            let times =
                |one: &Measurement| format!("{:.2}, {:.2} ms", one.percentile(0.5), one.p99());
            let both = |read: &dyn Fn(&Measurement) -> String| {
                format!("{} / {}", read(reference), read(kevel))
            };
            let missed = |one: &Measurement| match one.renewals {
                0 => "-".to_owned(),
                all => format!("{} of {all}", one.missed),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.1} / {:.1} | {} | {} | {} | {} |",
                phase.name,
                times(reference),
                times(kevel),
                reference.p99() / self.alone(0),
                kevel.p99() / self.alone(1),
                both(&|one| one.failures.to_string()),
                both(&missed),
                both(&|one| format!("{:.0} MiB", one.memory_mib)),
                both(&|one| self.answered(one)),
            );
        }
        text
    }

    /// The p99 of the quiet client without a flood.
    fn alone(&self, server: usize) -> f64 {
        self.rows.first().map_or(f64::NAN, |(_, pair)| pair[server].p99())
    }

    fn answered(&self, one: &Measurement) -> String {
        let time = self.sizes.seconds as f64 + crate::RISE.as_secs_f64();
        let of = |name: &str| one.flood[name].as_f64();
        match (of("served"), of("forbidden"), of("refused")) {
            (Some(served), Some(forbidden), Some(refused)) => {
                format!("{:.0}, {:.0}", (served + forbidden) / time, refused / time)
            }
            _ => "-".to_owned(),
        }
    }

    /// Renews `bench/FAIRNESS.md`, `bench/fairness.json` and `bench/fairness.svg`, and the plot of
    /// `docs/performance.md`.
    pub fn write(&self) -> Result<()> {
        let Sizes { pods, clients, kubelets, seconds } = self.sizes;
        let page = format!(
            "# Fair to all\n\n\
             {}; {} cores; Kubernetes v1.36.3 with etcd v3.6.8 against Kevel with its embedded store; {pods} Pods. \
             {clients} clients ask without end while one of another user reads one object every 10 ms, for {seconds} s; \
             {kubelets} pretended kubelets renew their leases every 10 s. HTTP/2 over TLS, JSON, RBAC. In pairs the \
             reference comes first. The floods come from a process that gets what the servers leave of the processors (SCHED_IDLE), the quiet client has one whenever it needs it (SCHED_RR): in the world they are other machines.\n\n\
             ![p99 of the quiet client](fairness.svg)\n\n{}\n\
             `cargo run --release -p kevel-bench --bin fairness -- --write` renews this page.\n",
            Time::now(&Clock::system()),
            std::thread::available_parallelism().map_or(1, usize::from),
            self.table(),
        );
        let folder = tree().join("bench");
        fs::write(folder.join("FAIRNESS.md"), page)?;
        fs::write(folder.join("fairness.json"), format!("{:#}\n", self.json()))?;
        fs::write(folder.join("fairness.svg"), self.plot())?;
        fs::write(tree().join("docs/images/fairness.svg"), self.plot())?;
        Ok(())
    }

    fn json(&self) -> Value {
        let one = |one: &Measurement| {
            json!({
                "p50Ms": one.percentile(0.5), "p99Ms": one.p99(), "requests": one.times.len(),
                "failures": one.failures, "renewals": one.renewals, "missed": one.missed,
                "memoryMiB": one.memory_mib, "flood": one.flood,
            })
        };
        let row = |(phase, [reference, kevel]): &(Phase, [Measurement; 2])| json!({"phase": phase.name, "reference": one(reference), "kevel": one(kevel)});
        let phases: Vec<Value> = self.rows.iter().map(row).collect();
        let Sizes { pods, clients, kubelets, seconds } = self.sizes;
        json!({
            "time": Time::now(&Clock::system()).to_string(), "pods": pods, "clients": clients,
            "kubelets": kubelets, "seconds": seconds, "phases": phases,
        })
    }

    /// Two bars a phase, on a logarithmic scale: the quiet client's p99.
    fn plot(&self) -> String {
        const GROUP: f64 = 46.0;
        const LEFT: f64 = 190.0;
        const WIDTH: f64 = 400.0;
        let all = self.rows.iter().flat_map(|(_, pair)| pair.iter().map(Measurement::p99));
        let finite: Vec<f64> = all.filter(|time| time.is_finite() && *time > 0.0).collect();
        let least = finite.iter().copied().fold(f64::INFINITY, f64::min) / 2.0;
        let most = finite.iter().copied().fold(least * 10.0, f64::max);
        let height = self.rows.len() as f64 * GROUP + 50.0;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"700\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"700\" height=\"{height}\" fill=\"white\"/>\n\
             <text x=\"10\" y=\"22\" font-weight=\"bold\">The quiet client's p99 in ms (logarithmic): \
             <tspan fill=\"#b3622f\">the reference</tspan>, <tspan fill=\"#2f6db3\">Kevel</tspan></text>\n"
        );
        for (index, (phase, pair)) in self.rows.iter().enumerate() {
            let top = 36.0 + index as f64 * GROUP;
            let _ = writeln!(
                text,
                "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                top + 22.0,
                phase.name
            );
            for (place, (one, colour)) in pair.iter().zip(["#b3622f", "#2f6db3"]).enumerate() {
                let p99 = one.p99();
                let width = match p99.is_finite() {
                    true => WIDTH * (p99 / least).ln().max(0.0) / (most / least).ln(),
                    false => WIDTH,
                };
                let top = top + place as f64 * 18.0;
                let _ = writeln!(
                    text,
                    "<rect x=\"{LEFT}\" y=\"{top:.0}\" width=\"{width:.1}\" height=\"15\" fill=\"{colour}\"/>\
                     <text x=\"{:.1}\" y=\"{:.0}\">{p99:.2}</text>",
                    LEFT + width + 6.0,
                    top + 12.0,
                );
            }
        }
        text + "</svg>\n"
    }
}
