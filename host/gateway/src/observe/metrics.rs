//! The counts in the text format of Prometheus, version 0.0.4. It is written here: its grammar is a line for each number, and the numbers
//! are atomics of this module.

use super::histogram::Durations;
use super::stats::{AliasStats, GatewayStats, ModelStats};
use clawhost_core::escaped;
use std::fmt::Write as _;

/// The content type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Longest value of a label in bytes.
const LABEL_BYTES: usize = 200;

/// Writes metrics.
#[derive(Default)]
struct Page(String);

/// A value of a label: hidden characters are shown, and what ends it is escaped.
fn label(text: &str) -> String {
    escaped(text, LABEL_BYTES).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Labels in braces.
fn labels(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", label(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// Millionths as whole units (seconds, dollars), with all digits.
fn units(millionths: u64) -> String {
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, of: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{} {value}", labels(of));
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn aliases(
        &mut self,
        (name, help): (&str, &str),
        aliases: &[AliasStats],
        write: impl Fn(&mut Self, &str, &AliasStats),
    ) {
        self.family(name, "counter", help);
        aliases.iter().for_each(|alias| write(self, name, alias));
    }

    fn histogram(
        &mut self,
        (name, help): (&str, &str),
        aliases: &[AliasStats],
        of: impl Fn(&AliasStats) -> &Durations,
    ) {
        self.family(name, "histogram", help);
        for alias in aliases.iter().filter(|alias| of(alias).count() > 0) {
            let durations = of(alias);
            let bounds = durations.bounds_us.iter().map(|us| units(*us)).chain(["+Inf".to_owned()]);
            let mut sum = 0;
            for (bound, count) in bounds.zip(&durations.counts) {
                sum += count;
                self.sample(&format!("{name}_bucket"), &[("alias", &alias.alias), ("le", &bound)], sum);
            }
            self.sample(&format!("{name}_sum"), &[("alias", &alias.alias)], units(durations.sum_us));
            self.sample(&format!("{name}_count"), &[("alias", &alias.alias)], sum);
        }
    }

    fn models(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        models: &[ModelStats],
        of: impl Fn(&ModelStats) -> u64,
    ) {
        self.family(name, kind, help);
        for model in models {
            let named = [("alias", model.alias.as_str()), ("provider", &model.provider), ("model", &model.model)];
            self.sample(name, &named, of(model));
        }
    }
}

/// The page.
pub(crate) fn page(stats: &GatewayStats) -> String {
    let mut page = Page::default();
    let aliases = stats.aliases.as_slice();
    page.aliases(
        ("clawhost_requests_total", "Requests that ended, by shape, alias and class of status."),
        aliases,
        |page, name, alias| {
            for of in &alias.requests {
                let named = [("shape", of.shape.as_str()), ("alias", &alias.alias), ("status", &of.status)];
                page.sample(name, &named, of.count);
            }
        },
    );
    page.aliases(
        ("clawhost_incomplete_answers_total", "Answers that were not whole, whatever status their head had."),
        aliases,
        |page, name, alias| page.sample(name, &[("alias", &alias.alias)], alias.incomplete),
    );
    page.aliases(
        ("clawhost_tokens_total", "Tokens of prompts (input) and answers (output)."),
        aliases,
        |page, name, alias| {
            page.sample(name, &[("alias", &alias.alias), ("direction", "input")], alias.input_tokens);
            page.sample(name, &[("alias", &alias.alias), ("direction", "output")], alias.output_tokens);
        },
    );
    page.aliases(
        ("clawhost_cost_usd_total", "US dollars that answers of models with prices cost."),
        aliases,
        |page, name, alias| {
            let cost = alias.cost_micros.into_iter();
            cost.for_each(|micros| page.sample(name, &[("alias", &alias.alias)], units(micros)));
        },
    );
    page.single("clawhost_exchanges_recorded_total", "counter", "Exchanges that were recorded.", stats.recorded);
    page.single("clawhost_exchanges_missed_total", "counter", "Exchanges that could not be recorded.", stats.missed);
    page.single("clawhost_episodes_total", "counter", "Sessions that became episodes.", stats.episodes);
    page.single(
        "clawhost_refused_keys_total",
        "counter",
        "Requests whose key was missing or wrong.",
        stats.refused_keys,
    );
    page.single(
        "clawhost_router_failures_total",
        "counter",
        "Choices that a router, or the plugin of it, did not make.",
        stats.router_failures,
    );
    page.single("clawhost_lost_spans_total", "counter", "Requests whose spans were not exported.", stats.lost_spans);
    page.single("clawhost_spool_bytes", "gauge", "Bytes of exchanges that are not in the database.", stats.spool_bytes);
    page.single("clawhost_open_sessions", "gauge", "Sessions that are open.", stats.open_sessions);
    page.single("clawhost_active_requests", "gauge", "Requests that are under way.", stats.active_requests);
    page.single("clawhost_active_streams", "gauge", "Streams that are under way.", stats.active_streams);
    page.models(
        ("clawhost_upstream_attempts_total", "counter", "Attempts to get an answer from a model."),
        &stats.models,
        |model| model.attempts,
    );
    page.models(
        ("clawhost_upstream_failures_total", "counter", "Attempts that gave no answer."),
        &stats.models,
        |model| model.failures,
    );
    page.models(
        ("clawhost_model_down", "gauge", "1: the model rests after failures in a row."),
        &stats.models,
        |model| u64::from(model.is_down),
    );
    page.histogram(
        ("clawhost_added_seconds", "Time that the gateway added to an answer, or to the head of a stream."),
        aliases,
        |alias| &alias.added,
    );
    page.histogram(
        ("clawhost_first_token_seconds", "Time from the request to the first token of a stream."),
        aliases,
        |alias| &alias.first_token,
    );
    page.histogram(
        ("clawhost_upstream_seconds", "Time of the models, for a stream until its end."),
        aliases,
        |alias| &alias.upstream,
    );
    if let Some(bytes) = stats.memory_bytes {
        page.single("process_resident_memory_bytes", "gauge", "Resident memory of the process.", bytes);
    }
    page.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let check =
            |text: &str, expect: &str| assert_eq!(labels(&[("alias", text)]), format!("{{alias=\"{expect}\"}}"));
        check("fast", "fast");
        check("a\"b\\c", "a\\\"b\\\\c");
        check("a\nb", "a\\\\nb");
        check("\u{202e}", "\\\\u{202e}");
        assert_eq!(labels(&[]), "");
    }

    #[test]
    fn ranges_of_a_histogram_are_cumulative_and_in_seconds() {
        let added = Durations { bounds_us: vec![25, 1_500_000], counts: vec![2, 1, 4], sum_us: 2_000_001 };
        let alias = AliasStats {
            alias: "m".into(),
            requests: Vec::new(),
            incomplete: 0,
            input_tokens: 0,
            output_tokens: 0,
            cost_micros: None,
            added,
            first_token: Durations::default(),
            upstream: Durations::default(),
        };
        let mut page = Page::default();
        page.histogram(("x", "Help."), &[alias], |alias| &alias.added);
        let expect = "# HELP x Help.\n# TYPE x histogram\n\
                      x_bucket{alias=\"m\",le=\"0.000025\"} 2\n\
                      x_bucket{alias=\"m\",le=\"1.500000\"} 3\n\
                      x_bucket{alias=\"m\",le=\"+Inf\"} 7\n\
                      x_sum{alias=\"m\"} 2.000001\n\
                      x_count{alias=\"m\"} 7\n";
        assert_eq!(page.0, expect);
    }
}
