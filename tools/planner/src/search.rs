//! Finds the cheapest settings that keep conditions like `drain < 5m`.

use std::fmt::{self, Write};
use std::str::FromStr;
use std::thread;

use protocol::text::counted;

use super::costs::dollars;
use super::engine::plan;
use super::plan::Plan;
use super::plan_report::duration;
use super::prices::Prices;
use super::settings::{Bodies, Scaling, Settings};

/// What a search tries: every combination of these. A setting that is not here stays as it is given.
pub const CONCURRENCIES: [u32; 7] = [2, 5, 10, 20, 50, 100, 200];
pub const POLLERS: [(u32, u32); 3] = [(2, 20), (20, 100), (100, 200)];
pub const BODIES: [Bodies; 3] = [Bodies::Items, Bodies::LogTable, Bodies::LogS3];
pub const WINDOWS_SECS: [f64; 3] = [30.0, 120.0, 300.0];
pub const PROCESSORS: [u32; 3] = [2, 5, 20];

/// A condition on a plan: `drain < 5m`, `cost < 1.2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    figure: Figure,
    at_most: bool,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// When the last message is taken off the queue, the last batch delivered, the last batch complete: seconds.
    Claimed,
    Delivered,
    Drain,
    /// Dollars.
    Cost,
    Batches,
    Aggregators,
}

/// The figures by name.
const FIGURES: [(&str, Figure); 6] = [
    ("claimed", Figure::Claimed),
    ("delivered", Figure::Delivered),
    ("drain", Figure::Drain),
    ("cost", Figure::Cost),
    ("batches", Figure::Batches),
    ("aggregators", Figure::Aggregators),
];

/// Several conditions that must all hold, joined by `and`.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions(Vec<Condition>);

impl FromStr for Conditions {
    type Err = String;

    fn from_str(text: &str) -> Result<Conditions, String> {
        let conditions = text.split(" and ").flat_map(|part| part.split(','));
        let conditions: Result<_, _> = conditions.map(condition).collect();
        conditions.map(Conditions)
    }
}

fn condition(text: &str) -> Result<Condition, String> {
    let wrong = || {
        let names: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
        format!(
            "the condition: wrong form: got `{}`, expected <figure> < <bound> or <figure> > <bound>, for example `drain < 5m`; a figure is one \
             of {}",
            text.trim(),
            names.join(", ")
        )
    };
    let at = text.find(['<', '>']).ok_or_else(wrong)?;
    let name = text[..at].trim();
    let bound = text[at + 1..].trim_start_matches('=').trim();
    let mut figures = FIGURES.iter();
    let (_, figure) = *figures.find(|(each, _)| *each == name).ok_or_else(wrong)?;
    let bound = bound.trim_start_matches('$');
    let digits = bound.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = bound[digits.len()..].trim();
    let is_time = match figure {
        Figure::Claimed | Figure::Delivered | Figure::Drain => true,
        Figure::Cost | Figure::Batches | Figure::Aggregators => false,
    };
    let factor = match (unit, is_time) {
        ("", _) | ("s", true) => 1.0,
        ("ms", true) => 0.001,
        ("m" | "min", true) => 60.0,
        ("h", true) => 3_600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    Ok(Condition {
        figure,
        at_most: text[at..].starts_with('<'),
        bound: number * factor,
    })
}

impl Conditions {
    /// Returns whether a plan that drains keeps all of them, without a dead letter.
    pub fn hold(&self, plan: &Plan, dollars: f64) -> bool {
        let holds = |condition: &Condition| {
            let value = match condition.figure {
                Figure::Claimed => plan.claimed_secs,
                Figure::Delivered => plan.delivered_secs,
                Figure::Drain => plan.drained_secs,
                Figure::Cost => dollars,
                Figure::Batches => plan.batches as f64,
                Figure::Aggregators => plan.aggregators_most as f64,
            };
            match condition.at_most {
                true => value < condition.bound,
                false => value > condition.bound,
            }
        };
        plan.drained && plan.dead_letters == 0 && self.0.iter().all(holds)
    }
}

/// Settings that were found, with their plan.
#[derive(Debug)]
pub struct Found {
    pub choice: Choice,
    pub settings: Settings,
    pub plan: Plan,
    pub dollars: f64,
}

/// What a search chose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub scaling: Scaling,
    pub bodies: Bodies,
    pub window_secs: f64,
    pub seal_when_drained: bool,
    pub processors: u32,
}

