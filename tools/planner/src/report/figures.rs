//! The head of a report: the verdict, the table of figures, and the table of settings.

use std::collections::BTreeMap;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;

use super::format::{count, dollars, secs};
use super::model::{Cell, Column, RunHead, Section, Table, Tone, Verdict, labels};
use crate::record::{Cost, Flushed, Record, RecordKind, Sample};

/// Returns the title of a report.
pub(super) fn title(runs: &[&Record]) -> String {
    let titles: Vec<&str> = runs.iter().map(|run| run.title.as_str()).collect();
    titles.join(" against ")
}

/// Returns the heads of the runs.
pub(super) fn runs(runs: &[&Record]) -> Vec<RunHead> {
    let heads = runs.iter().zip(labels(runs.len()));
    heads
        .map(|(run, label)| RunHead {
            label: *label,
            title: run.title.clone(),
            origin: origin(run),
            verdict: verdict(run),
            notes: run.notes.clone(),
        })
        .collect()
}

fn origin(run: &Record) -> String {
    let kind = match run.kind {
        RecordKind::Burst => "A burst that was sent",
        RecordKind::Plan => "A plan, computed by a model: nothing was sent",
    };
    let began = run.began_at_ms.and_then(|ms| i64::try_from(ms).ok());
    let began = began.and_then(|ms| DateTime::from_millis(ms).fmt(Format::DateTime).ok());
    match began {
        Some(began) => format!("{kind}. It began at {began}."),
        None => format!("{kind}."),
    }
}

fn verdict(run: &Record) -> Verdict {
    let (tone, word, reason) = match (run.kind, run.outcome.ok) {
        (RecordKind::Plan, Some(true)) => {
            (Tone::Neutral, "PLANNED", "nothing would be lost".into())
        }
        (RecordKind::Plan, Some(false)) => (Tone::Bad, "PLANNED: NOT OK", faults(run)),
        (RecordKind::Plan, None) => (Tone::Neutral, "PLANNED", "no verdict".into()),
        (RecordKind::Burst, Some(true)) => {
            (Tone::Good, "OK", "nothing lost, nothing repeated".into())
        }
        (RecordKind::Burst, Some(false)) => (Tone::Bad, "FAILED", faults(run)),
        (RecordKind::Burst, None) => {
            let reason = "whether anything was lost or repeated is not known";
            (Tone::Neutral, "NOT AUDITED", reason.into())
        }
    };
    Verdict {
        tone,
        word,
        reason,
        counts: counts(run),
    }
}

/// Returns what went wrong: the reasons of the record, or the counts that are not 0.
fn faults(run: &Record) -> String {
    let outcome = &run.outcome;
    if !outcome.reasons.is_empty() {
        return outcome.reasons.join("; ");
    }
    // A record of version 1 has no reasons.
    let counts = [
        ("lost", outcome.lost),
        ("repeated", outcome.repeated),
        ("set aside", outcome.set_aside),
    ];
    let some = counts.into_iter().filter_map(|(what, number)| {
        let number = number.filter(|number| *number > 0)?;
        Some(format!("{} {what}", count(number)))
    });
    let some = Vec::from_iter(some).join(", ");
    match some.is_empty() {
        true => "none of the counts says why".into(),
        false => some,
    }
}

/// Returns the counts of a run in one sentence, and how long it took.
fn counts(run: &Record) -> String {
    let outcome = &run.outcome;
    let counts = [
        (Some(outcome.sent), "messages"),
        (Some(outcome.unique), "unique events"),
        (outcome.delivered, "delivered"),
        (outcome.lost, "lost"),
        (outcome.repeated, "repeated"),
        (outcome.set_aside, "set aside"),
    ];
    let known = counts.into_iter().filter_map(|(number, what)| {
        let number = number?;
        Some(format!("{} {what}", count(number)))
    });
    let counts = Vec::from_iter(known).join(", ");
    match outcome.drained_after_secs {
        Some(after) => format!("{counts}; the last batch complete after {}.", secs(after)),
        None => format!("{counts}."),
    }
}

