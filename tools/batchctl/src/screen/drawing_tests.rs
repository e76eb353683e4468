//! Tests of the drawing, on a terminal in memory.

use std::time::Duration;

use protocol::batch::Status;
use protocol::pause::Pause;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};

use super::*;
use crate::commands::list::ListedBatch;
use crate::filter::summary;
use crate::overview::{Alarm, Counts, NextTurn, Oldest, Rates, Role, Sample};

const NOW: Timestamp = Timestamp::from_ms(1_700_000_000_000);

fn overview() -> Overview {
    let queue = |role: Role, visible| QueueDepth {
        role,
        name: "queue".to_owned(),
        visible,
        in_flight: visible / 2,
        delayed: 0,
    };
    Overview {
        at: NOW,
        stack: "orders-stack".to_owned(),
        counts: Counts {
            open: 12,
            sealed: 3,
            processing: 40,
            error: 1,
            overdue: 2,
            overdue_since: Some(NOW),
            oldest: Some(Oldest {
                batch_id: "00000000-2710-7000-8000-000000000001".parse().unwrap(),
                opened_at: NOW.saturating_sub(Duration::from_secs(65)),
                status: "error",
            }),
        },
        rates: Some(rates(2_500.0)),
        queues: vec![
            queue(Role::Input, 5_000),
            queue(Role::Batch, 10),
            queue(Role::Quarantine, 0),
            queue(Role::InputDeadLetters, 4),
            queue(Role::BatchDeadLetters, 0),
        ],
        holds: Holds::default(),
        alarms: Vec::new(),
        unread: Vec::new(),
    }
}

fn rates(delivered_per_second: f64) -> Rates {
    Rates {
        reserved_per_second: 9.54,
        delivered_per_second,
    }
}

/// Adds everything that needs lines of its own.
fn with_troubles(mut overview: Overview) -> Overview {
    overview.alarms = vec![Alarm {
        name: "BatchesInError",
        reason: "1 batch in error".to_owned(),
        runbook: "docs/runbook.md#batchesinerror".to_owned(),
    }];
    overview.holds = Holds {
        pauses: vec![Pause {
            source: None,
            batch_key: "k".parse().ok(),
            until: NOW + Duration::from_secs(90),
            at: NOW,
            by: "zoe".to_owned(),
            why: "the sink is moved".to_owned(),
        }],
        closed_until: Some(NOW + Duration::from_secs(3_600)),
        next_turn: Some(NextTurn {
            at: NOW + Duration::from_secs(7),
            events_per_second: 50,
        }),
    };
    overview.unread = vec!["queue `q`: AccessDenied".to_owned()];
    overview
}

fn history() -> History {
    let mut history = History::default();
    for step in 0..300_u64 {
        history.push(Sample {
            at: NOW + Duration::from_secs(3 * step),
            input: Some(step),
            rates: (step > 0).then(|| rates(step as f64)),
            incomplete: 7,
        });
    }
    history
}

fn batches(count: usize) -> Batches {
    let batch = || ListedBatch::of(summary(Some(Status::Error)), NOW);
    Batches {
        matching: count,
        batches: std::iter::repeat_with(batch).take(count).collect(),
        malformed: Vec::new(),
        now: NOW,
    }
}

/// Returns what a terminal of this size shows.
fn drawn(size: (u16, u16), overview: &Overview, batches: &Batches) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let history = history();
    let drawing = |frame: &mut Frame<'_>| draw(frame, overview, &history, batches);
    terminal.draw(drawing).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let cells = buffer.content.chunks(buffer.area.width.into());
    let lines = cells.map(|row| row.iter().map(|cell| cell.symbol()).collect());
    lines.collect()
}

fn text(buffer: &Buffer) -> String {
    lines(buffer).join("\n")
}

