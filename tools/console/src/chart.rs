//! Draws a line over time.
//!
//! The server draws it, so that a chart needs no script, and is there when the page is.

use maud::{Markup, html};

use crate::page::Chart;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 72.0;
/// What a chart shows at least, in seconds.
const SPAN_SECS_MIN: f64 = 60.0;

/// Two values with more seconds between them are not joined: nobody looked meanwhile.
const GAP_SECS_MIN: f64 = 30.0;

/// Returns a chart with its highest value, its last one and its time.
pub(crate) fn chart(chart: &Chart) -> Markup {
    let values = chart.points.iter().map(|(_, value)| *value);
    let max = values.fold(0.0, f64::max);
    let last = chart.points.last().map_or(0.0, |(_, value)| *value);
    let first = chart.points.first().map_or(0.0, |(ago, _)| *ago);
    let span = first.max(SPAN_SECS_MIN);
    let lines = lines(chart, max, span);
    let Chart { name, unit, .. } = chart;
    let (last, max) = (number(last), number(max));
    html! {
        figure.chart {
            figcaption { (name) " " b { (last) " " (unit) } }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img"
                aria-label=(format!("{name}: {last} {unit} now, {max} at most, over {}", minutes(span))) {
                line.axis x1="0" x2=(WIDTH) y1=(HEIGHT - 1.0) y2=(HEIGHT - 1.0) {}
                @for line in lines { polyline points=(line) {} }
            }
            p.quiet { "last " (minutes(span)) ", at most " (max) " " (unit) }
        }
    }
}

fn lines(chart: &Chart, max: f64, span: f64) -> Vec<String> {
    let top = if max > 0.0 { max } else { 1.0 };
    let point = |(ago, value): &(f64, f64)| {
        let x = WIDTH * (1.0 - ago / span);
        let y = (HEIGHT - 2.0) * (1.0 - value / top) + 1.0;
        format!("{x:.1},{y:.1}")
    };
    let joined = |earlier: &(f64, f64), later: &(f64, f64)| earlier.0 - later.0 <= GAP_SECS_MIN;
    let pieces = chart.points.chunk_by(joined);
    let lines = pieces.map(|points| Vec::from_iter(points.iter().map(point)).join(" "));
    lines.collect()
}

fn minutes(secs: f64) -> String {
    match (secs / 60.0).round() {
        minutes if minutes <= 1.0 => "minute".to_owned(),
        minutes if minutes >= 60.0 => "hour".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

/// Returns a number with at most three digits after the point.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[(f64, f64)]) -> Chart {
        Chart {
            name: "delivered".to_owned(),
            unit: "events/s".to_owned(),
            points: points.to_vec(),
        }
    }

    #[test]
    fn a_line_goes_from_the_first_value_to_the_last() {
        let chart = of(&[(40.0, 0.0), (20.0, 50.0), (0.0, 100.0)]);
        let expected = ["0.0,71.0 160.0,36.0 320.0,1.0"];
        assert_eq!(lines(&chart, 100.0, 40.0), expected);
    }

    #[test]
    fn a_time_that_nobody_looked_at_is_a_gap() {
        let chart = of(&[(120.0, 0.0), (100.0, 50.0), (60.0, 50.0), (40.0, 100.0)]);
        let expected = ["0.0,71.0 53.3,36.0", "160.0,36.0 213.3,1.0"];
        assert_eq!(lines(&chart, 100.0, 120.0), expected);
        let html = super::chart(&chart).into_string();
        assert!(
            html.contains("delivered: 100 events/s now, 100 at most, over 2 minutes"),
            "{html}"
        );
    }

    #[test]
    fn a_chart_without_values_is_a_flat_line() {
        assert_eq!(lines(&of(&[]), 0.0, 60.0), [""; 0]);
        assert_eq!(lines(&of(&[(0.0, 0.0)]), 0.0, 60.0), ["320.0,71.0"]);
    }
}