/// Returns the section with the figures.
pub(super) fn section(runs: &[&Record]) -> Section {
    Section {
        id: "figures",
        heading: "Figures",
        tables: vec![figures(runs)],
        wide: runs.len() > 1,
        ..Section::default()
    }
}

/// Returns the section with the settings.
pub(super) fn settings_section(runs: &[&Record]) -> Section {
    Section {
        id: "settings",
        heading: "Environment and configuration",
        tables: vec![settings(runs)],
        wide: runs.len() > 1,
        ..Section::default()
    }
}

/// How a figure is written.
#[derive(Clone, Copy)]
enum Form {
    Count,
    Secs,
    Dollars,
}

impl Form {
    fn text(self, value: f64) -> String {
        match self {
            Form::Count if value < 0.0 => format!("−{}", count(-value as u64)),
            Form::Count => count(value as u64),
            Form::Secs => secs(value),
            Form::Dollars => dollars(value),
        }
    }

    /// Returns a difference with its sign, and in percent.
    fn difference(self, from: f64, to: f64) -> String {
        let difference = to - from;
        if difference == 0.0 {
            return "same".into();
        }
        let sign = if difference > 0.0 { "+" } else { "" };
        let text = format!("{sign}{}", self.text(difference));
        if from == 0.0 {
            return text;
        }
        let percent = difference * 100.0 / from.abs();
        format!("{text} ({})", format!("{percent:+.1} %").replace('-', "−"))
    }
}

/// Returns the figures of the runs, side by side, with the differences of two. A figure that no run has is left out.
fn figures(runs: &[&Record]) -> Table {
    let of_runs: Vec<Vec<Figure>> = runs.iter().map(|run| of_run(run)).collect();
    let mut names: Vec<(&str, Form)> = Vec::new();
    for (name, form, value) in of_runs.iter().flatten() {
        if value.is_some() && !names.iter().any(|(known, _)| known == name) {
            names.push((name, *form));
        }
    }
    let value = |run: &[Figure], name: &str| {
        let figure = run.iter().find(|(each, _, _)| each == name);
        figure.and_then(|(_, _, value)| *value)
    };
    let rows = names.iter().map(|(name, form)| {
        let values: Vec<Option<f64>> = of_runs.iter().map(|run| value(run, name)).collect();
        let texts = values.iter().map(|value| match value {
            Some(value) => form.text(*value),
            None => "not observed".into(),
        });
        let mut texts: Vec<String> = std::iter::once((*name).to_owned()).chain(texts).collect();
        if let [from, to] = values[..] {
            let both = from.zip(to);
            texts.push(both.map_or_else(String::new, |(from, to)| form.difference(from, to)));
        }
        texts.into_iter().map(Cell::Text).collect()
    });
    let rows = rows.collect();
    let mut columns = vec![Column::text("figure")];
    match runs.len() {
        1 => columns.push(Column::number("value")),
        _ => columns.extend(["A", "B", "B less A"].map(Column::number)),
    }
    Table {
        caption: "Figures".into(),
        columns,
        rows,
    }
}

/// A figure of a run: its name, how it is written, and its value, if it was observed.
type Figure = (String, Form, Option<f64>);

fn figure(name: &str, value: Option<u64>) -> Figure {
    let value = value.map(|value| value as f64);
    (name.to_owned(), Form::Count, value)
}

fn time(name: &str, value: Option<f64>) -> Figure {
    (name.to_owned(), Form::Secs, value)
}

fn of_run(run: &Record) -> Vec<Figure> {
    let outcome = &run.outcome;
    let mut figures = vec![
        figure("Messages", Some(outcome.sent)),
        figure("Unique events", Some(outcome.unique)),
        figure("Duplicates", Some(outcome.duplicates)),
        figure("Delivered events", outcome.delivered),
        figure("Lost", outcome.lost),
        figure("Repeated", outcome.repeated),
        figure("Set aside", outcome.set_aside),
        time("Sent after", outcome.sent_after_secs),
        time("Input queue empty after", outcome.claimed_after_secs),
        time("Last batch complete after", outcome.drained_after_secs),
    ];
    figures.extend(of_batches(run));
    figures.extend(of_samples(run));
    for latency in &run.latencies {
        let named = |percentile| format!("{}: {percentile}", capital(&latency.name));
        figures.push(time(&named("median"), Some(latency.p50_secs)));
        figures.push(time(&named("99th percentile"), Some(latency.p99_secs)));
    }
    if !run.costs.is_empty() {
        let mut push = |name: &str, each: fn(&Cost) -> f64| {
            let sum = run.costs.iter().map(each).sum();
            figures.push((name.to_owned(), Form::Dollars, Some(sum)));
        };
        push("Cost of the run", |cost| cost.dollars);
        push("Cost of a million unique events", |cost| {
            cost.dollars_per_million_unique
        });
    }
    figures
}

