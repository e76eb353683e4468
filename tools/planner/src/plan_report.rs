//! What a plan says, as text and as a record that `loadgen report` draws.

use std::fmt::{self, Write};

use protocol::text::counted;

use super::assumptions::assumptions;
use super::batches::Batch;
use super::costs::{costs, total};
use super::plan::Plan;
use super::prices::Prices;
use super::settings::{Scaling, Settings};
use super::shape::Shape;
use crate::minutes::minutes;
use crate::record::{BatchSpan, Cost, Outcome, Record, RecordKind, Sample, Setting, Throttle};

/// A plan with everything that a reader needs to assess it.
#[derive(Debug)]
pub struct PlanReport<'a> {
    pub settings: &'a Settings,
    pub plan: &'a Plan,
    pub prices: &'a Prices,
}

/// Limits that the text names, at most.
const LIMITS_SHOWN: usize = 4;

impl PlanReport<'_> {
    /// Returns the costs of the burst, by purpose.
    pub fn costs(&self) -> Vec<Cost> {
        let plan = self.plan;
        costs(&plan.usage, self.settings, self.prices, plan.unique)
    }

    /// Returns the record of the plan.
    pub fn record(&self, title: &str) -> Record {
        let plan = self.plan;
        Record {
            settings: named(self.settings),
            outcome: Outcome {
                sent: plan.messages,
                unique: plan.unique,
                duplicates: plan.messages - plan.unique,
                sent_after_secs: Some(millis(plan.sent_secs)),
                claimed_after_secs: Some(millis(plan.claimed_secs)),
                drained_after_secs: plan.drained.then_some(millis(plan.drained_secs)),
                set_aside: Some(plan.dead_letters),
                ..Outcome::default()
            },
            samples: plan.samples.iter().map(rounded).collect(),
            batches: (1..).zip(&plan.spans).map(span).collect(),
            latencies: plan.latencies.clone(),
            throttles: self.throttles(),
            costs: self.costs(),
            notes: self.notes(),
            ..Record::bare(RecordKind::Plan, title)
        }
    }

    fn throttles(&self) -> Vec<Throttle> {
        let throttle = |(limit, count): &(super::Limit, u64)| Throttle {
            resource: limit.to_string(),
            reason: "estimated by the model".to_owned(),
            count: *count,
        };
        self.plan.throttles.iter().map(throttle).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        if let Some(binds) = self.binds() {
            notes.push(format!("Held up by: {binds}."));
        }
        notes.push(self.dead_letter_risk());
        for each in assumptions(self.settings) {
            let (text, experiment) = (each.text, each.experiment);
            notes.push(format!("Assumed: {text}. To settle it: {experiment}."));
        }
        notes
    }

    /// Returns what held the burst up, the longest first, each with its share of the time.
    fn binds(&self) -> Option<String> {
        let mut held_up: Vec<_> = self.plan.held_up.iter().collect();
        held_up.sort_by(|a, b| b.1.total_cmp(a.1));
        let all: f64 = self.plan.held_up.values().sum();
        let shares = held_up.into_iter().take(LIMITS_SHOWN);
        let shares = shares.map(|(limit, secs)| (limit, *secs, *secs / all));
        let shares: Vec<String> = shares
            .filter(|(.., share)| *share >= 0.01)
            .map(|(limit, secs, share)| {
                format!("{limit} ({}, {:.0} %)", duration(secs), share * 100.0)
            })
            .collect();
        (!shares.is_empty()).then(|| shares.join(", "))
    }

    fn dead_letter_risk(&self) -> String {
        let plan = self.plan;
        let max = self.settings.input.receives_max;
        let returned = plan.returned as f64 / plan.messages as f64 * 100.0;
        match plan.dead_letters {
            0 if plan.returned == 0 => "Dead letters: none; no message comes back.".to_owned(),
            0 => format!(
                "Dead letters: none; {} returned to the queue ({returned:.1} %), and none is received more than {} of {max}.",
                counted(plan.returned, "message"),
                counted(plan.receives_most, "time")
            ),
            dead => format!(
                "Dead letters: {}, received {} each; {} returned to the queue ({returned:.1} %).",
                counted(dead, "message"),
                counted(max, "time"),
                counted(plan.returned, "message")
            ),
        }
    }
}