#[test]
fn a_terminal_of_the_usual_size_shows_states_queues_rates_and_batches() {
    let text = text(&drawn((80, 24), &overview(), &batches(30)));
    for words in [
        "orders-stack  2023-11-14 22:13:20Z",
        "q ends",
        "processing 40",
        "overdue    2",
        "input              5000 +2500 taken",
        "input dead letters 4 +2 taken",
        "Delivered 2500/s",
        "reserved 9.5/s",
        "the oldest batch was opened 1 min 5 s ago: 00000000-2710-7000-8000-000000000001",
        "30 batches, the oldest first",
        "BATCH                                 STATUS  AGE",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn alarms_are_red_and_what_holds_back_is_said() {
    let overview = with_troubles(overview());
    for size in [(200, 60), (120, 24)] {
        let buffer = drawn(size, &overview, &batches(2));
        let text = text(&buffer);
        for words in [
            "BatchesInError: 1 batch in error (docs/runbook.md#batchesinerror)",
            "not read: queue `q`: AccessDenied",
            "batches with key `k` paused until 2023-11-14 22:14:50Z (in 1 min 30 s) by zoe: the sink is moved",
            "`DELIVERY_HOURS` closed until 2023-11-14 23:13:20Z (in 1 h 0 min)",
            "`DELIVERY_MAX_PER_SECOND` 50: the next turn is in 7 s",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        let lines = lines(&buffer);
        let row = lines
            .iter()
            .position(|line| line.starts_with("BatchesInError"));
        let cell = &buffer[(0, row.unwrap() as u16)];
        assert_eq!(cell.fg, Color::Red);
    }
}

#[test]
fn bars_are_as_long_as_their_counts_and_the_line_of_rates_rises() {
    let buffer = drawn((200, 60), &overview(), &batches(2));
    let row = |name: &str| {
        let lines = lines(&buffer);
        let row = lines
            .iter()
            .position(|line| line.starts_with(&format!("│{name}")));
        let row = row.unwrap() as u16;
        let cells = (0..buffer.area.width / 6).map(|column| &buffer[(column, row)]);
        // Where the number is, its bar is behind it.
        let is_bar = |cell: &&Cell| cell.symbol() == "█" || cell.bg != Color::Reset;
        cells.filter(is_bar).count()
    };
    assert!(row("processing") > row("open"), "{}", text(&buffer));
    assert!(row("open") > row("error"), "{}", text(&buffer));
    let last = usize::from(buffer.area.width) - 2;
    let bottom = &lines(&buffer)[usize::from(CHARTS_HEIGHT) - 1];
    assert_eq!(bottom.chars().nth(last), Some('█'), "{}", text(&buffer));
}

#[test]
fn a_terminal_of_any_size_shows_what_fits() {
    let overview = with_troubles(overview());
    for width in [1, 2, 5, 20, 59, 60, 61, 80] {
        for height in [1, 2, 3, 5, 15, 16, 17] {
            drawn((width, height), &overview, &batches(3));
        }
    }
    let small = text(&drawn((20, 5), &overview, &batches(3)));
    let expected = "orders-stack  2023-1\nopen 12  sealed 3  p\nand 6 further lines";
    assert!(small.starts_with(expected), "{small}");
    let mut terminal = Terminal::new(TestBackend::new(5, 1)).unwrap();
    terminal.draw(|frame| draw_first(frame, "stack")).unwrap();
}

#[test]
fn a_stack_where_nothing_happens_says_so() {
    let mut overview = overview();
    overview.counts = Counts::default();
    overview.rates = None;
    overview.queues.clear();
    let text = text(&drawn((80, 24), &overview, &batches(0)));
    let words = "nothing rings, and nothing holds deliveries back";
    assert!(text.contains(words), "{text}");
    assert!(text.contains("0 batches"), "{text}");
}

#[test]
fn control_characters_of_batches_and_pauses_do_not_reach_the_terminal() {
    const EVIL: &str = "a\x1b[2Jb\x1b]0;title\x07c\u{9b}31md\re\tf\x00g\x7f";
    let mut overview = with_troubles(overview());
    overview.stack = EVIL.to_owned();
    overview.unread = vec![EVIL.to_owned()];
    overview.alarms[0].reason = EVIL.to_owned();
    overview.holds.pauses[0].why = EVIL.to_owned();
    let mut batch = summary(Some(Status::Error));
    batch.error = Some(EVIL.to_owned());
    let list = Batches {
        batches: vec![ListedBatch::of(batch, NOW)],
        malformed: vec![EVIL.to_owned()],
        ..batches(1)
    };
    for size in [(80, 24), (200, 60), (20, 5)] {
        let buffer = drawn(size, &overview, &list);
        let mut cells = buffer.content.iter();
        let evil = cells.find(|cell| cell.symbol().contains(char::is_control));
        assert_eq!(evil, None, "{size:?}");
    }
    let text = text(&drawn((200, 60), &overview, &list));
    assert!(text.contains("error: a[2Jb]0;titlec31mdefg"), "{text}");
}