fn of_batches(run: &Record) -> Vec<Figure> {
    if run.batches.is_empty() {
        return Vec::new();
    }
    let flushed = |name, why| {
        let batches = run.batches.iter();
        let flushed = batches.filter(|each| each.flushed == Some(why));
        figure(name, Some(flushed.count() as u64))
    };
    let events = run.batches.iter().map(|batch| batch.events);
    let parts = run.batches.iter().map(|batch| batch.parts).sum();
    let mut figures = vec![
        figure("Batches", Some(run.batches.len() as u64)),
        figure("Parts", Some(parts)),
        figure("Events of the largest batch", events.clone().max()),
        figure("Events of the smallest batch", events.min()),
    ];
    if run.batches.iter().any(|batch| batch.flushed.is_some()) {
        figures.extend([
            flushed("Batches closed because they were full", Flushed::Full),
            flushed(
                "Batches closed because the queue was empty",
                Flushed::Drained,
            ),
            flushed("Batches closed by their window", Flushed::Window),
        ]);
    }
    figures
}

fn of_samples(run: &Record) -> [Figure; 7] {
    let samples = run.samples.iter();
    let most = |value: fn(&Sample) -> Option<u64>| samples.clone().filter_map(value).max();
    let ages = samples.clone().filter_map(|each| each.oldest_secs);
    let throttled = run.throttles.iter().map(|throttle| throttle.count);
    let throttled = (!run.throttles.is_empty()).then(|| throttled.sum());
    let in_queue = most(|each| Some(each.visible? + each.in_flight?));
    let processors = most(|each| each.batch_processors);
    let sampled = most(|each| each.throttled);
    [
        figure("Most messages in the input queue", in_queue),
        time("Greatest age in the input queue", ages.reduce(f64::max)),
        figure("Most aggregators at once", most(|each| each.aggregators)),
        figure("Most batch-processors at once", processors),
        figure("Requests throttled", sampled.or(throttled)),
        figure("Messages returned to the queue", most(|each| each.returned)),
        figure("Retries of the sender", run.outcome.send_retries),
    ]
}

/// Returns the settings of the runs side by side, those of the first run in its order. Two values that differ are marked.
fn settings(runs: &[&Record]) -> Table {
    let maps: Vec<BTreeMap<&str, &str>> = runs
        .iter()
        .map(|run| {
            let pairs = run.settings.iter();
            pairs
                .map(|each| (each.name.as_str(), each.value.as_str()))
                .collect()
        })
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for setting in runs.iter().flat_map(|run| &run.settings) {
        if !names.contains(&setting.name.as_str()) {
            names.push(&setting.name);
        }
    }
    let rows = names.iter().map(|name| {
        let values: Vec<Option<&str>> = maps.iter().map(|map| map.get(name).copied()).collect();
        let mut cells = vec![Cell::text(*name)];
        cells.extend(values.iter().map(|value| Cell::text(value.unwrap_or("–"))));
        if let [a, b] = values[..] {
            cells.push(Cell::text(if a == b { "" } else { "differs" }));
        }
        cells
    });
    let rows = rows.collect();
    let mut columns = vec![Column::text("setting")];
    match runs.len() {
        1 => columns.push(Column::text("value")),
        _ => columns.extend(["A", "B", "difference"].map(Column::text)),
    }
    Table {
        caption: "Environment and configuration".into(),
        columns,
        rows,
    }
}

/// Returns a text with a capital first letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
