//! Metrics as OTLP: cumulative sums, gauges, exponential histograms.

mod proto;

use prost::Message;

use crate::family::{Family, Kind};
use crate::store::{Durations, Labels, Series, Value};
use crate::totals::Snapshot;
use proto::{
    Any, AnyValue, Buckets, Data, Exponential, ExponentialPoint, ExportRequest, ExportResponse,
    Gauge, Histogram, HistogramPoint, KeyValue, Metric, Number, NumberPoint, ResourceMessage,
    ResourceMetrics, Scope, ScopeMetrics, Sum,
};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i32 = 2;

/// Base 2: bucket `i` is (2^i, 2^(i+1)].
const SCALE: i32 = 0;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The process; `None` = several of the machine.
    pub process: Option<Process>,
    /// The name of the machine.
    pub host: String,
}

/// A process that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its number.
    pub pid: u32,
}

impl Resource {
    /// As labels.
    pub(crate) fn labels(&self) -> Labels {
        let host = ("host.name", self.host.clone());
        match &self.process {
            Some(Process { name, pid }) => vec![
                ("service.name", name.clone()),
                ("service.instance.id", format!("{}:{pid}", self.host)),
                host,
                ("process.executable.name", name.clone()),
                ("process.pid", pid.to_string()),
            ],
            None => vec![
                ("service.name", "convoy".to_owned()),
                ("service.instance.id", self.host.clone()),
                host,
            ],
        }
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let mut all = attributes(&self.labels());
        let number = all.iter_mut().find(|a| a.key == "process.pid");
        if let (Some(attribute), Some(process)) = (number, &self.process) {
            attribute.value = Some(any(Any::Int(i64::from(process.pid))));
        }
        all
    }
}

/// The body of a request to `/v1/metrics`. `version`: of convoy.
pub fn export_request(snapshot: &Snapshot, resource: &Resource, version: &str) -> Vec<u8> {
    let metrics = snapshot.families.iter();
    let metrics = metrics.map(|(family, series)| metric(snapshot, *family, series));
    let scope_metrics = ScopeMetrics {
        scope: Some(Scope {
            name: "convoy".into(),
            version: version.into(),
        }),
        metrics: metrics.collect(),
    };
    let request = ExportRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(ResourceMessage {
                attributes: resource.attributes(),
            }),
            scope_metrics: vec![scope_metrics],
        }],
    };
    request.encode_to_vec()
}

/// What a collector says that it did not take: the number of points, and why.
pub fn rejected(response: &[u8]) -> Option<(u64, String)> {
    let response = ExportResponse::decode(response).ok()?;
    let partial = response.partial_success?;
    let points = u64::try_from(partial.rejected_data_points).unwrap_or(0);
    (points > 0).then_some((points, partial.error_message))
}

