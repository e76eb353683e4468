//! What a history is made of: the configuration, the burst, and how often each fault strikes.

use std::time::Duration;

use protocol::allocator::BatchLimits;
use protocol::claim::DuplicateRule;

use crate::clocks::SKEW_MAX_MS;
use crate::redeploy::{Change, Redeploy};

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

/// The rate of each fault, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// A request is throttled whole.
    pub throttle: f64,
    /// A member of a request is throttled.
    pub throttle_member: f64,
    /// A member has no result; it may be written.
    pub unknown_member: f64,
    /// A request takes nearly as long as the caller waits.
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
    /// A deleted message is delivered again.
    pub ghost: f64,
    /// The response of an invocation does not reach its mapping.
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
    /// The sink does not respond.
    pub sink_hangs: f64,
    /// The sink refuses the part for good.
    pub sink_refuses: f64,
    /// An index entry lags for minutes.
    pub index_lags_long: f64,
    /// Tombstones past their end are removed.
    pub ttl: f64,
    /// A queue reports a random depth.
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
    /// A claim of a frozen part is edited by hand, at each visit of the operator.
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

impl Plan {
    /// Returns by how much two clocks may differ beyond the difference that the protocol allows for.
    pub fn excess_skew(&self) -> Duration {
        Duration::from_millis(2 * (self.skew_max_ms - SKEW_MAX_MS) as u64)
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

impl Change {
    /// Makes the change in a plan.
    pub fn apply(self, plan: &mut Plan) {
        match self {
            Change::Nothing => {}
            Change::Window(secs) => plan.batching_window_secs = secs,
            Change::BatchSize(items) => plan.batch_size = items,
            Change::Shards(shards) => plan.shards = shards,
            Change::Rule(rule) => plan.rule = rule,
            Change::DedupWindow(secs) => plan.dedup_window_secs = secs,
            Change::PartBytes(bytes) => plan.part_bytes = bytes,
            Change::VerifyDelay(secs) => plan.verify_delay_secs = secs,
            Change::WriteConcurrency(requests) => plan.write_concurrency = requests,
            Change::SealWhenDrained(seals) => plan.seal_when_drained = seals,
            Change::Place(place) => plan.place = place,
            Change::BodiesAlone(alone) => plan.bodies_alone = alone,
        }
    }
}
