//! A simulation of both functions under random faults that follow from a seed.
//!
//! One seed is one history: the handlers of both functions run unchanged in a simulated world. There, replies get lost,
//! queues repeat and reorder messages, the index lags, environments die or freeze between any two steps, and clocks
//! differ. Time is virtual and everything runs on one thread, so a seed gives exactly the same history every time.
//!
//! The simulation checks the promises ([`checks`]) and the invariants of every record ([`protocol::invariants`]) after
//! every step. At some time the faults stop; after that, every message must come to its end.

pub mod afterlife;
pub mod answers;
pub mod backlog;
pub mod bugs;
pub mod burst;
pub mod calendar;
pub mod checks;
pub mod environment;
pub mod index;
pub mod lambda;
pub mod ledger;
mod named_items;
pub mod operator;
pub mod pauses;
pub mod plan;
pub mod queue;
pub mod redeploy;
pub mod request_outcome;
pub mod schedule;
pub mod scopes;
pub mod sink;
pub mod sources;
pub mod stack;
pub mod swarm;
pub mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use protocol::invariants::{ASSERTED, Broken};

use crate::lambda::Run;
use crate::ledger::Handed;
use crate::plan::Plan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    pub seed: u64,
    pub steps: u64,
    /// Number of claims that reached the sink.
    pub delivered: usize,
    /// The parts that were handed to the sink, if deliveries have a rate.
    pub handed: Vec<Handed>,
    /// How often each kind of occurrence was noted.
    pub counts: BTreeMap<&'static str, u64>,
    /// The longest time from the close of a batch of the log to its end, if nothing but that keeps batches from the sink.
    pub late_max: Duration,
    /// The first broken promise or invariant.
    pub broken: Option<Broken>,
    /// Everything that happened, in words, if `traced`.
    pub trace: Vec<String>,
}

impl History {
    /// Returns how often a kind of occurrence was noted.
    pub fn count(&self, kind: &str) -> u64 {
        self.counts.get(kind).copied().unwrap_or_default()
    }
}

pub fn run(seed: u64, traced: bool) -> History {
    run_plan(Plan::of(seed), traced)
}

pub fn run_plan(plan: Plan, traced: bool) -> History {
    let seed = plan.seed;
    let mut run = Run::new(plan, traced);
    // The functions assert some invariants. A broken one is a panic, which ends the history.
    let ran = catch_unwind(AssertUnwindSafe(|| run.run()));
    let mut world = run.world();
    let broken = match &ran {
        Ok(_) => world.broken.take(),
        Err(panic) => Some(asserted(panic.as_ref())),
    };
    History {
        seed,
        steps: ran.unwrap_or_default(),
        delivered: world.ledger.delivered_count(),
        handed: std::mem::take(&mut world.ledger.handed),
        counts: std::mem::take(&mut world.counts),
        late_max: world.late_max,
        broken,
        trace: world.trace.take().unwrap_or_default(),
    }
}

fn asserted(panic: &(dyn std::any::Any + Send)) -> Broken {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("a panic without words");
    let invariant = ASSERTED.iter().find(|name| text.contains(*name));
    Broken {
        name: invariant.copied().unwrap_or("an assertion of production"),
        found: text.to_owned(),
    }
}
