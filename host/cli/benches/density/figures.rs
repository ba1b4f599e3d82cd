//! Rounds, percentiles, tables, and the kernel's data about this process.

use std::time::Duration;

/// Rounds of every measurement. Tables show their median, smallest and largest value.
pub(crate) const ROUNDS: usize = 7;

/// The median, the smallest and the largest value.
pub(crate) fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2], values[values.len() - 1])
}

/// Microseconds per item in each round.
pub(crate) fn micros(rounds: &[Duration], items: usize) -> Vec<f64> {
    rounds.iter().map(|round| round.as_secs_f64() * 1e6 / items as f64).collect()
}

/// Items per second in each round.
pub(crate) fn rates(rounds: &[Duration], items: usize) -> Vec<f64> {
    rounds.iter().map(|round| items as f64 / round.as_secs_f64()).collect()
}

/// The value below which a share of the samples lies.
pub(crate) fn percentile(samples: &mut [u64], share: f64) -> f64 {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    samples.get((share * last as f64).round() as usize).map_or(0.0, |nanoseconds| *nanoseconds as f64 / 1e3)
}

/// A number for people: small ones have more digits.
pub(crate) fn shown(value: f64) -> String {
    match value {
        _ if value >= 1000.0 => {
            let digits = format!("{value:.0}");
            let mut grouped = String::new();
            for (position, digit) in digits.chars().enumerate() {
                if position > 0 && (digits.len() - position) % 3 == 0 {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Begins a table.
pub(crate) fn table(title: &str, columns: &[&str]) {
    println!("\n## {title}\n");
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
}

/// One line of a table.
pub(crate) fn line(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// A row with a median and its spread. Returns the median.
pub(crate) fn line_of(name: &str, values: Vec<f64>, unit: &str) -> f64 {
    let (least, median, most) = spread(values);
    line(&[name.to_owned(), format!("{} {unit}", shown(median)), format!("{} to {}", shown(least), shown(most))]);
    median
}

/// The resources of this process in the kernel.
#[derive(Clone, Copy)]
pub(crate) struct Footprint {
    /// Resident memory in KiB.
    pub(crate) resident: u64,
    /// The part of it that no file backs.
    pub(crate) anonymous: u64,
    /// Page tables in KiB.
    pub(crate) page_tables: u64,
    /// Mappings.
    pub(crate) mappings: u64,
}

impl Footprint {
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim_matches([':', '\t', ' ']).split(' ').next()?.parse().ok()).unwrap_or(0)
        };
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap_or_default().lines().count() as u64;
        Self { resident: field("VmRSS"), anonymous: field("RssAnon"), page_tables: field("VmPTE"), mappings }
    }
}

/// The kernel's limit on mappings.
pub(crate) fn max_mappings() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Processor, cores and kernel, in one line.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    format!("{cpu}, {cores} cores, Linux {}, load average {load} at the start", kernel.trim())
}
