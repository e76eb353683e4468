//! Writes the record of a burst, and the report of it.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use planner::{LatencySummary, Outcome, Record, RecordKind, ReportFiles, Sample, Setting};
use protocol::text::counted;

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
    let sent = &summary.sent;
    let faults = summary.faults.as_ref();
    let mut notes = observed.notes;
    notes.extend(faults.into_iter().flat_map(fault_notes));
    Record {
        began_at_ms: Some(epoch_ms(observed.began_at)),
        settings: observed.settings,
        outcome: Outcome {
            ok: Some(summary.ok()),
            reasons: summary.reasons(),
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
        samples: with_deliveries(observed.samples, &observed.batches),
        batches: observed.batches.into_iter().map(|one| one.span).collect(),
        latencies: observed.latencies,
        throttles: faults.map(|faults| faults.throttles()).unwrap_or_default(),
        costs: summary.cost.costs(sent.unique),
        notes,
        ..Record::bare(RecordKind::Burst, title(summary))
    }
}

/// Returns a note for each line about a fault.
fn fault_notes(faults: &FaultReport) -> Vec<String> {
    let text = faults.to_string();
    let words = text.lines();
    let words = words.map(|line| Vec::from_iter(line.split_whitespace()).join(" "));
    words.map(|line| format!("With faults: {line}")).collect()
}

fn title(summary: &Summary) -> String {
    format!(
        "batch-local burst: {}, {} of them duplicates, to the sink {}",
        counted(summary.sent.sent, "message"),
        summary.sent.duplicates,
        summary.sink.kind
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use planner::{BatchSpan, Flushed};

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
                invocations: None,
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
    fn the_files_are_where_they_were_asked_for_or_in_a_directory_of_their_own() {
        let began_at = UNIX_EPOCH + Duration::from_millis(1_764_000_000_000);
        let asked = report_files(Some("runs/a.json".into()), began_at);
        assert_eq!(asked.report, Path::new("runs/a.html"));
        let default = report_files(None, began_at);
        assert!(default.record.starts_with(std::env::temp_dir()));
        let directory = default.record.parent().and_then(Path::file_name).unwrap();
        let directory = directory.to_string_lossy();
        assert!(directory.starts_with("burst-1764000000000-"));
    }
}
