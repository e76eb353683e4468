//! Latencies, throttles and costs: figures of whole runs.

use super::format::{count, dollars, secs};
use super::model::{Cell, Chart, Column, PercentileLine, Percentiles, Section, Table, labels};
use crate::record::{Cost, LatencySummary, Record, Throttle};

/// A logarithmic axis is used if the largest value is this many times the smallest.
const LOGARITHMIC_FROM: f64 = 50.0;

/// Returns the section with the percentiles of latencies: a chart, and its numbers.
pub(super) fn latencies(runs: &[&Record]) -> Section {
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (run, (record, label)) in runs.iter().zip(labels(runs.len())).enumerate() {
        for latency in &record.latencies {
            let known = names.iter().position(|name| *name == latency.name);
            let colour = known.unwrap_or_else(|| {
                names.push(&latency.name);
                names.len() - 1
            });
            let label = match label {
                Some(label) => format!("{label}: {}", latency.name),
                None => latency.name.clone(),
            };
            rows.push(latency_row(&label, latency));
            lines.push(PercentileLine {
                run,
                label,
                colour,
                secs: percentiles(latency).to_vec(),
            });
        }
    }
    let mut section = Section {
        id: "latencies",
        heading: "Latencies",
        sentences: missing(runs, "latencies", |run| run.latencies.is_empty()),
        wide: true,
        ..Section::default()
    };
    if lines.is_empty() {
        return section;
    }
    section.sentences.insert(0, LATENCIES.to_owned());
    section.charts.push(Chart::Percentiles(Percentiles {
        name: "Latencies by percentile".to_owned(),
        names: PERCENTILES.to_vec(),
        logarithmic: spread(&lines) >= LOGARITHMIC_FROM,
        lines,
    }));
    let columns = ["latency", "count"].into_iter().chain(PERCENTILES);
    section.tables.push(Table {
        caption: "Latencies by percentile".to_owned(),
        columns: columns
            .enumerate()
            .map(|(position, name)| match position {
                0 => Column::text(name),
                _ => Column::number(name),
            })
            .collect(),
        rows,
    });
    section
}

const LATENCIES: &str = "How long things took: the value at a percentile is at least that of this share of all. Each name says \
                         what was measured.";
const PERCENTILES: [&str; 6] = ["least", "median", "90 %", "99 %", "99.9 %", "most"];

fn percentiles(latency: &LatencySummary) -> [f64; 6] {
    [
        latency.min_secs,
        latency.p50_secs,
        latency.p90_secs,
        latency.p99_secs,
        latency.p999_secs,
        latency.max_secs,
    ]
}

fn latency_row(label: &str, latency: &LatencySummary) -> Vec<Cell> {
    let mut row = vec![Cell::text(label), Cell::text(count(latency.count))];
    row.extend(percentiles(latency).map(|value| Cell::text(secs(value))));
    row
}

/// Returns how many times the largest value is the smallest; 0 if a value is 0, which a logarithmic axis does not have.
fn spread(lines: &[PercentileLine]) -> f64 {
    let values = || lines.iter().flat_map(|line| &line.secs).copied();
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    if least > 0.0 { most / least } else { 0.0 }
}

