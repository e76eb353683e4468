//! What doubling each limit by itself would change.

use super::costs::dollars;
use super::engine::plan;
use super::plan::Plan;
use super::plan_report::duration;
use super::prices::Prices;
use super::settings::{Scaling, Settings};
use super::shape::Shape;

/// One limit, doubled.
#[derive(Debug)]
pub struct Doubled {
    pub name: &'static str,
    pub from: String,
    pub to: String,
    pub settings: Settings,
    pub plan: Plan,
}

/// Changes settings; returns the value before and after, or nothing if these settings do not have the limit.
type Change = fn(&mut Settings) -> Option<(f64, f64)>;

/// Doubles a number; returns it before and after.
fn double(value: &mut f64) -> Option<(f64, f64)> {
    let before = *value;
    *value *= 2.0;
    Some((before, *value))
}

fn double_u32(value: &mut u32) -> Option<(f64, f64)> {
    let before = *value;
    *value = value.saturating_mul(2);
    Some((f64::from(before), f64::from(*value)))
}

fn double_u64(value: &mut u64) -> Option<(f64, f64)> {
    let before = *value;
    *value = value.saturating_mul(2);
    Some((before as f64, *value as f64))
}

const CHANGES: [(&str, Change); 15] = [
    ("rate of the producers", |s| match &mut s.burst.shape {
        Shape::Burst => None,
        Shape::Constant { rate } => double(rate),
        Shape::Ramp { secs }
        | Shape::Spikes {
            every_secs: secs, ..
        } => {
            let before = *secs;
            *secs /= 2.0;
            Some((before, *secs))
        }
    }),
    ("aggregators or pollers at once", |s| {
        match &mut s.input.scaling {
            Scaling::MaximumConcurrency(max)
            | Scaling::Local(max)
            | Scaling::Provisioned { max, .. } => double_u32(max),
        }
    }),
    ("PollersMin", |s| match &mut s.input.scaling {
        Scaling::Provisioned { min, max } => {
            let doubled = double_u32(min);
            *max = (*max).max(*min);
            doubled
        }
        Scaling::MaximumConcurrency(_) | Scaling::Local(_) => None,
    }),
    ("messages a second of a gatherer", |s| {
        match s.input.scaling {
            Scaling::Provisioned { .. } => None,
            Scaling::MaximumConcurrency(_) | Scaling::Local(_) => double(&mut s.input.receive_rate),
        }
    }),
    ("InputBatchingWindow", |s| double(&mut s.input.window_secs)),
    ("write units of the lock table", |s| {
        if s.batches.bodies.is_log() {
            return None;
        }
        s.tables.quota = s.tables.quota.max(2.0 * s.tables.lock);
        double(&mut s.tables.lock)
    }),
    ("write units of the batch table", |s| {
        s.tables.quota = s.tables.quota.max(2.0 * s.tables.batch);
        double(&mut s.tables.batch)
    }),
    ("IndexShards", |s| match s.batches.bodies.is_log() {
        true => None,
        false => double_u32(&mut s.tables.shards),
    }),
    ("speed of the aggregator", |s| {
        halved(&mut s.aggregator.micros_per_message)
    }),
    ("WriteConcurrency", |s| {
        double_u32(&mut s.requests.concurrency)
    }),
    ("AggregatorTimeout", |s| {
        double(&mut s.aggregator.timeout_secs)
    }),
    ("MaxBatchSize", |s| double_u64(&mut s.batches.items_max)),
    ("MaxSecondaryBatchingWindow", |s| {
        double(&mut s.batches.window_secs)
    }),
    ("BatchProcessorConcurrency", |s| {
        double_u32(&mut s.processor.concurrency)
    }),
    ("speed of the sink", |s| {
        s.sink.secs_per_part /= 2.0;
        double(&mut s.sink.bytes_per_sec)
    }),
];

/// Halves a time; returns the speed before and after, as a factor.
fn halved(micros: &mut f64) -> Option<(f64, f64)> {
    *micros /= 2.0;
    Some((1.0, 2.0))
}

/// Returns a plan for each limit that these settings have, with that limit doubled.
pub fn what_if(settings: &Settings) -> Vec<Doubled> {
    let doubled = |(name, change): &(&'static str, Change)| {
        let mut settings = settings.clone();
        let (from, to) = change(&mut settings)?;
        let plan = plan(&settings);
        Some(Doubled {
            name,
            from: from.to_string(),
            to: to.to_string(),
            settings,
            plan,
        })
    };
    CHANGES.iter().filter_map(doubled).collect()
}

/// Returns what doubling each limit changes, as a table. `before` is the plan of these settings as they are.
pub fn table(settings: &Settings, before: &Plan, prices: &Prices) -> String {
    let mut text = format!(
        "what if     {:<33} {:>19} {:>16} {:>16} {:>9} {:>9}\n",
        "a limit were doubled", "from, to", "taken", "drained", "batches", "price, $"
    );
    let row = |name: &str, change: &str, plan: &Plan, price: f64| {
        format!(
            "            {name:<33} {change:>19} {:>16} {:>16} {:>9} {price:>9.3}\n",
            duration(plan.claimed_secs),
            duration(plan.drained_secs),
            plan.batches
        )
    };
    text += &row("as it is", "", before, dollars(before, settings, prices));
    for each in what_if(settings) {
        let change = format!("{}, {}", each.from, each.to);
        let price = dollars(&each.plan, &each.settings, prices);
        text += &row(each.name, &change, &each.plan, price);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_binds_is_the_one_whose_doubling_helps() {
        let mut settings = Settings::default();
        settings.burst.messages = 400_000;
        settings.input.scaling = Scaling::MaximumConcurrency(50);
        settings.batches.seal_when_drained = true;
        let before = plan(&settings).claimed_secs;
        let changed = what_if(&settings);
        let claimed = |name: &str| {
            let doubled = changed.iter().find(|each| each.name == name);
            doubled.unwrap().plan.claimed_secs
        };
        assert!(claimed("write units of the lock table") < 0.6 * before);
        assert!(claimed("aggregators or pollers at once") > 0.95 * before);
    }
}