fn metric(snapshot: &Snapshot, family: Family, series: &[Series]) -> Metric {
    let row = family.describe();
    let start = match family {
        Family::ProcessCpu => snapshot.process_start_unix_ns,
        _ => None,
    };
    let times = Times {
        start: start.unwrap_or(snapshot.start_unix_ns),
        now: snapshot.time_unix_ns,
    };
    let points = || series.iter().map(|series| number_point(times, series));
    let data = match row.kind {
        Kind::Counter => Data::Sum(Sum {
            data_points: points().collect(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        Kind::Gauge => Data::Gauge(Gauge {
            data_points: points().collect(),
        }),
        Kind::Summary => Data::Histogram(Histogram {
            data_points: series.iter().map(|s| histogram_point(times, s)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
        Kind::Histogram => Data::Exponential(Exponential {
            data_points: series.iter().map(|s| exponential_point(times, s)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    // Bins are powers of two of nanoseconds: in seconds they would not be powers of two.
    let unit = match row.kind {
        Kind::Histogram => "ns",
        _ => row.unit.ucum(),
    };
    Metric {
        name: row.otel.into(),
        description: row.help.into(),
        unit: unit.into(),
        data: Some(data),
    }
}

#[derive(Clone, Copy)]
struct Times {
    start: u64,
    now: u64,
}

fn number_point(times: Times, series: &Series) -> NumberPoint {
    let value = match &series.value {
        Value::Count(n) => Number::Int(i64::try_from(*n).unwrap_or(i64::MAX)),
        Value::Nanoseconds(ns) => Number::Double(seconds(*ns)),
        Value::Number(x) => Number::Double(*x),
        Value::Sum { sum_ns, .. } => Number::Double(seconds(*sum_ns)),
        Value::Durations(durations) => Number::Double(seconds(durations.sum_ns)),
    };
    NumberPoint {
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        attributes: attributes(&series.labels),
        value: Some(value),
    }
}

fn histogram_point(times: Times, series: &Series) -> HistogramPoint {
    let (count, sum_ns) = match &series.value {
        Value::Sum { count, sum_ns } => (*count, *sum_ns),
        _ => (0, 0),
    };
    HistogramPoint {
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count,
        sum: Some(seconds(sum_ns)),
        attributes: attributes(&series.labels),
    }
}

fn exponential_point(times: Times, series: &Series) -> ExponentialPoint {
    let empty = Durations::default();
    let durations = match &series.value {
        Value::Durations(durations) => durations,
        _ => &empty,
    };
    let bins = &durations.bins;
    let first = bins.iter().position(|n| *n > 0);
    let last = bins.iter().rposition(|n| *n > 0);
    let positive = first.zip(last).map(|(first, last)| Buckets {
        offset: first as i32,
        bucket_counts: bins.get(first..=last).unwrap_or(&[]).to_vec(),
    });
    ExponentialPoint {
        attributes: attributes(&series.labels),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: durations.count(),
        sum: Some(durations.sum_ns as f64),
        scale: SCALE,
        zero_count: 0,
        positive,
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    let pairs = labels.iter();
    let pairs = pairs.map(|(key, text)| KeyValue {
        key: (*key).into(),
        value: Some(any(Any::Text(text.clone()))),
    });
    pairs.collect()
}

fn any(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(family: Family, value: Value) -> Metric {
        let snapshot = Snapshot {
            families: vec![(
                family,
                vec![Series {
                    labels: vec![("thread.group", "pool-#".into())],
                    value,
                }],
            )],
            start_unix_ns: 5,
            process_start_unix_ns: Some(3),
            time_unix_ns: 9,
        };
        let resource = Resource {
            process: Some(Process {
                name: "server".into(),
                pid: 7,
            }),
            host: "h".into(),
        };
        let bytes = export_request(&snapshot, &resource, "1");
        let mut request = ExportRequest::decode(bytes.as_slice()).unwrap();
        let mut of_process = request.resource_metrics.remove(0);
        let attributes = of_process.resource.unwrap().attributes;
        assert!(attributes.iter().any(
            |a| a.key == "process.pid" && a.value.as_ref().unwrap().value == Some(Any::Int(7))
        ));
        of_process.scope_metrics.remove(0).metrics.remove(0)
    }

    #[test]
    fn counters_are_cumulative_and_monotonic() {
        let metric = encoded(Family::ThreadCpu, Value::Nanoseconds(1_500_000_000));
        assert_eq!(
            (metric.unit.as_str(), metric.name.as_str()),
            ("s", "convoy.thread.cpu")
        );
        let Some(Data::Sum(sum)) = metric.data else {
            panic!("{metric:?}");
        };
        assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
        let point = &sum.data_points[0];
        assert_eq!(point.value, Some(Number::Double(1.5)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
        assert_eq!(point.attributes[0].key, "thread.group");
    }

    #[test]
    fn durations_are_exponential_histograms_without_loss() {
        let mut durations = Durations {
            sum_ns: 4_000,
            ..Durations::default()
        };
        (durations.bins[9], durations.bins[11]) = (3, 2);
        let value = Value::Durations(Box::new(durations));
        let metric = encoded(Family::FunctionDuration, value);
        assert_eq!(metric.unit, "ns");
        let Some(Data::Exponential(histogram)) = metric.data else {
            panic!("{metric:?}");
        };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum, point.scale), (5, Some(4_000.0), 0));
        let buckets = point.positive.as_ref().unwrap();
        assert_eq!(
            (buckets.offset, &buckets.bucket_counts[..]),
            (9, &[3, 0, 2][..])
        );
    }

    #[test]
    fn refused_points_are_told_and_garbage_is_not() {
        let response = ExportResponse {
            partial_success: Some(proto::PartialSuccess {
                rejected_data_points: 2,
                error_message: "too old".into(),
            }),
        };
        let bytes = response.encode_to_vec();
        assert_eq!(rejected(&bytes), Some((2, "too old".into())));
        assert_eq!(rejected(&[]), None);
        assert_eq!(rejected(b"<html>"), None);
    }
}