/// Returns the section with the throttled requests.
pub(super) fn throttles(runs: &[&Record]) -> Section {
    let mut section = Section {
        id: "throttles",
        heading: "Throttled requests",
        sentences: missing(runs, "throttled requests", |run| run.throttles.is_empty()),
        wide: runs.len() > 1,
        ..Section::default()
    };
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for throttle in runs.iter().flat_map(|run| &run.throttles) {
        let key = (throttle.resource.as_str(), throttle.reason.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let of = |run: &Record, key: (&str, &str)| -> Option<u64> {
        let is_key = |each: &&Throttle| (each.resource.as_str(), each.reason.as_str()) == key;
        run.throttles.iter().find(is_key).map(|each| each.count)
    };
    let rows = keys.iter().map(|key| Row {
        cells: vec![Cell::text(key.0), Cell::text(key.1)],
        values: runs
            .iter()
            .map(|run| of(run, *key).map(|count| count as f64))
            .collect(),
        more: Vec::new(),
    });
    let columns = [Column::text("resource"), Column::text("reason")];
    let form = |value: f64| count(value as u64);
    section.tables.extend(with_bars(
        "Throttled requests",
        columns.into(),
        "requests",
        rows.collect(),
        form,
    ));
    section
}

/// Returns the section with the costs by purpose.
pub(super) fn costs(runs: &[&Record]) -> Section {
    let mut section = Section {
        id: "costs",
        heading: "Cost",
        sentences: missing(runs, "costs", |run| run.costs.is_empty()),
        wide: true,
        ..Section::default()
    };
    let mut purposes: Vec<&str> = Vec::new();
    for cost in runs.iter().flat_map(|run| &run.costs) {
        if !purposes.contains(&cost.purpose.as_str()) {
            purposes.push(&cost.purpose);
        }
    }
    if purposes.is_empty() {
        return section;
    }
    let prices = "List prices, for a million unique events and for the whole run.";
    section.sentences.insert(0, prices.to_owned());
    let of = |run: &Record, purpose: &str| -> Option<Cost> {
        run.costs
            .iter()
            .find(|cost| cost.purpose == purpose)
            .cloned()
    };
    let mut rows: Vec<Row> = purposes
        .iter()
        .map(|purpose| {
            let costs: Vec<Option<Cost>> = runs.iter().map(|run| of(run, purpose)).collect();
            let each =
                |value: fn(&Cost) -> f64| costs.iter().map(move |cost| cost.as_ref().map(value));
            Row {
                cells: vec![Cell::text(*purpose)],
                values: each(|cost| cost.dollars_per_million_unique).collect(),
                more: each(|cost| cost.dollars)
                    .map(|value| optional(value, dollars))
                    .chain(costs.iter().map(quantity))
                    .collect(),
            }
        })
        .collect();
    let sum = |run: &Record, value: fn(&Cost) -> f64| {
        (!run.costs.is_empty()).then(|| run.costs.iter().map(value).sum::<f64>())
    };
    let total = |value| runs.iter().map(move |run| sum(run, value));
    rows.push(Row {
        cells: vec![Cell::text("total")],
        values: total(|cost| cost.dollars_per_million_unique).collect(),
        more: total(|cost| cost.dollars)
            .map(|value| optional(value, dollars))
            .chain(runs.iter().map(|_| Cell::text("")))
            .collect(),
    });
    let table = with_bars(
        "Cost by purpose",
        vec![Column::text("purpose")],
        "a million unique",
        rows,
        dollars,
    );
    section.tables.extend(table.map(|mut table| {
        for name in ["the run", "quantity"] {
            let of_runs = labels(runs.len()).iter();
            table.columns.extend(of_runs.map(|label| match label {
                Some(label) => Column::number(format!("{label}: {name}")),
                None => Column::number(name),
            }));
        }
        table
    }));
    section
}

fn quantity(cost: &Option<Cost>) -> Cell {
    Cell::text(cost.as_ref().map_or("–", |cost| cost.quantity.as_str()))
}

fn optional(value: Option<f64>, form: fn(f64) -> String) -> Cell {
    value.map_or_else(|| Cell::text("–"), |value| Cell::text(form(value)))
}

/// A row of a table with bars.
struct Row {
    cells: Vec<Cell>,
    /// The value of each run, which also is the length of its bar.
    values: Vec<Option<f64>>,
    /// Cells after the bars.
    more: Vec<Cell>,
}

/// Returns a table in which every value has a bar; `None` if there are no rows. Columns of `more` are left to the caller.
fn with_bars(
    caption: &str,
    mut columns: Vec<Column>,
    value: &str,
    rows: Vec<Row>,
    form: fn(f64) -> String,
) -> Option<Table> {
    let runs = rows.first()?.values.len();
    for label in labels(runs) {
        columns.push(Column::number(match label {
            Some(label) => format!("{label}: {value}"),
            None => value.to_owned(),
        }));
        columns.push(Column::text(""));
    }
    let values = rows.iter().flat_map(|row| &row.values).flatten();
    let most = values.copied().fold(0.0, f64::max);
    let rows = rows.into_iter().map(|row| {
        let mut cells = row.cells;
        for value in row.values {
            let percent = value
                .filter(|_| most > 0.0)
                .map_or(0.0, |value| value * 100.0 / most);
            cells.push(optional(value, form));
            cells.push(Cell::Bar(percent));
        }
        cells.extend(row.more);
        cells
    });
    Some(Table {
        caption: caption.to_owned(),
        rows: rows.collect(),
        columns,
    })
}

/// Returns a sentence for each run that has none of something.
fn missing(runs: &[&Record], what: &str, none: fn(&Record) -> bool) -> Vec<String> {
    let labelled = runs.iter().zip(labels(runs.len()));
    labelled
        .filter(|(run, _)| none(run))
        .map(|(_, label)| match label {
            Some(label) => format!("The record of run {label} has no {what}."),
            None => format!("The record has no {what}."),
        })
        .collect()
}
