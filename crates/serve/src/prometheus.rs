//! Prometheus' text format 0.0.4 and OpenMetrics 1.0.

use std::fmt::Write;

use crate::family::{Description, Kind};
use crate::otlp::Resource;
use crate::store::{Durations, Labels, Series, Value};
use crate::totals::Snapshot;

/// Upper bounds of the buckets of durations: 2^n ns, from 1 us to 69 s.
pub(crate) const BOUNDS: [usize; 14] = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36];

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The one that an `Accept` header prefers; without one, the text format.
    pub fn accepted(accept: &str) -> Self {
        let mut best = (Self::Text, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let format = match parts.next() {
                Some("application/openmetrics-text") => Self::OpenMetrics,
                Some("text/plain" | "text/*" | "*/*") => Self::Text,
                _ => continue,
            };
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
            let quality: f64 = quality.unwrap_or(1.0);
            if quality > best.1 {
                best = (format, quality);
            }
        }
        best.0
    }

    /// The value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Renders all series.
pub fn render(snapshot: &Snapshot, resource: &Resource, format: Format) -> String {
    let mut out = String::new();
    target_info(&mut out, resource, format);
    for (family, series) in &snapshot.families {
        let row = family.describe();
        head(&mut out, row, format);
        for series in series {
            sample(&mut out, row, series);
        }
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// Attributes of what is measured, as OpenTelemetry wants them in Prometheus: labels of one series.
fn target_info(out: &mut String, resource: &Resource, format: Format) {
    const HELP: &str = "What is measured.";
    match format {
        Format::Text => head_lines(out, "target_info", "gauge", "", HELP),
        Format::OpenMetrics => head_lines(out, "target", "info", "", HELP),
    }
    line(out, "target_info", &resource.labels(), None, "1");
}

fn head(out: &mut String, row: &Description, format: Format) {
    let name = match (row.kind, format) {
        (Kind::Counter, Format::Text) => format!("{}_total", row.prometheus),
        _ => row.prometheus.to_owned(),
    };
    let kind = match row.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Summary => "summary",
        Kind::Histogram => "histogram",
    };
    let unit = match format {
        Format::Text => "",
        Format::OpenMetrics => row.unit.suffix(),
    };
    head_lines(out, &name, kind, unit, row.help);
}

fn head_lines(out: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {}", escaped(help));
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
}

fn sample(out: &mut String, row: &Description, series: &Series) {
    let (name, labels) = (row.prometheus, &series.labels);
    let of = |suffix: &str| format!("{name}{suffix}");
    let plain = match row.kind {
        Kind::Counter => of("_total"),
        _ => of(""),
    };
    match &series.value {
        Value::Count(n) => line(out, &plain, labels, None, &n.to_string()),
        Value::Nanoseconds(ns) => line(out, &plain, labels, None, &seconds(*ns)),
        Value::Number(x) => line(out, &plain, labels, None, &number(*x)),
        Value::Sum { count, sum_ns } => {
            line(out, &of("_sum"), labels, None, &seconds(*sum_ns));
            line(out, &of("_count"), labels, None, &count.to_string());
        }
        Value::Durations(durations) => {
            let bucket = of("_bucket");
            for (bound, count) in cumulative(durations) {
                let bound = seconds(1 << bound);
                line(out, &bucket, labels, Some(&bound), &count.to_string());
            }
            let count = durations.count().to_string();
            line(out, &bucket, labels, Some("+Inf"), &count);
            line(out, &of("_sum"), labels, None, &seconds(durations.sum_ns));
            line(out, &of("_count"), labels, None, &count);
        }
    }
}

/// Counts up to each of the [`BOUNDS`].
fn cumulative(durations: &Durations) -> impl Iterator<Item = (usize, u64)> + '_ {
    BOUNDS.iter().map(|bound| {
        let below = durations.bins.iter().take(*bound);
        (*bound, below.fold(0, |sum, n| u64::saturating_add(sum, *n)))
    })
}

fn line(out: &mut String, name: &str, labels: &Labels, bound: Option<&str>, value: &str) {
    let mut pairs: Vec<String> = labels
        .iter()
        .map(|(key, text)| format!("{}=\"{}\"", label_name(key), escaped(text)))
        .collect();
    pairs.extend(bound.map(|bound| format!("le=\"{bound}\"")));
    let labels = match pairs.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", pairs.join(",")),
    };
    let _ = writeln!(out, "{name}{labels} {value}");
}

