//! Writes the record of a burst, and the report that `loadgen` draws of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loadgen::{
    LatencyHistogram, LatencySummary, Outcome, RECORD_VERSION, Record, RecordKind, ReportFiles,
    Sample, Setting,
};

use crate::batch_life::BatchLife;
use crate::faults::FaultReport;
use crate::summary::Summary;

/// What was observed of a burst besides its summary.
pub struct Observed {
    pub began_at: SystemTime,
    pub settings: Vec<Setting>,
    pub samples: Vec<Sample>,
    pub batches: Vec<BatchLife>,
    pub latencies: Vec<LatencySummary>,
    pub notes: Vec<String>,
}

/// Returns where the record of a burst goes: to `file`, or into a new directory for temporary files if that is `None`.
pub fn report_files(file: Option<PathBuf>, began_at: SystemTime) -> ReportFiles {
    ReportFiles::beside(file.unwrap_or_else(|| {
        let name = format!("burst-{}-{}", epoch_ms(began_at), std::process::id());
        std::env::temp_dir().join(name).join("report.json")
    }))
}

/// Returns the record of a burst.
pub fn record(summary: &Summary, observed: Observed) -> Record {
    let Observed {
        began_at,
        settings,
        samples,
        batches,
        latencies,
        notes,
    } = observed;
    let sent = &summary.sent;
    let samples = with_deliveries(samples, &batches);
    let faults = summary.faults.as_ref();
    Record {
        version: RECORD_VERSION,
        kind: RecordKind::Burst,
        title: title(summary),
        began_at_ms: Some(epoch_ms(began_at)),
        settings,
        outcome: Outcome {
            ok: Some(summary.ok()),
            sent: sent.sent,
            unique: sent.unique,
            duplicates: sent.duplicates,
            delivered: Some(summary.audit.delivered),
            lost: Some(summary.audit.lost),
            repeated: Some(summary.audit.repeated),
            set_aside: Some(summary.set_aside.total()),
            sent_after_secs: Some(summary.time.sent_secs),
            claimed_after_secs: Some(summary.time.claimed_secs),
            drained_after_secs: Some(summary.time.drained_secs),
            send_retries: Some(sent.retries),
        },
        samples,
        batches: batches.into_iter().map(|batch| batch.span).collect(),
        latencies,
        throttles: faults.map(|faults| faults.throttles()).unwrap_or_default(),
        costs: summary.cost.costs(sent.unique),
        notes: notes
            .into_iter()
            .chain(faults.map(fault_notes).into_iter().flatten())
            .collect(),
    }
}

/// Returns a note for each line about a fault.
fn fault_notes(faults: &FaultReport) -> Vec<String> {
    let text = faults.to_string();
    let words = text
        .lines()
        .map(|line| Vec::from_iter(line.split_whitespace()).join(" "));
    words.map(|line| format!("With faults: {line}")).collect()
}

fn title(summary: &Summary) -> String {
    format!(
        "local burst: {} messages, {} of them duplicates, to the sink {}",
        summary.sent.sent, summary.sent.duplicates, summary.sink.kind
    )
}

fn epoch_ms(at: SystemTime) -> u64 {
    let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// Adds the events in delivered parts to samples. They are known only afterwards, from the batch records, because reading
/// those while the burst runs would slow it down.
fn with_deliveries(mut samples: Vec<Sample>, batches: &[BatchLife]) -> Vec<Sample> {
    let parts = batches.iter().flat_map(|batch| &batch.parts);
    let parts = parts.filter_map(|part| Some((part.at_secs?, part.events)));
    let mut parts = Vec::from_iter(parts);
    parts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut next = parts.into_iter().peekable();
    let mut delivered = 0;
    for sample in &mut samples {
        while let Some((_, events)) = next.next_if(|(at_secs, _)| *at_secs <= sample.at_secs) {
            delivered += events;
        }
        sample.delivered = Some(delivered);
    }
    samples
}

/// Collects the time from the send of each event to its delivery, while the delivered files are audited.
pub struct DeliveryTimes<'b> {
    /// When each part was delivered, by the name of its batch and its number.
    parts: HashMap<(String, u64), f64>,
    /// When each event was sent.
    sent: &'b [Duration],
    latencies: LatencyHistogram,
    /// The file of the last event, and when it was delivered.
    last: (String, Option<f64>),
}

