//! Draws a look at a stack.

use protocol::text::counted;
use protocol::time::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{
    Bar, BarChart, BarGroup, Block, Borders, Paragraph, Sparkline, SparklineBar,
};

use crate::commands::list::Batches;
use crate::overview::{History, Holds, Overview, QueueDepth};
use crate::times::{short, utc, with_distance};

/// Lines of the charts: five bars and a frame.
const CHARTS_HEIGHT: u16 = 7;
/// The least columns of the charts of batches, and of queues.
const STATES_WIDTH: u16 = 22;
const QUEUES_WIDTH: u16 = 38;
/// The size from which on there is room for charts.
const CHARTS_FROM: (u16, u16) = (60, 16);
/// What can be done.
const KEYS: &str = "q ends";

const PLAIN: Style = Style::new();
const BOLD: Style = PLAIN.add_modifier(Modifier::BOLD);
const QUIET: Style = PLAIN.fg(Color::DarkGray);
const ALARM: Style = PLAIN.fg(Color::Red).add_modifier(Modifier::BOLD);
const WAITS: Style = PLAIN.fg(Color::Yellow);

/// Draws what a terminal shows before the first look has ended.
pub fn draw_first(frame: &mut Frame<'_>, stack: &str) {
    let text = format!("looking at {stack}");
    frame.render_widget(Paragraph::new(text), frame.area());
}

/// Draws a look: title, charts, alarms and what holds back, and the batches in the rest.
pub fn draw(frame: &mut Frame<'_>, overview: &Overview, history: &History, batches: &Batches) {
    let area = frame.area();
    let has_charts = area.width >= CHARTS_FROM.0 && area.height >= CHARTS_FROM.1;
    let messages = messages(overview, usize::from(area.height / 4));
    let heights = [
        Constraint::Length(1),
        Constraint::Length(match has_charts {
            true => CHARTS_HEIGHT,
            false => 1,
        }),
        Constraint::Length(messages.len() as u16),
        Constraint::Min(0),
    ];
    let [title, charts, said, rest] = area.layout(&Layout::vertical(heights));
    frame.render_widget(title_of(overview, title.width), title);
    match has_charts {
        true => draw_charts(frame, charts, overview, history),
        false => frame.render_widget(overview.counts.to_string(), charts),
    }
    frame.render_widget(Text::from(messages), said);
    draw_batches(frame, rest, batches);
}

fn title_of(overview: &Overview, width: u16) -> Line<'static> {
    let left = Line::from(vec![
        Span::styled(overview.stack.clone(), BOLD),
        Span::raw(format!("  {}", utc(overview.at))),
    ]);
    let gap = usize::from(width).saturating_sub(left.width() + KEYS.len());
    let mut title = left;
    if gap > 0 {
        title.push_span(" ".repeat(gap));
        title.push_span(Span::styled(KEYS, QUIET));
    }
    title
}

fn draw_charts(frame: &mut Frame<'_>, area: Rect, overview: &Overview, history: &History) {
    let widths = [
        Constraint::Length(STATES_WIDTH.max(area.width / 6)),
        Constraint::Length(QUEUES_WIDTH.max(area.width / 4)),
        Constraint::Min(0),
    ];
    let [states, queues, flow] = area.layout(&Layout::horizontal(widths));
    let counts = &overview.counts;
    let states_of = [
        ("open", counts.open, Color::Blue),
        ("sealed", counts.sealed, Color::Blue),
        ("processing", counts.processing, Color::Blue),
        ("error", counts.error, Color::Red),
        ("overdue", counts.overdue, Color::Yellow),
    ];
    let bars =
        states_of.map(|(name, count, color)| bar(name, count as u64, count.to_string(), color));
    frame.render_widget(chart("Batches", bars.to_vec()), states);
    let bars = overview.queues.iter().map(queue_bar);
    frame.render_widget(chart("Queues", bars.collect()), queues);
    draw_flow(frame, flow, overview, history);
}

fn chart<'a>(title: &'static str, bars: Vec<Bar<'a>>) -> BarChart<'a> {
    BarChart::horizontal(Vec::new())
        .data(BarGroup::new(bars))
        .block(Block::bordered().title(title))
        .bar_width(1)
        .bar_gap(0)
}

fn bar<'a>(name: &'static str, value: u64, text: String, color: Color) -> Bar<'a> {
    let color = match value {
        0 => Color::DarkGray,
        _ => color,
    };
    let on_bar = PLAIN.fg(Color::Black).bg(color);
    Bar::with_label(name, value)
        .text_value(text)
        .style(PLAIN.fg(color))
        .value_style(on_bar)
}

