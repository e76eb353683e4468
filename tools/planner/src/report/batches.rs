//! The batches of a run: on a time line, and by size.

use protocol::text::counted;

use super::format::count;
use super::model::{BatchColumns, Chart, OfBatches, Section, labels};
use crate::record::{BatchSpan, Record};

/// The most rows of the table of batches. A browser needs seconds for a table of all batches of a long run.
const ROWS_MAX: usize = 1_000;

const TIME_LINE: &str = "One line a batch, in the order in which they were opened: open until it was sealed or its window closed, \
     then waiting for a batch-processor, then at work until its last part was delivered.";
const SIZES: &str = "The events of each batch, by why it was closed: it was full, the input queue was empty (drained), or its window \
     ended.";

/// Returns the batches of a run by column, for the script.
pub(super) fn columns(run: &Record) -> BatchColumns {
    let batches = &run.batches;
    let keys = batches.iter().map(|batch| batch.batch_key.clone());
    let any_key = batches.iter().any(|batch| batch.batch_key.is_some());
    let flushed = batches.iter().map(|batch| batch.flushed);
    let invocations = batches.iter().map(|batch| batch.invocations);
    let any_invocations = invocations.clone().any(|count| count.is_some());
    let times = |time: fn(&BatchSpan) -> Option<f64>| batches.iter().map(time).collect();
    BatchColumns {
        batch_id: batches.iter().map(|batch| batch.batch_id.clone()).collect(),
        batch_key: any_key.then(|| keys.collect()),
        opened: batches.iter().map(|batch| batch.opened_secs).collect(),
        sealed: times(|batch| batch.sealed_secs),
        leased: times(|batch| batch.leased_secs),
        delivered: times(|batch| batch.delivered_secs),
        events: batches.iter().map(|batch| batch.events).collect(),
        parts: batches.iter().map(|batch| batch.parts).collect(),
        flushed: flushed.collect(),
        invocations: any_invocations.then(|| invocations.collect()),
        rows_max: ROWS_MAX,
    }
}

/// Returns the sections about batches.
pub(super) fn sections(runs: &[&Record]) -> Vec<Section> {
    let text = |text: &str| std::iter::once(text.to_owned());
    let labelled = || runs.iter().zip(labels(runs.len()));
    let none = labelled().filter_map(|(run, label)| no_batches(run, *label));
    let missing = labelled().flat_map(|(run, label)| missing(run, *label));
    let time_line = Section {
        id: "batches",
        heading: "Batches on a time line",
        sentences: text(TIME_LINE).chain(none.clone()).chain(missing).collect(),
        charts: charts(runs, "Batches on a time line", Chart::TimeLine),
        wide: true,
        ..Section::default()
    };
    let sizes = Section {
        id: "sizes",
        heading: "Sizes of batches",
        sentences: text(SIZES).chain(none).collect(),
        charts: charts(runs, "Sizes of batches", Chart::Sizes),
        ..Section::default()
    };
    vec![time_line, sizes]
}

/// Returns a chart for each run that has batches.
fn charts(runs: &[&Record], name: &str, chart: fn(OfBatches) -> Chart) -> Vec<Chart> {
    let events = runs.iter().flat_map(|run| &run.batches);
    let events_max = events.map(|batch| batch.events).max().unwrap_or_default();
    let runs_with_labels = runs.iter().zip(labels(runs.len())).enumerate();
    runs_with_labels
        .filter(|(_, (run, _))| !run.batches.is_empty())
        .map(|(run, (_, &label))| {
            let name = match label {
                Some(label) => format!("{name}, run {label}"),
                None => name.to_owned(),
            };
            chart(OfBatches {
                name,
                label,
                run,
                events_max,
            })
        })
        .collect()
}

/// Something about a batch, and whether it is known.
type Known = (&'static str, fn(&BatchSpan) -> bool);

fn of_run(label: Option<&str>) -> String {
    label.map_or_else(String::new, |label| format!(" of run {label}"))
}

/// Returns a sentence if a run has no batches.
fn no_batches(run: &Record, label: Option<&str>) -> Option<String> {
    let none = run.batches.is_empty();
    none.then(|| format!("The record{} has no batches.", of_run(label)))
}

/// Returns sentences about what is not known of the batches of a run, and what the table leaves out.
fn missing(run: &Record, label: Option<&str>) -> Vec<String> {
    let of_run = of_run(label);
    let batches = &run.batches;
    let mut sentences = Vec::new();
    let times: [Known; 4] = [
        ("when it was sealed", |batch| batch.sealed_secs.is_some()),
        ("when it was leased", |batch| batch.leased_secs.is_some()),
        ("when it was delivered", |batch| {
            batch.delivered_secs.is_some()
        }),
        ("why it was closed", |batch| batch.flushed.is_some()),
    ];
    for (what, known) in times {
        let unknown = batches.iter().filter(|batch| !known(batch)).count();
        if unknown > 0 {
            let unknown = count(unknown as u64);
            let all = counted(count(batches.len() as u64), "batch");
            sentences.push(format!("Not known of {unknown} of {all}{of_run}: {what}."));
        }
    }
    if batches.len() > ROWS_MAX {
        sentences.push(format!(
            "The table has the first {} of {} batches{of_run}; the record has all.",
            count(ROWS_MAX as u64),
            count(batches.len() as u64)
        ));
    }
    sentences
}
