//! Draws records as one HTML file that needs nothing else: no server, no network, no other file.
//!
//! | file | contents |
//! |---|---|
//! | `model` | what a report shows: charts, tables and sentences |
//! | `figures` | the verdict, the table of figures, and the table of settings |
//! | `over_time` | the charts of the samples |
//! | `batches` | the batches on a time line, and their sizes |
//! | `totals` | latencies, throttles and costs |
//! | `format` | numbers as texts |
//! | `html` | texts and tables as HTML |
//! | `page` | puts everything into one file |
//! | `assets` | the page, its style and script, and uPlot, which draws the charts |
//!
//! This module decides what is shown; the script only draws it. All text is in the HTML, so the page can be read without
//! the script. The page allows no request, and no script or style but its own: its policy names their hashes.

mod batches;
mod figures;
mod format;
mod html;
mod model;
mod over_time;
mod page;
mod totals;

use crate::record::Record;
use model::{Data, Report};

/// Returns the report of one run as HTML.
pub fn report(record: &Record) -> String {
    page::html(&of_runs(&[record]))
}

/// Returns the report that compares two runs, as HTML: both on the same axes, their figures side by side.
pub fn compare(a: &Record, b: &Record) -> String {
    page::html(&of_runs(&[a, b]))
}

fn of_runs(runs: &[&Record]) -> Report {
    let mut charts = over_time::sections(runs);
    charts.extend(batches::sections(runs));
    charts.push(totals::latencies(runs));
    let mut tables = vec![figures::section(runs)];
    tables.extend([totals::throttles(runs), totals::costs(runs)]);
    tables.push(figures::settings_section(runs));
    Report {
        title: figures::title(runs),
        runs: figures::runs(runs),
        data: Data {
            end_secs: runs.iter().map(|run| end_secs(run)).fold(0.0, f64::max),
            batches: runs.iter().map(|run| batches::columns(run)).collect(),
        },
        sections: charts.into_iter().chain(tables).collect(),
    }
}

/// Returns the time of the last thing that a run saw, in seconds from its start.
fn end_secs(run: &Record) -> f64 {
    let of_batches = run.batches.iter().flat_map(|batch| {
        let later = [batch.sealed_secs, batch.leased_secs, batch.delivered_secs];
        later.into_iter().flatten().chain([batch.opened_secs])
    });
    let of_samples = run.samples.iter().map(|sample| sample.at_secs);
    let of_run = run.outcome.drained_after_secs;
    of_batches
        .chain(of_samples)
        .chain(of_run)
        .fold(0.0, f64::max)
}