fn queue_bar(queue: &QueueDepth) -> Bar<'static> {
    let mut text = queue.visible.to_string();
    if queue.in_flight > 0 {
        text += &format!(" +{} taken", queue.in_flight);
    }
    if queue.delayed > 0 {
        text += &format!(" +{} later", queue.delayed);
    }
    let all = queue.visible + queue.in_flight + queue.delayed;
    let color = match queue.role.is_set_aside() {
        true => Color::Red,
        false => Color::Cyan,
    };
    bar(queue.role.as_str(), all, text, color)
}

/// Draws how many events were delivered a second, over the history.
fn draw_flow(frame: &mut Frame<'_>, area: Rect, overview: &Overview, history: &History) {
    let title = match overview.rates {
        Some(rates) => format!("Delivered {}/s", rate(rates.delivered_per_second)),
        None => "Delivered".to_owned(),
    };
    let mut block = Block::bordered().title(title);
    if let Some(rates) = overview.rates {
        block = block.title_bottom(format!("reserved {}/s", rate(rates.reserved_per_second)));
    }
    let shown = usize::from(block.inner(area).width);
    let samples = history.samples();
    let skipped = samples.len().saturating_sub(shown);
    // Bars of whole thousandths, so that slow rates have some too.
    let bars = samples.skip(skipped).map(|sample| {
        let rate = sample.rates.map(|rates| rates.delivered_per_second * 1e3);
        SparklineBar::from(rate.map(|rate| rate as u64))
    });
    let line = Sparkline::default()
        .data(bars)
        .style(PLAIN.fg(Color::Green));
    frame.render_widget(line.block(block), area);
}

/// Returns a rate with as many digits as say something.
fn rate(value: f64) -> String {
    match value < 10.0 {
        true => format!("{value:.1}"),
        false => format!("{value:.0}"),
    }
}

/// Returns the lines about alarms and what holds back, at most `lines_max` of them, but one.
fn messages(overview: &Overview, lines_max: usize) -> Vec<Line<'static>> {
    let alarms = overview.alarms.iter().map(|alarm| {
        let text = format!("{}: {} ({})", alarm.name, alarm.reason, alarm.runbook);
        Line::styled(text, ALARM)
    });
    let unread = overview.unread.iter();
    let unread = unread.map(|error| Line::styled(format!("not read: {error}"), ALARM));
    let held = held(&overview.holds, overview.at).into_iter();
    let held = held.map(|text| Line::styled(text, WAITS));
    let mut lines: Vec<Line<'static>> = alarms.chain(unread).chain(held).collect();
    if lines.is_empty() {
        let text = "nothing rings, and nothing holds deliveries back";
        lines.push(Line::styled(text, QUIET));
    }
    if let Some(oldest) = &overview.counts.oldest {
        let age = short(oldest.opened_at.until(overview.at));
        let text = format!(
            "the oldest batch was opened {age} ago: {}, {}",
            oldest.batch_id, oldest.status
        );
        lines.push(Line::styled(text, QUIET));
    }
    let lines_max = lines_max.max(1);
    if let over @ 1.. = lines.len().saturating_sub(lines_max) {
        lines.truncate(lines_max - 1);
        lines.push(Line::styled(
            format!("and {}", counted(over + 1, "further line")),
            WAITS,
        ));
    }
    lines
}

/// Returns a line about each thing that holds deliveries back.
fn held(holds: &Holds, now: Timestamp) -> Vec<String> {
    let pauses = holds.pauses.iter().map(|pause| {
        let source = pause.source.as_ref().map(|source| format!(" of {source}"));
        let key = pause.batch_key.as_ref();
        let key = key.map(|key| format!(" with key `{key}`"));
        let (source, key) = (source.unwrap_or_default(), key.unwrap_or_default());
        let until = with_distance(pause.until, now);
        let (by, why) = (&pause.by, &pause.why);
        format!("batches{source}{key} paused until {until} by {by}: {why}")
    });
    let hours = holds.closed_until.map(|until| {
        let until = with_distance(until, now);
        format!("`DELIVERY_HOURS` closed until {until}")
    });
    let turn = holds.next_turn.map(|turn| {
        let at = short(now.until(turn.at));
        let rate = turn.events_per_second;
        format!("`DELIVERY_MAX_PER_SECOND` {rate}: the next turn is in {at}")
    });
    pauses.chain(hours).chain(turn).collect()
}

fn draw_batches(frame: &mut Frame<'_>, area: Rect, batches: &Batches) {
    let count = counted(batches.matching, "batch");
    let block = Block::new()
        .borders(Borders::TOP)
        .title(format!("{count}, the oldest first"));
    // Control characters are left out by the text of ratatui.
    let text = Text::from(batches.to_string());
    frame.render_widget(Paragraph::new(text).block(block), area);
}

#[cfg(test)]
#[path = "drawing_tests.rs"]
mod tests;