impl fmt::Display for PlanReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            messages,
            unique,
            batches,
            full,
            sealed_drained,
            ..
        } = self.plan;
        let plan = self.plan;
        writeln!(
            f,
            "burst       {}, {unique} unique, of {}",
            counted(messages, "message"),
            counted(self.settings.burst.size_bytes, "byte")
        )?;
        writeln!(
            f,
            "batches     {batches}: {full} full, {sealed_drained} sealed because the queue was empty, {} at their window",
            batches - full - sealed_drained
        )?;
        writeln!(
            f,
            "time        sent after {}, taken after {}, delivered after {}, {}",
            duration(plan.sent_secs),
            duration(plan.claimed_secs),
            duration(plan.delivered_secs),
            match plan.drained {
                true => format!("drained after {}", duration(plan.drained_secs)),
                false => "not drained within two weeks".to_owned(),
            }
        )?;
        writeln!(
            f,
            "concurrency {} at most, {} an invocation; {}; {}",
            counted(plan.aggregators_most, "aggregator"),
            counted(plan.messages_per_invocation.round(), "message"),
            counted(plan.processors_most, "batch-processor"),
            counted(plan.cold_starts, "cold start")
        )?;
        writeln!(
            f,
            "in flight   {} at most, of 120000",
            counted(plan.in_flight_most, "message")
        )?;
        writeln!(
            f,
            "held up by  {}",
            self.binds().unwrap_or_else(|| "nothing".to_owned())
        )?;
        writeln!(f, "throttles   {}", self.throttle_text())?;
        let risk = self.dead_letter_risk();
        writeln!(f, "{}", risk.replacen("Dead letters: ", "dead        ", 1))?;
        for latency in &plan.latencies {
            writeln!(
                f,
                "latency     {}: median {}, p99 {}, max {} of {}",
                latency.name,
                duration(latency.p50_secs),
                duration(latency.p99_secs),
                duration(latency.max_secs),
                latency.count
            )?;
        }
        self.fmt_costs(f)
    }
}

impl PlanReport<'_> {
    fn throttle_text(&self) -> String {
        let throttles = self.plan.throttles.iter();
        let each: Vec<String> = throttles
            .map(|(limit, count)| format!("{count} by {limit}"))
            .collect();
        match each.is_empty() {
            true => "none".to_owned(),
            false => format!("about {}", each.join(", ")),
        }
    }

    fn fmt_costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let costs = self.costs();
        let dollars = total(&costs);
        writeln!(
            f,
            "price       ${dollars:.2}, ${:.2} a million unique messages, by list prices of {} in {}",
            dollars / self.plan.unique.max(1) as f64 * 1e6,
            self.prices.region,
            self.prices.date
        )?;
        for cost in costs {
            let (purpose, quantity) = (cost.purpose, cost.quantity);
            writeln!(f, "  ${:>9.4}  {purpose}: {quantity}", cost.dollars)?;
        }
        Ok(())
    }

    /// Returns the assumptions as text, a line each.
    pub fn assumptions(&self) -> String {
        let mut text = String::from("assumed, and how an AWS account would settle it:\n");
        for each in assumptions(self.settings) {
            writeln!(text, "- {}\n  {}", each.text, each.experiment)
                .expect("a text takes any line");
        }
        text
    }
}

/// Returns a time for people: `12.3 s` or `21 min 04 s`.
pub fn duration(secs: f64) -> String {
    minutes(secs).unwrap_or_else(|| format!("{secs:.1} s"))
}

/// Rounds a time to milliseconds: the model knows no more.
fn millis(secs: f64) -> f64 {
    (secs * 1_000.0).round() / 1_000.0
}

