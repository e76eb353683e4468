//! What a report shows: charts, tables and sentences.

use serde::Serialize;

use crate::record::Flushed;

/// A report of one run, or of two.
pub(super) struct Report {
    pub title: String,
    pub runs: Vec<RunHead>,
    /// Those with charts come first.
    pub sections: Vec<Section>,
    pub data: Data,
}

/// The head of a run.
pub(super) struct RunHead {
    /// `A` or `B`; `None` if there is one run.
    pub label: Option<&'static str>,
    pub title: String,
    /// What kind of run it was, and when it began.
    pub origin: String,
    pub verdict: Verdict,
    pub notes: Vec<String>,
}

/// Whether a run was good.
pub(super) struct Verdict {
    pub tone: Tone,
    /// One word, or two.
    pub word: &'static str,
    /// Why.
    pub reason: String,
    /// The counts that the verdict goes by.
    pub counts: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    /// Nothing was audited.
    Neutral,
}

/// One heading with what belongs to it.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub id: &'static str,
    pub heading: &'static str,
    /// What a reader sees, and what is not shown and why.
    pub sentences: Vec<String>,
    pub charts: Vec<Chart>,
    /// Tables that are always open. The numbers of charts are in tables of their own.
    pub tables: Vec<Table>,
    /// Whether it takes the whole width of a wide screen.
    pub wide: bool,
}

/// A table of texts.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
pub(super) struct Column {
    pub name: String,
    /// Whether its cells are numbers, which are set to the right.
    pub number: bool,
}

impl Column {
    pub fn text(name: impl Into<String>) -> Column {
        let name = name.into();
        Column {
            name,
            number: false,
        }
    }

    pub fn number(name: impl Into<String>) -> Column {
        let name = name.into();
        Column { name, number: true }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    /// A bar of this length, in percent of the longest.
    Bar(f64),
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }
}

/// What the script draws. The fields are its input; `report.js` reads them.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Chart {
    /// Lines over time.
    Lines(Lines),
    /// Lines over the names of percentiles.
    Percentiles(Percentiles),
    /// The batches of one run on a time line.
    TimeLine(OfBatches),
    /// The sizes of the batches of one run.
    Sizes(OfBatches),
}

#[derive(Debug, Serialize)]
pub(super) struct Lines {
    /// What the chart shows, for readers who do not see it.
    pub name: String,
    pub unit: Unit,
    pub runs: Vec<LinesOfRun>,
}

#[derive(Debug, Serialize)]
pub(super) struct LinesOfRun {
    pub label: Option<&'static str>,
    /// Seconds from the start of the run.
    pub at_secs: Vec<f64>,
    pub lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub label: &'static str,
    /// A number from 0; the same thing has the same colour in all charts.
    pub colour: usize,
    pub values: Vec<Option<f64>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Percentiles {
    pub name: String,
    pub names: Vec<&'static str>,
    /// Whether the values differ so much that their axis is logarithmic.
    pub logarithmic: bool,
    pub lines: Vec<PercentileLine>,
}

#[derive(Debug, Serialize)]
pub(super) struct PercentileLine {
    pub run: usize,
    pub label: String,
    pub colour: usize,
    pub secs: Vec<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct OfBatches {
    pub name: String,
    pub label: Option<&'static str>,
    /// The position of the run in [`Data::batches`].
    pub run: usize,
    /// The most events of a batch in any run, so that all runs have the same axis.
    pub events_max: u64,
}

/// The unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    Messages,
    MessagesASecond,
    Secs,
    Environments,
    Count,
}

impl Unit {
    /// Returns the unit for people.
    pub fn text(self) -> &'static str {
        match self {
            Unit::Messages => "messages",
            Unit::MessagesASecond => "messages a second",
            Unit::Secs => "seconds",
            Unit::Environments => "environments",
            Unit::Count => "count",
        }
    }
}

/// What several charts share.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    /// The end of every time axis.
    pub end_secs: f64,
    /// The batches of each run.
    pub batches: Vec<BatchColumns>,
}

/// The batches of one run, by column. A time that is not known is `None`.
#[derive(Debug, Default, Serialize)]
pub(super) struct BatchColumns {
    pub batch_id: Vec<String>,
    /// `None` if no batch has a key.
    pub batch_key: Option<Vec<Option<String>>>,
    pub opened: Vec<f64>,
    pub sealed: Vec<Option<f64>>,
    pub leased: Vec<Option<f64>>,
    pub delivered: Vec<Option<f64>>,
    pub events: Vec<u64>,
    pub parts: Vec<u64>,
    /// `full`, `drained` or `window`; `None` if that is not known.
    pub flushed: Vec<Option<Flushed>>,
    /// `None` if it is known of no batch.
    pub invocations: Option<Vec<Option<u64>>>,
    /// The most rows of the table of the batches.
    pub rows_max: usize,
}

/// Returns the labels of runs: none for a single one.
pub(super) fn labels(runs: usize) -> &'static [Option<&'static str>] {
    match runs {
        1 => &[None],
        _ => &[Some("A"), Some("B")],
    }
}
