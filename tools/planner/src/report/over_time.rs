//! The charts of the samples: what was seen over time.

use super::model::{Chart, Line, Lines, LinesOfRun, Section, Unit, labels};
use crate::record::{Record, Sample};

/// The least time over which a rate is computed. Samples are closer together, and rates between neighbours jump.
const RATE_OVER_SECS: f64 = 1.0;

/// A line of a chart: its name, its colour, and its value in a sample. The same thing has the same colour in every chart.
type Definition = (&'static str, usize, fn(&Sample) -> Option<f64>);

/// Totals of messages and events.
const TOTALS: [Definition; 4] = [
    ("sent", 0, |each| number(each.sent)),
    ("taken off the queue", 1, |each| number(each.taken)),
    ("claimed", 2, |each| number(each.claimed)),
    ("delivered", 3, |each| number(each.delivered)),
];

const QUEUE: [Definition; 2] = [
    ("visible", 0, |each| number(each.visible)),
    ("in flight", 1, |each| number(each.in_flight)),
];

const AGE: [Definition; 1] = [("oldest message", 4, |each| each.oldest_secs)];

const ENVIRONMENTS: [Definition; 2] = [
    ("aggregators", 2, |each| number(each.aggregators)),
    ("batch-processors", 3, |each| number(each.batch_processors)),
];

const TROUBLE: [Definition; 3] = [
    ("duplicates recognised", 4, |each| number(each.duplicates)),
    ("messages returned", 1, |each| number(each.returned)),
    ("requests throttled", 5, |each| number(each.throttled)),
];

fn number(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Returns the sections with the charts over time.
pub(super) fn sections(runs: &[&Record]) -> Vec<Section> {
    let lines = |definitions: &[Definition], section: Text, unit| {
        section.with(runs, definitions, unit, |samples, value| {
            samples.iter().map(value).collect()
        })
    };
    let totals = Text {
        id: "totals",
        heading: "Arrivals, claims and deliveries",
        says: "Totals since the start. Between sent and taken, messages wait in the input queue; between claimed and delivered, \
               events wait in batches. An event is claimed before its message is taken off; in the end, taken less claimed are \
               the duplicates.",
    };
    let rates = Text {
        id: "rates",
        heading: "Rates",
        says: "The growth of the same totals, over the second before each point.",
    };
    let queue = Text {
        id: "queue",
        heading: "Input queue",
        says: "Visible messages wait for the aggregator. Messages in flight were given to it and are not deleted yet.",
    };
    let age = Text {
        id: "age",
        heading: "Age of the oldest message",
        says: "How long ago the oldest message that is still in the input queue was sent.",
    };
    let environments = Text {
        id: "environments",
        heading: "Environments at work",
        says: "Environments of each function that had an invocation.",
    };
    let trouble = Text {
        id: "trouble",
        heading: "Duplicates, retries and throttles",
        says: "Totals since the start. A message is returned when an attempt at it failed: the queue delivers it again.",
    };
    vec![
        lines(&TOTALS, totals, Unit::Messages),
        rates.with(runs, &TOTALS, Unit::MessagesASecond, rates_of),
        lines(&QUEUE, queue, Unit::Messages),
        lines(&AGE, age, Unit::Secs),
        lines(&ENVIRONMENTS, environments, Unit::Environments),
        lines(&TROUBLE, trouble, Unit::Count),
    ]
}

/// The texts of a section.
struct Text {
    id: &'static str,
    heading: &'static str,
    says: &'static str,
}

impl Text {
    /// Returns the section with one chart. It has every line that at least one run observed, and says what is missing.
    fn with(
        self,
        runs: &[&Record],
        definitions: &[Definition],
        unit: Unit,
        values: impl Fn(&[Sample], fn(&Sample) -> Option<f64>) -> Vec<Option<f64>>,
    ) -> Section {
        let mut sentences = vec![self.says.to_owned()];
        let mut of_runs = Vec::new();
        for (run, label) in runs.iter().zip(labels(runs.len())) {
            let (seen, unseen): (Vec<&Definition>, Vec<&Definition>) = definitions
                .iter()
                .partition(|(_, _, value)| run.samples.iter().any(|each| value(each).is_some()));
            sentences.extend(not_observed(&unseen, *label));
            if seen.is_empty() {
                continue;
            }
            let lines = seen.into_iter().map(|(label, colour, value)| Line {
                label,
                colour: *colour,
                values: values(&run.samples, *value),
            });
            of_runs.push(LinesOfRun {
                label: *label,
                at_secs: run.samples.iter().map(|sample| sample.at_secs).collect(),
                lines: lines.collect(),
            });
        }
        let drawn = !of_runs.is_empty();
        let chart = Chart::Lines(Lines {
            name: self.heading.to_owned(),
            unit,
            runs: of_runs,
        });
        Section {
            id: self.id,
            heading: self.heading,
            sentences,
            charts: Vec::from_iter(drawn.then_some(chart)),
            ..Section::default()
        }
    }
}

/// Returns a sentence that says which lines a run did not observe, if there are any.
fn not_observed(lines: &[&Definition], run: Option<&str>) -> Option<String> {
    let names: Vec<&str> = lines.iter().map(|(name, _, _)| *name).collect();
    if names.is_empty() {
        return None;
    }
    Some(match run {
        Some(run) => format!("Not observed in run {run}: {}.", names.join(", ")),
        None => format!("Not observed: {}.", names.join(", ")),
    })
}

/// Returns the growth a second of a total, at each sample.
fn rates_of(samples: &[Sample], value: fn(&Sample) -> Option<f64>) -> Vec<Option<f64>> {
    let mut from = 0;
    let mut rates = Vec::with_capacity(samples.len());
    for (position, sample) in samples.iter().enumerate() {
        // The last sample that is far enough away. With samples that are further apart, that is the one before.
        while from + 1 < position && sample.at_secs - samples[from + 1].at_secs >= RATE_OVER_SECS {
            from += 1;
        }
        let earlier = &samples[from];
        let secs = sample.at_secs - earlier.at_secs;
        let totals = value(sample).zip(value(earlier)).filter(|_| secs > 0.0);
        rates.push(totals.map(|(now, then)| (now - then) / secs));
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(samples: &[(f64, Option<u64>)]) -> Vec<Sample> {
        let sample = |(at_secs, sent): &(f64, Option<u64>)| Sample {
            at_secs: *at_secs,
            sent: *sent,
            ..Sample::default()
        };
        samples.iter().map(sample).collect()
    }

    #[test]
    fn a_rate_is_that_of_the_last_second_or_of_the_last_distance() {
        let close = sent(&[
            (0.0, Some(0)),
            (0.5, Some(10)),
            (1.0, Some(30)),
            (1.5, Some(60)),
            (2.0, Some(60)),
        ]);
        let rates = rates_of(&close, |each| number(each.sent));
        assert_eq!(
            rates,
            [None, Some(20.0), Some(30.0), Some(50.0), Some(30.0)]
        );
        let apart = sent(&[(0.0, Some(0)), (10.0, Some(10)), (20.0, Some(40))]);
        let rates = rates_of(&apart, |each| number(each.sent));
        assert_eq!(rates, [None, Some(1.0), Some(3.0)]);
    }

    #[test]
    fn a_rate_needs_both_totals() {
        let gap = sent(&[(0.0, Some(0)), (1.0, None), (2.0, Some(8)), (3.0, Some(9))]);
        let rates = rates_of(&gap, |each| number(each.sent));
        assert_eq!(rates, [None, None, None, Some(1.0)]);
    }
}
