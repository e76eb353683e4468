//! A picture of one delivery: its spans, those of the invocations that it follows from, and some of their producers'.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::spans::{Span, read};

/// Producers that are shown; the others are counted.
const PRODUCERS_MAX: usize = 4;
/// Invocations of the aggregator that are shown.
const INVOCATIONS_MAX: usize = 3;

const WIDTH: f64 = 1_030.0;
/// Where the bars begin.
const LEFT: f64 = 320.0;
/// Room for the duration beside the last bar.
const RIGHT: f64 = 80.0;
const TOP: f64 = 34.0;
const ROW: f64 = 22.0;

/// A row of the picture.
struct Row<'a> {
    span: &'a Span,
    depth: usize,
}

/// Returns a picture, as SVG, of the first delivery in a file.
///
/// # Errors
/// The file cannot be read, or has no delivery.
pub fn picture(file: &Path) -> anyhow::Result<String> {
    let spans = read(file)?;
    let (rows, others) = rows(&spans)
        .with_context(|| format!("{}: no span `deliver` of an invocation", file.display()))?;
    Ok(draw(&rows, others))
}

/// Returns the rows of the picture, and the number of producers that are not in it.
fn rows(spans: &[Span]) -> Option<(Vec<Row<'_>>, usize)> {
    let by_id: BTreeMap<&str, &Span> = spans.iter().map(|span| (&*span.id, span)).collect();
    let mut children: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        children.entry(&span.parent).or_default().push(span);
    }
    children
        .values_mut()
        .for_each(|siblings| siblings.sort_by_key(|span| span.began_ns));
    let parent_of = |span: &Span| by_id.get(&*span.parent).copied();
    let root = |mut span| {
        while let Some(parent) = parent_of(span) {
            span = parent;
        }
        span
    };
    let linked = |roots: &[&Span]| {
        let links = roots.iter().flat_map(|root| &root.links);
        let mut known = BTreeSet::new();
        let found = links.filter_map(|id| by_id.get(&**id).map(|span| root(span)));
        let mut found: Vec<&Span> = found.filter(|span| known.insert(&*span.id)).collect();
        found.sort_by_key(|span| span.began_ns);
        found
    };
    let deliveries = spans.iter().filter(|span| span.name == "deliver");
    let delivering = root(deliveries.min_by_key(|span| span.ended_ns)?);
    let mut invocations = linked(&[delivering]);
    invocations.truncate(INVOCATIONS_MAX);
    let mut producers = linked(&invocations);
    let others = producers.len().saturating_sub(PRODUCERS_MAX);
    producers.truncate(PRODUCERS_MAX);
    let mut rows = Vec::new();
    for root in producers.into_iter().chain(invocations).chain([delivering]) {
        add(&mut rows, root, 0, &children);
    }
    Some((rows, others))
}

/// Adds a span and all below it.
fn add<'a>(
    rows: &mut Vec<Row<'a>>,
    span: &'a Span,
    depth: usize,
    children: &BTreeMap<&str, Vec<&'a Span>>,
) {
    rows.push(Row { span, depth });
    for child in children.get(&*span.id).into_iter().flatten() {
        add(rows, child, depth + 1, children);
    }
}

fn draw(rows: &[Row<'_>], others: usize) -> String {
    let began = rows.iter().map(|row| row.span.began_ns).min().unwrap_or(0);
    let ended = rows.iter().map(|row| row.span.ended_ns).max().unwrap_or(0);
    let height = TOP + rows.len() as f64 * ROW + 30.0;
    let mut drawing = Drawing {
        svg: format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
        ),
        began,
        ended: ended.max(began + 1),
    };
    drawing.axis(height - 30.0);
    let positions = rows.iter().enumerate();
    let positions: BTreeMap<&str, usize> = positions.map(|(at, row)| (&*row.span.id, at)).collect();
    for (at, row) in rows.iter().enumerate() {
        drawing.row(row, middle(at));
        let linked = row.span.links.iter();
        for linked in linked.filter_map(|id| positions.get(&**id)) {
            // A span may be linked while it goes on.
            let ended = rows[*linked].span.ended_ns.min(row.span.began_ns);
            drawing.link((ended, middle(*linked)), (row.span.began_ns, middle(at)));
        }
    }
    let shown = match others {
        0 => "Dashed: links.".to_owned(),
        others => format!("Dashed: links. {others} more producers are linked."),
    };
    let y = height - 10.0;
    drawing.put(&format!(
        "<text x=\"8\" y=\"{y:.1}\" fill=\"#5a6470\">{shown}</text>"
    ));
    drawing.svg + "</svg>\n"
}

/// Returns the height of the middle of a row.
fn middle(row: usize) -> f64 {
    TOP + (row as f64 + 0.5) * ROW
}

/// A picture that is being drawn, with the time at its left and right ends.
struct Drawing {
    svg: String,
    began: u64,
    ended: u64,
}

impl Drawing {
    fn put(&mut self, elements: &str) {
        self.svg.push_str(elements);
        self.svg.push('\n');
    }

