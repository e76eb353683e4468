//! What a seed decides before anything happens: the configuration, the burst, and how often each fault strikes.
//!
//! Each history has some faults and not others ("swarm testing"): a fault that is always on hides what only happens
//! without it. Source: <https://users.cs.utah.edu/~regehr/papers/swarm12.pdf>.

use fastrand::Rng;
use shared::protocol::claim::DuplicateRule;

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
        };
        let burst_ms = rng.u64(1_000..=600_000);
        let quarantine = rng.u8(..) < 220;
        let aggregator_timeout_ms = pick(rng, &[10_000, 20_000, 60_000]);
        Plan {
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
            calm,
            faults: if calm { Faults::default() } else { faults },
        }
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
        let processor = batch_processor::Config {
            part_bytes_max: self.part_bytes,
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
