//! The figures as a table, as JSON and as a plot.

use std::fmt::Write as _;
use std::fs;

use kevel_api::time::Time;
use kevel_bench::load::Measurement;
use kevel_clock::Clock;
use kevel_conformance::Result;
use kevel_conformance::control_plane::tree;
use serde_json::{Value, json};

use kevel_bench::phases::Sizes;

/// All rounds of one run.
pub struct Results {
    sizes: Sizes,
    rows: Vec<Row>,
}

/// One phase in all rounds: the reference's measurement and Kevel's.
struct Row {
    rounds: Vec<[Measurement; 2]>,
}

impl Results {
    pub fn new(sizes: Sizes, rounds: Vec<Vec<[Measurement; 2]>>) -> Self {
        let phases = rounds.first().map_or(0, Vec::len);
        let row = |phase: usize| Row {
            rounds: rounds.iter().filter_map(|round| round.get(phase).cloned()).collect(),
        };
        // What only prepares has no unit.
        let rows = (0..phases).map(row).filter(|row| !row.unit().is_empty()).collect();
        Results { sizes, rows }
    }

    /// Markdown, costs of the best round each.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| phase | reference | Kevel | reference ÷ Kevel | in each round | reference per second | Kevel per second \
             | reference p50, p99 | Kevel p50, p99 |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        );
        for row in &self.rows {
            let [reference, kevel] = [row.best(0), row.best(1)];
            let ratios: Vec<String> =
                row.ratios().iter().map(|ratio| format!("{ratio:.1}")).collect();
            let rate = |one: &Measurement| {
                one.per_second.map_or(String::new(), |rate| format!("{rate:.0}"))
            };
            let times = |one: &Measurement| match (one.p50_ms, one.p99_ms) {
                (Some(p50), Some(p99)) => format!("{p50:.1}, {p99:.1} ms"),
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "| {} | {} {unit} | {} {unit} | **{:.1}** | {} | {} | {} | {} | {} |",
                row.name(),
                figure(reference.cost),
                figure(kevel.cost),
                row.ratio(),
                ratios.join(", "),
                rate(reference),
                rate(kevel),
                times(reference),
                times(kevel),
                unit = row.unit(),
            );
        }
        text
    }

    /// Renews `bench/RESULTS.md`, `bench/results.json` and `bench/results.svg`, and the plot of
    /// `docs/performance.md`.
    pub fn write(&self) -> Result<()> {
        let Sizes { pods, watchers, rounds } = self.sizes;
        let page = format!(
            "# Kevel and the reference under the same load\n\n\
             {}; {} cores; Kubernetes v1.36.3 with etcd v3.6.8 against Kevel with its embedded store; {pods} Pods, \
             {watchers} watchers, {rounds} rounds of fresh servers, phases in turn. HTTP/2 over TLS, JSON, RBAC.\n\n\
             Costs are CPU time of the server's processes per operation (the reference's with etcd's), best round \
             each: it depends little on what else the machine does, unlike the wall-clock figures beside it.\n\n\
             ![CPU time per operation](results.svg)\n\n{}\n\
             `cargo run --release -p kevel-bench --bin servers -- --write` renews this page.\n",
            Time::now(&Clock::system()),
            std::thread::available_parallelism().map_or(1, usize::from),
            self.table(),
        );
        let folder = tree().join("bench");
        fs::write(folder.join("RESULTS.md"), page)?;
        fs::write(folder.join("results.json"), format!("{:#}\n", self.json()))?;
        fs::write(folder.join("results.svg"), self.plot())?;
        fs::write(tree().join("docs/images/results.svg"), self.plot())?;
        Ok(())
    }

    fn json(&self) -> Value {
        let one = |one: &Measurement| json!({"cost": one.cost, "perSecond": one.per_second, "p50Ms": one.p50_ms, "p99Ms": one.p99_ms});
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let rounds = row.rounds.iter();
                let rounds: Vec<Value> = rounds
                    .map(|[reference, kevel]| json!({"reference": one(reference), "kevel": one(kevel)}))
                    .collect();
                json!({"phase": row.name(), "unit": row.unit(), "ratio": row.ratio(), "rounds": rounds})
            })
            .collect();
        let Sizes { pods, watchers, .. } = self.sizes;
        json!({"time": Time::now(&Clock::system()).to_string(), "pods": pods, "watchers": watchers, "phases": rows})
    }

    /// A bar a phase: how many times as much the reference takes.
    fn plot(&self) -> String {
        const LINE: f64 = 24.0;
        const LEFT: f64 = 170.0;
        const WIDTH: f64 = 420.0;
        let most = self.rows.iter().map(Row::ratio).fold(1.0, f64::max);
        let height = self.rows.len() as f64 * LINE + 50.0;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"700\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"700\" height=\"{height}\" fill=\"white\"/>\n\
             <text x=\"10\" y=\"22\" font-weight=\"bold\">How many times as much the reference takes (Kevel = 1)</text>\n"
        );
        for (index, row) in self.rows.iter().enumerate() {
            let top = 36.0 + index as f64 * LINE;
            let width = WIDTH * row.ratio().max(0.0) / most;
            let colour = if row.unit() == "µs" { "#2f6db3" } else { "#7a9e3f" };
            let _ = writeln!(
                text,
                "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
                 <rect x=\"{LEFT}\" y=\"{top:.0}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.0}\">{:.1}</text>",
                LEFT - 8.0,
                top + 13.0,
                row.name(),
                LEFT + width + 6.0,
                top + 13.0,
                row.ratio()
            );
        }
        text + "</svg>\n"
    }
}

impl Row {
    fn name(&self) -> &'static str {
        self.rounds.first().map_or("", |[one, _]| one.name)
    }

    fn unit(&self) -> &'static str {
        self.rounds.first().map_or("", |[one, _]| one.unit)
    }

    fn best(&self, server: usize) -> &Measurement {
        let cost = |round: &&[Measurement; 2]| round[server].cost;
        let best = self.rounds.iter().min_by(|one, other| cost(one).total_cmp(&cost(other)));
        &best.unwrap_or(&self.rounds[0])[server]
    }

    fn ratio(&self) -> f64 {
        self.best(0).cost / self.best(1).cost
    }

    fn ratios(&self) -> Vec<f64> {
        self.rounds.iter().map(|[reference, kevel]| reference.cost / kevel.cost).collect()
    }
}

/// Three digits that matter.
fn figure(cost: f64) -> String {
    match cost {
        cost if cost >= 100.0 => format!("{cost:.0}"),
        cost if cost >= 10.0 => format!("{cost:.1}"),
        cost => format!("{cost:.2}"),
    }
}