    fn x(&self, at: u64) -> f64 {
        let share = (at - self.began) as f64 / (self.ended - self.began) as f64;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn axis(&mut self, bottom: f64) {
        for tick in 0..=5 {
            let after = (self.ended - self.began) * tick / 5;
            let (x, y) = (self.x(self.began + after), TOP - 10.0);
            let words = duration(after);
            self.put(&format!(
                "<path d=\"M{x:.1} {TOP}V{bottom:.1}\" stroke=\"#e3e6ea\"/>\
                 <text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#5a6470\" text-anchor=\"middle\">{words}</text>"
            ));
        }
    }

    fn row(&mut self, row: &Row<'_>, y: f64) {
        let Row { span, depth } = row;
        let (from, to) = (self.x(span.began_ns), self.x(span.ended_ns));
        let width = (to - from).max(2.0);
        let (weight, opacity) = match depth {
            0 => ("bold", 1.0),
            _ => ("normal", 0.55),
        };
        let (base, top) = (y + 4.0, y - 6.0);
        let indent = 8.0 + 14.0 * *depth as f64;
        let (label, color) = (label(row), color(&span.service));
        self.put(&format!(
            "<text x=\"{indent}\" y=\"{base:.1}\" fill=\"#1d2630\" font-weight=\"{weight}\">{label}</text>\
             <rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"12\" rx=\"2\" fill=\"{color}\" \
             opacity=\"{opacity}\"/>\
             <text x=\"{:.1}\" y=\"{base:.1}\" fill=\"#5a6470\" font-size=\"11\">{}</text>",
            from + width + 5.0,
            duration(span.ended_ns.saturating_sub(span.began_ns)),
        ));
    }

    /// Draws a link between two spans, each with a time and the middle of its row.
    fn link(&mut self, (ended, above): (u64, f64), (began, below): (u64, f64)) {
        let (from, to) = (self.x(ended), self.x(began));
        let (out, into) = (from + 24.0, to - 24.0);
        self.put(&format!(
            "<path d=\"M{from:.1} {above:.1}C{out:.1} {above:.1} {into:.1} {below:.1} {to:.1} {below:.1}\" fill=\"none\" \
             stroke=\"#b4232a\" stroke-width=\"1.2\" stroke-dasharray=\"4 3\"/>"
        ));
    }
}

/// Returns what stands beside the bar of a span, as the text of an element.
fn label(Row { span, depth }: &Row<'_>) -> String {
    let depth = *depth;
    let mut label = String::new();
    if depth == 0 {
        let _ = write!(label, "{}: ", span.service);
    }
    for c in span.name.chars() {
        match c {
            '<' => label.push_str("&lt;"),
            '&' => label.push_str("&amp;"),
            c => label.push(c),
        }
    }
    if let Some(items) = span.items {
        let what = if depth == 0 { "message" } else { "event" };
        let plural = if items == 1 { "" } else { "s" };
        let _ = write!(label, " · {items} {what}{plural}");
    }
    label
}

fn color(service: &str) -> &'static str {
    match service {
        "aggregator" => "#2463c8",
        "batch-processor" => "#c26a12",
        _ => "#5f7d4f",
    }
}

fn duration(ns: u64) -> String {
    match ns as f64 / 1e6 {
        ms if ms >= 1_000.0 => format!("{:.2} s", ms / 1_000.0),
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(service: &str, name: &str, id: &str, parent: &str, links: &[&str]) -> Span {
        let at = u64::from_str_radix(id, 16).unwrap() * 1_000_000;
        Span {
            service: service.to_owned(),
            name: name.to_owned(),
            id: id.to_owned(),
            parent: parent.to_owned(),
            began_ns: at,
            ended_ns: at + 5_000_000,
            links: links.iter().map(|&link| link.to_owned()).collect(),
            ..Span::default()
        }
    }

    #[test]
    fn a_picture_shows_what_the_first_delivery_follows_from() {
        let links = &["1", "2", "3", "4", "5", "99"];
        let mut spans = vec![
            span("aggregator", "process a<b", "a0", "", links),
            span("aggregator", "ticket", "a1", "a0", &[]),
            span("aggregator", "process other", "a2", "", &[]),
            span("batch-processor", "process q", "b0", "", &["a1"]),
            span("batch-processor", "deliver", "b1", "b0", &[]),
            span("batch-processor", "deliver", "c1", "c0", &[]),
        ];
        spans.extend((1..6).map(|id| span("producer", "send", &id.to_string(), "", &[])));
        let (shown, others) = rows(&spans).unwrap();
        let names = shown.iter().map(|row| (&*row.span.name, row.depth));
        let names = Vec::from_iter(names);
        let (send, invocations) = names.split_at(4);
        assert_eq!(send, [("send", 0); 4]);
        assert_eq!(
            invocations,
            [
                ("process a<b", 0),
                ("ticket", 1),
                ("process q", 0),
                ("deliver", 1)
            ]
        );
        assert_eq!(others, 1);
        let svg = draw(&shown, others);
        assert!(svg.contains("process a&lt;b") && svg.contains("1 more producers"));
        // Four links to producers, and one to the ticket.
        assert_eq!(svg.matches("stroke-dasharray").count(), 5);
        assert!(rows(&spans[..3]).is_none());
    }
}
