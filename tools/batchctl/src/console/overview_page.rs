//! The page that says how a stack is.

use console::{Chart, Content, Page, Table, Text, Tile, Tone};
use protocol::pause::Pause;
use protocol::time::Timestamp;

use super::runbook;
use super::verbs::link;
use crate::overview::{History, Overview, QueueDepth, Sample};
use crate::times::{short, with_distance};

/// Returns the page of an overview.
pub(super) fn page(overview: &Overview, history: &History) -> Page {
    let mut page = Page::new("Overview");
    if !overview.alarms.is_empty() {
        page = page.with("Alarms that would ring", Content::Notes(alarms(overview)));
    }
    let unread = overview.unread.iter();
    let unread = Vec::from_iter(unread.map(|error| Text::from(error.as_str()).tone(Tone::Warning)));
    if !unread.is_empty() {
        page = page.with("Not read", Content::Notes(unread));
    }
    page.with("Batches", Content::Tiles(batches(overview)))
        .with("Queues", Content::Table(queues(overview.queues.iter())))
        .with(
            "The last hour",
            Content::Charts(charts(overview.at, history)),
        )
        .with(
            "What holds deliveries back",
            Content::Notes(holds(overview)),
        )
}

fn alarms(overview: &Overview) -> Vec<Text> {
    let alarms = overview.alarms.iter().map(|alarm| {
        let words = format!("{}: {}", alarm.name, alarm.reason);
        Text::link(words, runbook::path(alarm.name)).tone(Tone::Bad)
    });
    alarms.collect()
}

fn batches(overview: &Overview) -> Vec<Tile> {
    let counts = &overview.counts;
    let tile = |state: &str, count: usize, tone: Tone, note: String| Tile {
        name: state.to_owned(),
        value: Text::link(count.to_string(), format!("/batches?status={state}")).tone(
            match count {
                0 => Tone::Plain,
                _ => tone,
            },
        ),
        note,
    };
    let overdue = counts
        .overdue_since
        .map(|since| format!("for {}", short(since.until(overview.at))));
    let mut tiles = vec![
        tile("open", counts.open, Tone::Plain, String::new()),
        tile("sealed", counts.sealed, Tone::Plain, String::new()),
        tile("processing", counts.processing, Tone::Plain, String::new()),
        tile(
            "overdue",
            counts.overdue,
            Tone::Warning,
            overdue.unwrap_or_default(),
        ),
        tile("error", counts.error, Tone::Bad, String::new()),
    ];
    if let Some(oldest) = &counts.oldest {
        let id = oldest.batch_id;
        tiles.push(Tile {
            name: "oldest batch".to_owned(),
            value: Text::link(
                short(oldest.opened_at.until(overview.at)),
                format!("/batch?id={id}"),
            ),
            note: oldest.status.to_owned(),
        });
    }
    if let Some(rates) = &overview.rates {
        for (name, rate) in [
            ("reserved", rates.reserved_per_second),
            ("delivered", rates.delivered_per_second),
        ] {
            tiles.push(Tile {
                name: name.to_owned(),
                value: Text::from(format!("{rate:.0}")),
                note: "events a second".to_owned(),
            });
        }
    }
    tiles
}

fn queues<'o>(queues: impl Iterator<Item = &'o QueueDepth>) -> Table {
    let rows = queues.map(|queue| {
        let tone = match queue.role.is_set_aside() && queue.visible > 0 {
            true => Tone::Bad,
            false => Tone::Plain,
        };
        vec![
            Text::from(queue.role.as_str()),
            Text::from(queue.name.as_str()),
            Text::from(queue.visible.to_string()).tone(tone),
            Text::from(queue.in_flight.to_string()),
            Text::from(queue.delayed.to_string()),
        ]
    });
    Table {
        rows: rows.collect(),
        columns: ["For", "Queue", "Visible", "In flight", "Delayed"]
            .map(str::to_owned)
            .to_vec(),
        empty: "The stack does not say where its queues are.".to_owned(),
    }
}

fn charts(now: Timestamp, history: &History) -> Vec<Chart> {
    let chart = |name: &str, unit: &str, value: &dyn Fn(&Sample) -> Option<f64>| {
        let points = history.samples().filter_map(|sample| {
            let ago = sample.at.until(now).as_secs_f64();
            Some((ago, value(sample)?))
        });
        Chart {
            name: name.to_owned(),
            unit: unit.to_owned(),
            points: points.collect(),
        }
    };
    vec![
        chart("Input queue", "messages", &|sample| {
            sample.input.map(|count| count as f64)
        }),
        chart("Reserved", "events/s", &|sample| {
            Some(sample.rates?.reserved_per_second)
        }),
        chart("Delivered", "events/s", &|sample| {
            Some(sample.rates?.delivered_per_second)
        }),
        chart("Not complete", "batches", &|sample| {
            Some(sample.incomplete as f64)
        }),
    ]
}

fn holds(overview: &Overview) -> Vec<Text> {
    let now = overview.at;
    let holds = &overview.holds;
    let mut notes = Vec::from_iter(
        holds
            .pauses
            .iter()
            .map(|pause| Text::from(paused(pause, now)).tone(Tone::Warning)),
    );
    if let Some(until) = holds.closed_until {
        notes.push(Text::from(format!(
            "outside the hours of delivery, until {}",
            with_distance(until, now)
        )));
    }
    if let Some(turn) = &holds.next_turn {
        notes.push(Text::from(format!(
            "the next turn is {}, at {} events a second",
            with_distance(turn.at, now),
            turn.events_per_second
        )));
    }
    if notes.is_empty() {
        notes.push(Text::from("Nothing.").tone(Tone::Quiet));
    }
    notes.push(link("pause", "Pause", ""));
    if !holds.pauses.is_empty() {
        notes.push(link("resume", "Resume", ""));
    }
    notes
}

fn paused(pause: &Pause, now: Timestamp) -> String {
    let what = match (&pause.source, &pause.batch_key) {
        (None, None) => "all batches".to_owned(),
        (Some(source), None) => format!("source {source}"),
        (None, Some(key)) => format!("key {key}"),
        (Some(source), Some(key)) => format!("source {source}, key {key}"),
    };
    format!(
        "{what}: paused until {} by {}: {}",
        with_distance(pause.until, now),
        pause.by,
        pause.why
    )
}

/// Returns the page of what was set aside.
pub(super) fn messages(overview: &Overview, _: &History) -> Page {
    let set_aside = overview
        .queues
        .iter()
        .filter(|queue| queue.role.is_set_aside());
    let about = "A redrive shows first, for each message, its event, its reason and what would become of it. It receives the messages for \
                 that, and gives them back.";
    Page::new("Dead letters and quarantine")
        .with("", Content::Table(queues(set_aside)))
        .with("", Content::Notes(vec![Text::from(about)]))
        .with(
            "",
            Content::Verbs(vec![
                link(
                    "redrive",
                    "Look at dead letters",
                    "from=dead-letters&all=yes",
                ),
                link(
                    "redrive",
                    "Look at the quarantine",
                    "from=quarantine&all=yes",
                ),
            ]),
        )
        .with(
            "Runbook",
            Content::Verbs(Vec::from(
                [
                    "InputDeadLetterNotEmpty",
                    "BatchDeadLetterNotEmpty",
                    "QuarantineNotEmpty",
                ]
                .map(|name| Text::link(name, runbook::path(name))),
            )),
        )
}