fn rounded(sample: &Sample) -> Sample {
    Sample {
        at_secs: millis(sample.at_secs),
        oldest_secs: sample.oldest_secs.map(millis),
        ..sample.clone()
    }
}

fn span((number, batch): (u64, &Batch)) -> BatchSpan {
    BatchSpan {
        batch_id: format!("batch {number}"),
        batch_key: (batch.key > 0).then(|| format!("k{}", batch.key)),
        opened_secs: millis(batch.opened_at),
        sealed_secs: batch.sealed_at.map(millis),
        leased_secs: batch.leased_at.map(millis),
        delivered_secs: batch.delivered_at.map(millis),
        events: batch.count,
        parts: batch.parts,
        flushed: batch.flushed,
        invocations: Some(batch.slots),
    }
}

/// Returns the settings under the names of the template's parameters, in the order in which a reader wants them.
fn named(settings: &Settings) -> Vec<Setting> {
    let Settings {
        burst,
        input,
        aggregator,
        processor,
        batches,
        tables,
        requests,
        ..
    } = settings;
    let scaling = match input.scaling {
        Scaling::MaximumConcurrency(max) => format!("maximum-concurrency, {max}"),
        Scaling::Provisioned { min, max } => format!("provisioned, {min} to {max} pollers"),
        Scaling::Local(environments) => format!("local, {environments}"),
    };
    let shape = match burst.shape {
        Shape::Burst => "all at once".to_owned(),
        Shape::Constant { rate } => format!("{rate} a second"),
        Shape::Ramp { secs } => format!("rising for {secs} s"),
        Shape::Spikes { count, every_secs } => format!("{count} spikes, {every_secs} s apart"),
    };
    let seal = match batches.seal_when_drained {
        true => "on",
        false => "off",
    };
    let units = settings.units_at_first();
    let pairs: [(&str, &dyn fmt::Display); 21] = [
        ("Messages", &burst.messages),
        ("Duplicates, %", &burst.duplicates_percent),
        ("Body, bytes", &burst.size_bytes),
        ("Shape", &shape),
        ("Batch keys", &burst.keys),
        ("Bodies", &batches.bodies),
        ("MaxBatchSize", &batches.items_max),
        ("MaxSecondaryBatchingWindow", &batches.window_secs),
        ("SealWhenDrained", &seal),
        ("InputBatchSize", &input.batch_size),
        ("InputBatchingWindow", &input.window_secs),
        ("InputScaling", &scaling),
        ("MemorySize", &aggregator.memory_mb),
        ("AggregatorTimeout", &aggregator.timeout_secs),
        ("BatchProcessorTimeout", &processor.timeout_secs),
        ("BatchProcessorConcurrency", &processor.concurrency),
        ("IndexShards", &tables.shards),
        ("WriteConcurrency", &requests.concurrency),
        ("Write units a second at first", &units),
        ("Index entries at first", &batches.index_entries),
        ("MaxReceiveCount", &input.receives_max),
    ];
    let setting = |(name, value): (&str, &dyn fmt::Display)| Setting {
        name: name.to_owned(),
        value: value.to_string(),
    };
    pairs.into_iter().map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    #[test]
    fn the_record_of_a_plan_reads_as_it_was_written() {
        let settings = Settings::default();
        let plan = plan(&settings);
        let prices = Prices::us_east_1();
        let report = PlanReport {
            settings: &settings,
            plan: &plan,
            prices: &prices,
        };
        let record = report.record("a plan");
        assert_eq!(Record::from_json(&record.to_json()).unwrap(), record);
        assert_eq!(record.kind, RecordKind::Plan);
        let events: u64 = record.batches.iter().map(|batch| batch.events).sum();
        assert_eq!(events, 100_000);
        let notes = record.notes.join("\n");
        assert!(notes.contains("experiment 6"), "{notes}");
    }

    #[test]
    fn times_are_written_in_seconds_or_minutes() {
        assert_eq!(duration(12.34), "12.3 s");
        assert_eq!(duration(1_264.0), "21 min 04 s");
    }
}