impl Choice {
    /// Returns every choice of a search.
    pub fn all() -> Vec<Choice> {
        let concurrencies = CONCURRENCIES.map(Scaling::MaximumConcurrency);
        let pollers = POLLERS.map(|(min, max)| Scaling::Provisioned { min, max });
        let mut all = Vec::new();
        for scaling in concurrencies.into_iter().chain(pollers) {
            for bodies in BODIES {
                for window_secs in WINDOWS_SECS {
                    for seal_when_drained in [false, true] {
                        for processors in PROCESSORS {
                            all.push(Choice {
                                scaling,
                                bodies,
                                window_secs,
                                seal_when_drained,
                                processors,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    fn applied_to(&self, settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        settings.input.scaling = self.scaling;
        settings.batches.bodies = self.bodies;
        settings.batches.window_secs = self.window_secs;
        settings.batches.seal_when_drained = self.seal_when_drained;
        settings.processor.concurrency = self.processors;
        settings.use_measured_cpu();
        settings
    }
}

/// As parameters of the template.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scaling {
            Scaling::MaximumConcurrency(max) => write!(f, "AggregatorConcurrency={max}")?,
            Scaling::Provisioned { min, max } => write!(
                f,
                "InputScaling=provisioned PollersMin={min} PollersMax={max}"
            )?,
            Scaling::Local(environments) => write!(f, "local={environments}")?,
        }
        let seal = if self.seal_when_drained { "on" } else { "off" };
        write!(
            f,
            " Bodies={} MaxSecondaryBatchingWindow={} SealWhenDrained={seal} BatchProcessorConcurrency={}",
            self.bodies, self.window_secs, self.processors
        )
    }
}

/// Returns all settings of the search with their plans, the cheapest first. Prices that differ by less than a tenth of a cent
/// count as equal; of equally cheap ones, the one that drains first comes first.
///
/// Uses all processors of the machine.
pub fn all(settings: &Settings, prices: &Prices) -> Vec<Found> {
    let choices = Choice::all();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let each = choices.len().div_ceil(threads);
    let mut found: Vec<Found> = thread::scope(|scope| {
        let chunks = choices.chunks(each).map(|chunk| {
            let found = chunk.iter();
            let found = found.map(move |choice| try_out(settings, prices, *choice));
            scope.spawn(move || found.collect::<Vec<_>>())
        });
        let running: Vec<_> = chunks.collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .flat_map(|found| found.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    found.sort_by(|a, b| {
        let mills = |found: &Found| (found.dollars * 1_000.0).round();
        let by_price = mills(a).total_cmp(&mills(b));
        by_price.then_with(|| a.plan.drained_secs.total_cmp(&b.plan.drained_secs))
    });
    found
}

fn try_out(settings: &Settings, prices: &Prices, choice: Choice) -> Found {
    let settings = choice.applied_to(settings);
    let plan = plan(&settings);
    let dollars = dollars(&plan, &settings, prices);
    Found {
        choice,
        settings,
        plan,
        dollars,
    }
}

/// Settings that a text shows, at most.
const FOUND_SHOWN: usize = 5;

/// Returns the cheapest settings that keep the conditions, as text.
///
/// # Errors
/// None does: the text has the settings that drain first.
pub fn cheapest(
    settings: &Settings,
    prices: &Prices,
    conditions: &Conditions,
) -> Result<String, String> {
    let all = all(settings, prices);
    let keeps = |each: &&Found| conditions.hold(&each.plan, each.dollars);
    let found: Vec<&Found> = all.iter().filter(keeps).collect();
    let tried = counted(all.len(), "setting");
    if found.is_empty() {
        let secs = |each: &Found| each.plan.drained_secs;
        let first = all.iter().min_by(|a, b| secs(a).total_cmp(&secs(b)));
        return Err(format!(
            "none of {tried} keeps the conditions; the one that drains first:\n{}",
            first.map(Found::to_string).unwrap_or_default()
        ));
    }
    let mut text = format!(
        "{} of {tried} keep the conditions; the cheapest:\n",
        found.len()
    );
    for each in found.into_iter().take(FOUND_SHOWN) {
        let _ = write!(text, "{each}");
    }
    text += "LockTableCapacity stays as given, because AWS's price for it is not known here\n";
    Ok(text)
}

/// Two lines: the figures, and the settings.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "${:.3}, drained after {}, {}\n  {}",
            self.dollars,
            duration(self.plan.drained_secs),
            counted(self.plan.batches, "batch"),
            self.choice
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_with_their_units() {
        let at_most = |figure, bound| Condition {
            figure,
            at_most: true,
            bound,
        };
        let (drain, cost) = (at_most(Figure::Drain, 300.0), at_most(Figure::Cost, 1.2));
        assert_eq!("drain < 5m".parse(), Ok(Conditions(vec![drain])));
        let both = Ok(Conditions(vec![drain, cost]));
        assert_eq!("drain<300 and cost < $1.2".parse(), both);
        for wrong in [
            "drain",
            "speed < 5",
            "drain < x",
            "cost < 5m",
            "drain < 5 parsecs",
            "",
        ] {
            let error = wrong.parse::<Conditions>().unwrap_err();
            let beginning = format!("the condition: wrong form: got `{wrong}`");
            assert!(error.starts_with(&beginning), "{error}");
        }
    }

    #[test]
    fn every_setting_is_tried_and_conditions_choose_among_them() {
        let mut settings = Settings::default();
        settings.burst.messages = 5_000;
        let all = all(&settings, &Prices::us_east_1());
        assert_eq!(all.len(), Choice::all().len());
        assert!(all.is_sorted_by_key(|each| (each.dollars * 1_000.0).round()));
        let keeps = |text: &str| {
            let conditions: Conditions = text.parse().unwrap();
            all.iter()
                .filter(move |each| conditions.hold(&each.plan, each.dollars))
                .count()
        };
        assert_eq!((keeps("drain > 0"), keeps("drain < 1s")), (all.len(), 0));
        let fast = keeps("drain < 60s");
        assert!(fast > 0 && fast < all.len());
        let drained = all.iter().map(|each| each.plan.drained_secs);
        assert_eq!(fast, drained.filter(|secs| *secs < 60.0).count());
        assert_eq!(keeps("drain < 60s and cost < 0"), 0);
    }
}
