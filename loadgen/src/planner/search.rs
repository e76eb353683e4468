//! Finds the cheapest settings that keep conditions like `drain < 5m`.

use std::fmt;
use std::str::FromStr;

use super::costs::{costs, total};
use super::engine::plan;
use super::plan::Plan;
use super::prices::Prices;
use super::settings::{Bodies, Scaling, Settings};

/// What a search tries: every combination of these. A setting that is not here stays as it is given.
pub const CONCURRENCIES: [u32; 7] = [2, 5, 10, 20, 50, 100, 200];
pub const POLLERS: [(u32, u32); 3] = [(2, 20), (20, 100), (100, 200)];
pub const BODIES: [Bodies; 3] = [Bodies::Items, Bodies::Table, Bodies::S3];
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
        conditions
            .map(condition)
            .collect::<Result<_, _>>()
            .map(Conditions)
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
    let (name, bound) = (
        text[..at].trim(),
        text[at + 1..].trim_start_matches('=').trim(),
    );
    let figure = FIGURES
        .iter()
        .find(|(each, _)| *each == name)
        .map(|(_, figure)| *figure)
        .ok_or_else(wrong)?;
    let bound = bound.trim_start_matches('$');
    let units = [
        ("ms", 0.001),
        ("s", 1.0),
        ("m", 60.0),
        ("min", 60.0),
        ("h", 3_600.0),
    ];
    let digits = bound.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = bound[digits.len()..].trim();
    let factor = match (unit, figure) {
        ("", _) => 1.0,
        (unit, Figure::Claimed | Figure::Delivered | Figure::Drain) => units
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor)
            .ok_or_else(wrong)?,
        (_, Figure::Cost | Figure::Batches | Figure::Aggregators) => return Err(wrong()),
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
            if condition.at_most {
                value < condition.bound
            } else {
                value > condition.bound
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
        let bodies = match self.bodies {
            Bodies::Items => "items",
            Bodies::Table => "table",
            Bodies::S3 => "s3",
        };
        let seal = if self.seal_when_drained { "on" } else { "off" };
        write!(
            f,
            " Bodies={bodies} MaxSecondaryBatchingWindow={} SealWhenDrained={seal} BatchProcessorConcurrency={}",
            self.window_secs, self.processors
        )
    }
}

/// Returns the settings that keep the conditions, the cheapest first, and of equally cheap ones the one that drains first.
pub fn search(settings: &Settings, prices: &Prices, conditions: &Conditions) -> Vec<Found> {
    let tried = Choice::all().into_iter().map(|choice| {
        let settings = choice.applied_to(settings);
        let plan = plan(&settings);
        let dollars = total(&costs(&plan.usage, &settings, prices, plan.unique));
        Found {
            choice,
            settings,
            plan,
            dollars,
        }
    });
    let mut found: Vec<Found> = tried
        .filter(|each| conditions.hold(&each.plan, each.dollars))
        .collect();
    found.sort_by(|a, b| {
        let by_price = a.dollars.total_cmp(&b.dollars);
        by_price.then_with(|| a.plan.drained_secs.total_cmp(&b.plan.drained_secs))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_with_their_units() {
        let drain = Condition {
            figure: Figure::Drain,
            at_most: true,
            bound: 300.0,
        };
        let cost = Condition {
            figure: Figure::Cost,
            at_most: true,
            bound: 1.2,
        };
        assert_eq!("drain < 5m".parse(), Ok(Conditions(vec![drain])));
        assert_eq!(
            "drain<300 and cost < $1.2".parse(),
            Ok(Conditions(vec![drain, cost]))
        );
        for wrong in [
            "drain",
            "speed < 5",
            "drain < x",
            "cost < 5m",
            "drain < 5 parsecs",
            "",
        ] {
            let error = wrong.parse::<Conditions>().unwrap_err();
            assert!(
                error.starts_with("the condition: wrong form: got `"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_cheapest_setting_that_keeps_the_conditions_comes_first() {
        let mut settings = Settings::default();
        settings.burst.messages = 5_000;
        let prices = Prices::us_east_1();
        let all = search(&settings, &prices, &"drain > 0".parse().unwrap());
        assert_eq!(all.len(), Choice::all().len());
        assert!(all.is_sorted_by_key(|each| each.dollars));
        let found = search(&settings, &prices, &"drain < 60s".parse().unwrap());
        assert!(!found.is_empty() && found.len() < all.len());
        assert!(found.iter().all(|each| each.plan.drained_secs < 60.0));
        let cheapest = all
            .iter()
            .find(|each| each.plan.drained_secs < 60.0)
            .unwrap();
        assert_eq!(found[0].choice, cheapest.choice);
        assert!(search(&settings, &prices, &"drain < 1s".parse().unwrap()).is_empty());
    }
}
