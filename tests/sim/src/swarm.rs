//! What a seed decides before anything happens: the configuration, the burst, and how often each fault strikes.
//!
//! Each history has some faults and not others ("swarm testing"): a fault that is always on hides what only happens
//! without it. Source: <https://users.cs.utah.edu/~regehr/papers/swarm12.pdf>.

use fastrand::Rng;
use protocol::allocator::BatchLimits;
use protocol::claim::DuplicateRule;
use protocol::limits::{
    KNOWN_CLAIMS_MAX, PARTS_FOR_STRAGGLERS, PARTS_MAX, PAST_DELIVERIES_MAX, SEATS_MAX,
};

use crate::redeploy::{Change, Redeploy};
use crate::world::SKEW_MAX_MS;

/// What makes two messages the same event in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// `EVENT_ID=json:id`.
    Json,
    /// `EVENT_ID=attribute:id`.
    Attribute,
    /// `EVENT_ID=message-id`.
    MessageId,
}

/// How often what goes wrong, each from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// A request is throttled whole.
    pub throttle: f64,
    /// A member of a request is throttled.
    pub throttle_member: f64,
    /// A member has no result; it may be written.
    pub unknown_member: f64,
    /// A request takes nearly as long as anybody waits for it.
    pub slow: f64,
    /// A request never arrives.
    pub lose_request: f64,
    /// A reply is lost; the request was applied.
    pub lose_reply: f64,
    /// A reply is lost, and the request is applied only later.
    pub apply_late: f64,
    /// An environment dies after a step of its own.
    pub kill: f64,
    /// An environment freezes after a step, and wakes up later, perhaps past every deadline.
    pub stall: f64,
    /// A received message becomes visible again although it is in flight.
    pub deliver_twice: f64,
    /// A deleted message comes back.
    pub ghost: f64,
    /// The answer of an invocation does not reach the queue.
    pub lose_answer: f64,
    /// A ticket vanishes though its sending was acknowledged.
    pub lose_ticket: f64,
    /// A ticket is there twice.
    pub repeat_ticket: f64,
    /// A ticket is visible too early.
    pub early_ticket: f64,
    /// The sink fails before it has the part.
    pub sink_fails_before: f64,
    /// The sink fails though it has the part.
    pub sink_fails_after: f64,
    /// The sink never answers.
    pub sink_hangs: f64,
    /// The sink refuses for good.
    pub sink_refuses: f64,
    /// An index entry lags for minutes.
    pub index_lags_long: f64,
    /// Tombstones past their end are removed.
    pub ttl: f64,
    /// A queue says anything about its depth.
    pub depth_wrong: f64,
    /// A request is refused, whatever it asks: a permission that was taken away for a moment.
    pub refuse: f64,
    /// What an aggregator writes to a batch record never arrives, or its reply does not.
    pub lose_record: f64,
    /// What a processor writes to a batch record is applied only later, perhaps after it was written again.
    pub late_record: f64,
    /// The clock of an environment jumps while it is frozen.
    pub jump: f64,
    /// A consumer takes away what a part's manifest announces, at each step of the world.
    pub take_away: f64,
    /// Somebody edits a claim of a frozen part, at each look of the operator.
    pub edit: f64,
}

/// How the sink knows a part that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// It honours idempotency keys, for ever.
    Keys,
    /// It keeps files or objects under names, which consumers take away, and manifests, which they leave.
    Names,
}