impl<'b> DeliveryTimes<'b> {
    pub fn new(batches: &[BatchLife], sent: &'b [Duration]) -> DeliveryTimes<'b> {
        let parts = batches.iter().flat_map(|batch| {
            let parts = (0u64..).zip(&batch.parts);
            let times = parts.filter_map(|(number, part)| Some((number, part.at_secs?)));
            times.map(|(number, at_secs)| ((batch.id.to_string(), number), at_secs))
        });
        DeliveryTimes {
            parts: parts.collect(),
            sent,
            latencies: LatencyHistogram::new(),
            last: (String::new(), None),
        }
    }

    /// Records the delivery of an event in a file, `<batchId>/<part>.<ext>` at any depth.
    pub fn delivered(&mut self, file: &str, number: u64) {
        if self.last.0 != file {
            self.last = (file.to_owned(), self.at_secs(Path::new(file)));
        }
        let sent = usize::try_from(number)
            .ok()
            .and_then(|number| self.sent.get(number));
        if let (Some(at_secs), Some(sent)) = (self.last.1, sent) {
            // The clock of the record counts whole milliseconds, so a difference may be negative.
            let latency = Duration::from_secs_f64(at_secs).saturating_sub(*sent);
            self.latencies.record(latency, 1);
        }
    }

    fn at_secs(&self, file: &Path) -> Option<f64> {
        let batch = file.parent()?.file_name()?.to_str()?;
        let part = file
            .file_name()?
            .to_str()?
            .split('.')
            .next()?
            .parse()
            .ok()?;
        self.parts.get(&(batch.to_owned(), part)).copied()
    }

    /// Returns the percentiles; `None` if no time is known.
    pub fn summary(&self, name: &str) -> Option<LatencySummary> {
        self.latencies.summary(name)
    }
}

#[cfg(test)]
mod tests {
    use loadgen::{BatchSpan, Flushed};

    use super::*;
    use crate::batch_life::PartDelivery;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    fn batch(parts: &[(u64, Option<f64>)]) -> BatchLife {
        let parts = parts.iter().map(|(events, at_secs)| PartDelivery {
            events: *events,
            at_secs: *at_secs,
        });
        BatchLife {
            id: BATCH.parse().unwrap(),
            span: BatchSpan {
                batch_id: BATCH.to_owned(),
                batch_key: None,
                opened_secs: 0.0,
                sealed_secs: None,
                leased_secs: None,
                delivered_secs: None,
                events: 0,
                parts: 0,
                flushed: Some(Flushed::Full),
            },
            parts: parts.collect(),
        }
    }

    #[test]
    fn deliveries_are_added_to_the_samples_after_them() {
        let at = |at_secs| Sample {
            at_secs,
            ..Sample::default()
        };
        let batches = [
            batch(&[(10, Some(1.5)), (5, None)]),
            batch(&[(7, Some(0.5))]),
        ];
        let samples = with_deliveries(vec![at(0.0), at(1.0), at(1.5), at(9.0)], &batches);
        let delivered: Vec<Option<u64>> = samples.iter().map(|sample| sample.delivered).collect();
        assert_eq!(delivered, [Some(0), Some(7), Some(17), Some(17)]);
    }

    #[test]
    fn an_event_is_delivered_with_its_part() {
        let batches = [batch(&[(2, Some(3.0)), (1, Some(5.0))])];
        let sent = [1, 2, 4].map(Duration::from_secs);
        let mut deliveries = DeliveryTimes::new(&batches, &sent);
        deliveries.delivered(&format!("{BATCH}/0.jsonl"), 0);
        deliveries.delivered(&format!("key=a/{BATCH}/0.jsonl"), 1);
        deliveries.delivered(&format!("{BATCH}/1.jsonl.gz"), 2);
        let summary = deliveries.summary("delivery").unwrap();
        assert_eq!(summary.count, 3);
        let close = |secs: f64, expected: f64| assert!((secs - expected).abs() < 0.01, "{secs}");
        close(summary.min_secs, 1.0);
        close(summary.max_secs, 2.0);
    }

    #[test]
    fn parts_whose_time_is_not_known_have_no_latency() {
        let batches = [batch(&[(1, None)])];
        let sent = [Duration::ZERO];
        let mut deliveries = DeliveryTimes::new(&batches, &sent);
        deliveries.delivered(&format!("{BATCH}/0.jsonl"), 0);
        deliveries.delivered("stray.jsonl", 0);
        assert_eq!(deliveries.summary("delivery"), None);
    }

    #[test]
    fn the_files_are_where_they_were_asked_for_or_in_a_directory_of_their_own() {
        let began_at = UNIX_EPOCH + Duration::from_millis(1_764_000_000_000);
        let asked = report_files(Some("runs/a.json".into()), began_at);
        assert_eq!(asked.report, Path::new("runs/a.html"));
        let default = report_files(None, began_at);
        assert!(default.record.starts_with(std::env::temp_dir()));
        let directory = default.record.parent().and_then(Path::file_name).unwrap();
        assert!(
            directory
                .to_string_lossy()
                .starts_with("burst-1764000000000-")
        );
    }
}