/// `thread.group` becomes `thread_group`.
fn label_name(key: &str) -> String {
    key.replace('.', "_")
}

/// Backslash, quote and line feed are escaped; nothing else is. (Help texts have no quotes: then
/// the rules of both formats are the same.)
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Exact, and so never less than an earlier value.
fn seconds(ns: u64) -> String {
    let (whole, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    let text = text.trim_end_matches('0');
    match text.strip_suffix('.') {
        Some(whole) => format!("{whole}.0"),
        None => text.to_owned(),
    }
}

fn number(x: f64) -> String {
    match x {
        x if x.is_nan() => "NaN".into(),
        x if x.is_infinite() && x > 0.0 => "+Inf".into(),
        x if x.is_infinite() => "-Inf".into(),
        x => x.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Family;
    use crate::otlp::Process;

    fn snapshot() -> Snapshot {
        let mut durations = Durations {
            sum_ns: 2_500_000,
            ..Durations::default()
        };
        (durations.bins[9], durations.bins[20], durations.bins[40]) = (3, 2, 1);
        let function = vec![("code.function.name", "run<\"a\\b\">\n".to_owned())];
        let of = |labels: &Labels, value| Series {
            labels: labels.clone(),
            value,
        };
        let none = Labels::new();
        Snapshot {
            families: vec![
                (
                    Family::ProcessCpu,
                    vec![of(&none, Value::Nanoseconds(1_500_000_000))],
                ),
                (Family::ProbeCost, vec![of(&none, Value::Number(0.004))]),
                (Family::FunctionCalls, vec![of(&function, Value::Count(7))]),
                (
                    Family::LockHold,
                    vec![of(
                        &vec![("lock.name", "m".to_owned())],
                        Value::Sum {
                            count: 2,
                            sum_ns: 1,
                        },
                    )],
                ),
                (
                    Family::FunctionDuration,
                    vec![of(&function, Value::Durations(Box::new(durations)))],
                ),
            ],
            ..Snapshot::default()
        }
    }

    fn resource() -> Resource {
        Resource {
            process: Some(Process {
                name: "server".into(),
                pid: 7,
            }),
            host: "h".into(),
        }
    }

    #[test]
    fn text_has_types_escaped_labels_and_cumulative_buckets() {
        let text = render(&snapshot(), &resource(), Format::Text);
        for expected in [
            "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\n",
            "# TYPE convoy_probe_cost_ratio gauge\nconvoy_probe_cost_ratio 0.004\n",
            r#"convoy_function_calls_total{code_function_name="run<\"a\\b\">\n"} 7"#,
            "convoy_lock_hold_duration_seconds_sum{lock_name=\"m\"} 0.000000001\n",
            "convoy_lock_hold_duration_seconds_count{lock_name=\"m\"} 2\n",
            "service_name=\"server\"",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        let buckets = text.lines().filter(|l| l.contains("_bucket{"));
        let counts: Vec<u64> = buckets
            .map(|l| l.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap())
            .collect();
        assert_eq!(counts[..6], [3, 3, 3, 3, 3, 3], "below 2^20 ns");
        assert_eq!(counts[6..14], [5; 8]);
        assert_eq!(counts[14], 6, "+Inf");
        assert!(text.contains("le=\"0.000001024\"") && !text.contains("# EOF"));
    }

    #[test]
    fn openmetrics_names_the_family_and_ends_with_eof() {
        let text = render(&snapshot(), &resource(), Format::OpenMetrics);
        let cpu = "# TYPE process_cpu_seconds counter\n# UNIT process_cpu_seconds seconds\n\
                   process_cpu_seconds_total 1.5\n";
        assert!(text.contains(cpu), "{text}");
        assert!(text.contains("# TYPE target info\ntarget_info{"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_accept_header_chooses_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "text/plain, application/openmetrics-text;q=0.5",
                Format::Text,
            ),
            ("application/openmetrics-text;q=0", Format::Text),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn seconds_keep_every_nanosecond() {
        for (ns, text) in [
            (0, "0.0"),
            (1, "0.000000001"),
            (1_024, "0.000001024"),
            (2_000_000_000, "2.0"),
            (u64::MAX, "18446744073.709551615"),
        ] {
            assert_eq!(seconds(ns), text);
        }
    }
}