/// Everything a seed decides beforehand. Times in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Messages of the burst.
    pub messages: usize,
    /// Share of messages that carry an event sent before, 0 to 1.
    pub duplicates: f64,
    /// Share of those with other content.
    pub conflicts: f64,
    /// Share of messages that cannot be read.
    pub bad: f64,
    /// How long the burst lasts.
    pub burst_ms: u64,
    /// When the faults stop.
    pub calm_at_ms: u64,
    /// Event sources.
    pub sources: usize,
    /// Batch keys; 0 is none.
    pub keys: usize,
    /// What makes two messages the same event.
    pub id_kind: IdKind,
    /// What happens to a duplicate.
    pub rule: DuplicateRule,
    /// Dedup window in seconds; 0 is none.
    pub dedup_window_secs: u64,
    /// `MAX_SECONDARY_BATCHING_WINDOW`.
    pub batching_window_secs: u64,
    /// `MAX_BATCH_SIZE`.
    pub batch_size: u64,
    /// `INDEX_SHARDS`.
    pub shards: u16,
    /// `WRITE_CONCURRENCY`.
    pub write_concurrency: usize,
    /// `VERIFY_DELAY`.
    pub verify_delay_secs: u64,
    /// Messages whose bodies do not fit an item; if there may be any, there is an `OVERFLOW_BUCKET`.
    pub large: usize,
    /// `MAX_PART_BYTES`.
    pub part_bytes: u64,
    /// `SEAL_WHEN_DRAINED`.
    pub seal_when_drained: bool,
    /// Whether there is a quarantine queue.
    pub quarantine: bool,
    /// Most records of one aggregator event.
    pub event_records: usize,
    /// Timeout of the aggregator.
    pub aggregator_timeout_ms: u64,
    /// Timeout of the processor.
    pub processor_timeout_ms: u64,
    /// Aggregator environments at once.
    pub aggregators: usize,
    /// Invocations at once in one of them.
    pub invocations: usize,
    /// Processor environments at once.
    pub processors: usize,
    /// Receives before a message is given up.
    pub receives_max: u32,
    /// Items of one request to the lock table.
    pub items_per_request: usize,
    /// Entries of one index page.
    pub page_entries: usize,
    /// Whether the store shows what refused a conditional write.
    pub shows_what_refused: bool,
    /// Between two sweeps.
    pub sweep_every_ms: u64,
    /// Usual lag of the index.
    pub index_lag_ms: u64,
    /// Longest lag of the index.
    pub index_lag_max_ms: u64,
    /// How far any clock may be from the right time.
    pub skew_max_ms: i64,
    /// How the sink knows a part.
    pub sink: SinkKind,
    /// `SINK`, by number.
    pub place: usize,
    /// `SINK_FORMAT`: whether it is `body`.
    pub bodies_alone: bool,
    /// Parts of a batch.
    pub parts_max: usize,
    /// Past deliveries of a lock item.
    pub past_deliveries_max: usize,
    /// Claims that an environment remembers.
    pub known_claims_max: usize,
    /// Seats of a batch.
    pub seats_max: u32,
    /// Whether copies of an event come from other sources as well.
    pub crosses_sources: bool,
    /// Whether ids are scoped by source: `EVENT_ID_PREFIX` with `{source}`.
    pub prefixes_source: bool,
    /// What is deployed while the history goes on.
    pub redeploys: Vec<Redeploy>,
    /// How often an operator has a batch in error set aside instead of tried again.
    pub sets_aside: f64,
    /// Whether an operator also acts while there are faults.
    pub operates_early: bool,
    /// Whether dead letters are sent back.
    pub redrives: bool,
    /// How many days after the end messages come again, some of them new.
    pub afterlife_days: Option<u64>,
    /// From the end of one outage of all services to the next; 0 is none.
    pub outage_every_ms: u64,
    /// Whether nothing at all goes wrong.
    pub calm: bool,
    /// What goes wrong.
    pub faults: Faults,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

/// Zero for half of the histories, otherwise mostly small.
fn rate(rng: &mut Rng, max: f64) -> f64 {
    if rng.bool() {
        return 0.0;
    }
    let draw = rng.f64();
    draw * draw * max
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        // A draw among the others would make every seed another history; these came later.
        let apart = &mut Rng::with_seed(seed ^ 0xd2a1_4ed0);
        let later = &mut Rng::with_seed(seed ^ 0x6c8e_944d);
        let calm = rng.u8(..) < 12;
        let faults = Faults {
            throttle: rate(rng, 0.4),
            throttle_member: rate(rng, 0.4),
            unknown_member: rate(rng, 0.1),
            slow: rate(rng, 0.5),
            lose_request: rate(rng, 0.1),
            lose_reply: rate(rng, 0.2),
            apply_late: rate(rng, 0.1),
            kill: rate(rng, 0.03),
            stall: rate(rng, 0.02),
            deliver_twice: rate(rng, 0.3),
            ghost: rate(rng, 0.2),
            lose_answer: rate(rng, 0.1),
            lose_ticket: rate(rng, 0.3),
            repeat_ticket: rate(rng, 0.3),
            early_ticket: rate(rng, 0.3),
            // Some sinks are down for as long as there are faults.
            sink_fails_before: if rng.u8(..) < 16 { 1.0 } else { rate(rng, 0.5) },
            sink_fails_after: rate(rng, 0.5),
            sink_hangs: rate(rng, 0.2),
            sink_refuses: rate(rng, 0.2),
            index_lags_long: rate(rng, 0.3),
            ttl: rate(rng, 1.0),
            depth_wrong: rate(apart, 1.0),
            refuse: rate(later, 0.01),
            lose_record: rate(later, 0.6),
            late_record: rate(later, 0.2),
            jump: rate(later, 1.0),
            take_away: rate(later, 0.02),
            edit: rate(later, 0.3),
        };
        let burst_ms = rng.u64(1_000..=600_000);
        let quarantine = rng.u8(..) < 220;
        let aggregator_timeout_ms = pick(rng, &[10_000, 20_000, 60_000]);
        let mut plan = Plan {
            seed,
            messages: rng.usize(20..=160),
            duplicates: pick(rng, &[0.0, 0.05, 0.2, 0.5]),
            conflicts: pick(rng, &[0.0, 0.0, 0.2]),
            bad: pick(rng, &[0.0, 0.0, 0.1]),
            burst_ms,
            calm_at_ms: burst_ms + rng.u64(60_000..=600_000),
            sources: pick(rng, &[1, 1, 2, 3]),
            keys: pick(rng, &[0, 0, 3]),
            id_kind: pick(
                rng,
                &[
                    IdKind::Json,
                    IdKind::Json,
                    IdKind::Json,
                    IdKind::Attribute,
                    IdKind::MessageId,
                ],
            ),
            rule: pick(rng, &[DuplicateRule::Drop, DuplicateRule::Requeue]),
            dedup_window_secs: pick(rng, &[0, 300, 3_600, 3_600]),
            batching_window_secs: pick(rng, &[1, 10, 60, 300]),
            batch_size: pick(rng, &[1, 4, 16, 50, 50_000]),
            shards: pick(rng, &[1, 2, 3, 10]),
            write_concurrency: pick(rng, &[1, 4, 16]),
            verify_delay_secs: pick(rng, &[2, 20, 60]),
            seal_when_drained: pick(apart, &[true, false, false]),
            part_bytes: pick(apart, &[2_048, 64 << 20]),
            // They take a thousand times as long as others to be made, hashed and compared.
            large: pick(apart, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 3]),
            quarantine,
            event_records: pick(rng, &[5, 20, 60]),
            aggregator_timeout_ms,
            processor_timeout_ms: pick(rng, &[10_000, 30_000]),
            aggregators: pick(rng, &[1, 2, 4]),
            invocations: pick(rng, &[1, 1, 3]),
            processors: pick(rng, &[1, 2, 4]),
            receives_max: pick(rng, if quarantine { &[6, 100, 500] } else { &[6, 30] }),
            items_per_request: pick(rng, &[1, 5, 25]),
            page_entries: pick(rng, &[1, 4, 100, 100]),
            shows_what_refused: rng.bool(),
            sweep_every_ms: pick(rng, &[30_000, 300_000]),
            index_lag_ms: pick(rng, &[0, 200, 3_000]),
            index_lag_max_ms: pick(rng, &[10_000, 120_000, 900_000]),
            outage_every_ms: pick(rng, &[0, 0, 0, 60_000]),
            skew_max_ms: SKEW_MAX_MS,
            sink: pick(later, &[SinkKind::Keys, SinkKind::Names]),
            place: 0,
            bodies_alone: later.bool(),
            parts_max: pick(later, &[PARTS_MAX, PARTS_MAX, PARTS_FOR_STRAGGLERS + 2]),
            past_deliveries_max: pick(later, &[PAST_DELIVERIES_MAX, 2]),
            known_claims_max: pick(later, &[KNOWN_CLAIMS_MAX, 3]),
            seats_max: pick(later, &[SEATS_MAX, SEATS_MAX, 25]),
            crosses_sources: later.bool(),
            prefixes_source: later.u8(..) < 50,
            redeploys: Vec::new(),
            sets_aside: pick(later, &[0.0, 0.2, 0.5]),
            operates_early: later.bool(),
            redrives: later.bool(),
            afterlife_days: pick(later, &[None, None, Some(0), Some(1), Some(15), Some(40)]),
            calm,
            faults: if calm { Faults::default() } else { faults },
        };
        if !plan.quarantine {
            plan.sets_aside = 0.0;
            plan.faults.edit = 0.0;
            plan.parts_max = PARTS_MAX;
        }
        if !calm {
            plan.focus(later);
        }
        if plan.parts_max < PARTS_MAX {
            // One event fills a part.
            plan.part_bytes = 512;
        }
        if plan.past_deliveries_max < PAST_DELIVERIES_MAX {
            // A duplicate waits for an older one to be forgotten, and another for that one.
            plan.dedup_window_secs = plan.dedup_window_secs.min(300);
        }
        if !calm && later.u8(..) < 100 {
            plan.redeploys = (0..later.usize(1..4))
                .map(|_| Redeploy {
                    at_ms: later.u64(0..plan.calm_at_ms),
                    change: Change::draw(later),
                })
                .collect();
        }
        plan
    }

    /// Bends six histories in ten towards what seldom comes together by chance.
    fn focus(&mut self, rng: &mut Rng) {
        match rng.u8(..20) {
            // One environment, whose accounts fail and which dies.
            0 => {
                (self.aggregators, self.duplicates) = (1, 0.2);
                self.index_hides(rng);
                let faults = &mut self.faults;
                (faults.kill, faults.stall, faults.deliver_twice) = (0.02, 0.0, 0.5);
            }
            // Several invocations in one environment, batches that fill all the time, seals that fail.
            1 => {
                (self.aggregators, self.invocations) = (1, 3);
                self.batch_size = pick(rng, &[4, 16]);
                self.index_hides(rng);
                self.faults.kill = 0.0;
            }
            // Duplicates that wait for one another, remember few of those before them, and replace orphans.
            2 | 10 | 11 => {
                self.rule = DuplicateRule::Requeue;
                (self.messages, self.duplicates, self.conflicts) = (100, 0.7, 0.0);
                (self.past_deliveries_max, self.dedup_window_secs) = (2, 300);
                self.batch_size = 4;
                self.index_hides(rng);
                let faults = &mut self.faults;
                (faults.ghost, faults.lose_reply, faults.kill) = (0.6, 0.1, 0.01);
                (faults.lose_record, faults.index_lags_long) = (0.7, 0.8);
            }
            // Releases that do not arrive, and batches that end without a second look.
            3 => {
                (self.batch_size, self.dedup_window_secs) = (4, 3_600);
                let faults = &mut self.faults;
                (faults.refuse, faults.unknown_member) = (0.05, 0.0);
                (faults.kill, faults.lose_request, faults.lose_reply) = (0.0, 0.0, 0.0);
                (faults.apply_late, faults.throttle) = (0.0, 0.0);
            }
            // Clocks that are minutes apart: safety rests on none of them.
            4 => {
                self.skew_max_ms = 200_000;
                self.index_hides(rng);
                self.batch_size = pick(rng, &[4, 50]);
                (self.faults.early_ticket, self.faults.repeat_ticket) = (0.5, 0.5);
                self.faults.slow = 0.5;
            }
            // Leases and completions that arrive a second time, late, and claims that nobody counted.
            5 => {
                self.index_hides(rng);
                (self.processors, self.batching_window_secs) = (4, 1);
                let faults = &mut self.faults;
                (faults.late_record, faults.repeat_ticket, faults.kill) = (0.5, 0.5, 0.02);
                (faults.sink_fails_before, faults.sink_refuses) = (0.3, 0.0);
            }
            // Batches that are set aside, whose releases the index hides, and whose events come again at once.
            6 => {
                self.index_hides(rng);
                (self.quarantine, self.operates_early, self.sets_aside) = (true, true, 0.9);
                (self.dedup_window_secs, self.duplicates) = (3_600, 0.3);
                self.afterlife_days = Some(0);
                self.batch_size = pick(rng, &[1, 2, 4]);
                let faults = &mut self.faults;
                (faults.sink_refuses, faults.unknown_member) = (0.7, 0.3);
                (faults.kill, faults.apply_late) = (0.05, 0.1);
            }
            // Bodies that are elsewhere, and claims of which nobody knows whether they are there.
            7 => {
                self.large = 3;
                let faults = &mut self.faults;
                (faults.unknown_member, faults.lose_reply, faults.refuse) = (0.3, 0.2, 0.02);
                (faults.kill, faults.edit) = (0.0, 0.0);
            }
            // One batch of everything, delivered in the smallest parts there are.
            8 => {
                (self.quarantine, self.parts_max) = (true, PARTS_FOR_STRAGGLERS + 2);
                (self.messages, self.burst_ms, self.sources, self.keys) = (160, 5_000, 1, 0);
                (self.duplicates, self.bad, self.write_concurrency) = (0.0, 0.0, 1);
                (self.aggregators, self.batch_size) = (1, 50_000);
                (self.batching_window_secs, self.seal_when_drained) = (300, false);
                let faults = &mut self.faults;
                (faults.kill, faults.throttle, faults.throttle_member) = (0.0, 0.0, 0.0);
                (faults.lose_request, faults.lose_reply, faults.slow) = (0.0, 0.0, 0.0);
                self.redeploys.clear();
            }
            // Releases that are cut off and that the index hides, and events that come again when the window would be
            // over if it had begun with their batch.
            9 => {
                self.index_hides(rng);
                (self.dedup_window_secs, self.batching_window_secs) = (300, 300);
                (self.batch_size, self.burst_ms) = (50_000, 600_000);
                self.calm_at_ms = self.calm_at_ms.max(self.burst_ms + 60_000);
                (self.messages, self.duplicates, self.conflicts) = (160, 0.5, 0.0);
                self.seal_when_drained = false;
                let faults = &mut self.faults;
                (faults.kill, faults.unknown_member, faults.refuse) = (0.05, 0.3, 0.0);
                (faults.sink_refuses, faults.sink_hangs) = (0.0, 0.0);
                self.redeploys.clear();
            }
            _ => {}
        }
    }

    /// Batches end before the index shows what nobody counted, and counting fails.
    fn index_hides(&mut self, rng: &mut Rng) {
        self.batching_window_secs = pick(rng, &[1, 10, 60]);
        self.verify_delay_secs = 2;
        self.index_lag_max_ms = 900_000;
        self.faults.index_lags_long = pick(rng, &[0.3, 0.8]);
        self.faults.lose_record = pick(rng, &[0.3, 0.7]);
    }

    /// The least any environment's dedup window is.
    pub fn dedup_window_min_secs(&self) -> u64 {
        let changed = self.redeploys.iter().filter_map(|one| match one.change {
            Change::DedupWindow(secs) => Some(secs),
            _ => None,
        });
        changed.fold(self.dedup_window_secs, u64::min)
    }

    /// Whether the dedup window changes while the history goes on.
    pub fn changes_dedup_window(&self) -> bool {
        let changes = |one: &Redeploy| matches!(one.change, Change::DedupWindow(_));
        self.redeploys.iter().any(changes)
    }

    /// Whether a duplicate may ever be treated so.
    pub fn ever(&self, rule: DuplicateRule) -> bool {
        let mut changes = self.redeploys.iter();
        self.rule == rule || changes.any(|one| one.change == Change::Rule(rule))
    }

    /// From receiving a message to its becoming visible again.
    pub fn input_visibility_ms(&self) -> u64 {
        2 * self.aggregator_timeout_ms
    }

    /// The same for tickets.
    pub fn ticket_visibility_ms(&self) -> u64 {
        2 * self.processor_timeout_ms
    }

    /// The configurations of both functions, with caps that a history reaches.
    pub fn configs(&self) -> (aggregator::Config, batch_processor::Config) {
        let lookup = |name: &str| self.variable(name);
        let aggregator =
            aggregator::Config::read(&lookup).expect("the plan's variables are allowed");
        let aggregator = aggregator::Config {
            past_deliveries_max: self.past_deliveries_max,
            limits: BatchLimits {
                known_claims_max: self.known_claims_max,
                seats_max: self.seats_max,
                ..aggregator.limits
            },
            ..aggregator
        };
        let processor = batch_processor::Config {
            part_bytes_max: self.part_bytes,
            parts_max: self.parts_max,
            ..batch_processor::Config::read(&lookup).expect("the plan's variables are allowed")
        };
        (aggregator, processor)
    }

    /// The value of one of the functions' variables.
    pub fn variable(&self, name: &str) -> Option<String> {
        Some(match name {
            "DDB_LOCK_TABLE" => "lock-table".to_owned(),
            "DDB_BATCH_TABLE" => "batch-table".to_owned(),
            "BATCH_QUEUE_URL" => "https://sqs.eu-west-1.amazonaws.com/1/batch-queue".to_owned(),
            "QUARANTINE_SQS_URL" if self.quarantine => {
                "https://sqs.eu-west-1.amazonaws.com/1/quarantine".to_owned()
            }
            "MAX_SECONDARY_BATCHING_WINDOW" => self.batching_window_secs.to_string(),
            "MAX_BATCH_SIZE" => self.batch_size.to_string(),
            "INDEX_SHARDS" => self.shards.to_string(),
            "EVENT_ID" => match self.id_kind {
                IdKind::Json => "json:id",
                IdKind::Attribute => "attribute:id",
                IdKind::MessageId => "message-id",
            }
            .to_owned(),
            "EVENT_ID_PREFIX" if self.prefixes_source => "{source}/".to_owned(),
            "SINK" => format!("file:///place-{}", self.place),
            "SINK_FORMAT" if self.bodies_alone => "body".to_owned(),
            "BATCH_KEY" if self.keys > 0 => "key".to_owned(),
            "SEAL_WHEN_DRAINED" if self.seal_when_drained => "on".to_owned(),
            "ON_DUPLICATE" => match self.rule {
                DuplicateRule::Drop => "drop",
                DuplicateRule::Requeue => "requeue",
            }
            .to_owned(),
            "DEDUP_WINDOW" => self.dedup_window_secs.to_string(),
            "WRITE_CONCURRENCY" => self.write_concurrency.to_string(),
            "OVERFLOW_BUCKET" if self.large > 0 => "overflow".to_owned(),
            "VERIFY_DELAY" => self.verify_delay_secs.to_string(),
            _ => return None,
        })
    }
}
