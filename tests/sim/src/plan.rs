//! The plan of a history: the configuration, the burst, and the rate of each fault.

use std::time::Duration;

use protocol::bodies::ObjectSizes;
use protocol::claim::DuplicateRule;
use protocol::limits::BATCH_LIFE_MAX;
use protocol::period::Period;
use protocol::time::Timestamp;

use crate::calendar::Calendar;
use crate::pauses::PlannedPause;
use crate::redeploy::{BodiesKind, Change};

/// The largest error of a clock, to either side, so that two clocks differ by less than two seconds.
pub const SKEW_MAX_MS: i64 = 999;

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
    /// A whole request is throttled.
    pub throttle: f64,
    /// One item of a request is throttled.
    pub throttle_member: f64,
    /// One item of a request has no result; it may have been written.
    pub unknown_member: f64,
    /// A request takes almost as long as the caller waits.
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
    /// A ticket is lost although its sending was acknowledged.
    pub lose_ticket: f64,
    /// A ticket is delivered twice.
    pub repeat_ticket: f64,
    /// A ticket is visible too early.
    pub early_ticket: f64,
    /// The sink fails before it has the part.
    pub sink_fails_before: f64,
    /// The sink fails although it has the part.
    pub sink_fails_after: f64,
    /// The sink does not respond.
    pub sink_hangs: f64,
    /// The sink refuses the part permanently.
    pub sink_refuses: f64,
    /// An index entry lags for minutes.
    pub index_lags_long: f64,
    /// Tombstones past their end are removed.
    pub ttl: f64,
    /// A queue reports a random depth.
    pub depth_wrong: f64,
    /// A request of any kind is refused, as if a permission was missing for a moment.
    pub refuse: f64,
    /// A write of an aggregator to a batch record never arrives, or its reply does not.
    pub lose_record: f64,
    /// A write of a processor to a batch record is applied late, perhaps after its retry.
    pub late_record: f64,
    /// The clock of an environment jumps while it is frozen.
    pub jump: f64,
    /// A consumer takes away a part that has a manifest, at each step of the world.
    pub take_away: f64,
    /// A claim of a frozen part is edited by hand, at each visit of the operator.
    pub edit: f64,
}

/// A bucket prefix whose loads may not be read for a time, or to which no run may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    pub prefix: u8,
    pub from_ms: u64,
    /// Whether somebody repairs it, ten minutes after the faults stopped. If not, runs can be written
    /// once every batch that could not write one is set aside.
    pub ends: bool,
}

/// How the sink recognises a part that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// It remembers idempotency keys for ever.
    Keys,
    /// It keeps files or objects under names. Consumers take the data away and leave the manifests.
    Names,
}

/// Everything that is drawn from a seed before the history starts. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub seed: u64,
    /// When the history begins.
    pub start: Timestamp,
    /// Messages of the burst.
    pub messages: usize,
    /// Share of messages that carry an event of an earlier message, 0 to 1.
    pub duplicates: f64,
    /// Share of these duplicates that have other content, 0 to 1.
    pub conflicts: f64,
    /// Share of messages that cannot be read, 0 to 1.
    pub bad: f64,
    /// Share of events whose first body the sink rejects, 0 to 1.
    pub rejects: f64,
    /// How long the burst lasts.
    pub burst_ms: u64,
    /// When the faults stop.
    pub calm_at_ms: u64,
    pub sources: usize,
    /// Number of batch keys; 0 for no `BATCH_KEY`.
    pub keys: usize,
    pub id_kind: IdKind,
    /// `ON_DUPLICATE`.
    pub rule: DuplicateRule,
    /// `DEDUP_WINDOW`, in seconds.
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
    /// Maximum number of messages whose bodies do not fit an item. If it is not 0, `OVERFLOW_BUCKET` is set.
    pub large: usize,
    /// `BODIES`.
    pub bodies: BodiesKind,
    /// `MAX_PART_BYTES`.
    pub part_bytes: u64,
    /// `SEAL_WHEN_DRAINED`.
    pub seal_when_drained: bool,
    /// Whether there is a quarantine queue.
    pub quarantine: bool,
    /// Whether `COMPLETION` is set at first.
    pub notices: bool,
    /// Maximum number of messages in one event of the aggregator.
    pub event_records: usize,
    pub aggregator_timeout_ms: u64,
    pub processor_timeout_ms: u64,
    /// Maximum number of aggregator environments at once.
    pub aggregators: usize,
    /// Maximum number of invocations at once in an aggregator environment.
    pub invocations: usize,
    /// Maximum number of processor environments at once.
    pub processors: usize,
    /// Number of receives after which a message becomes a dead letter.
    pub receives_max: u32,
    /// Maximum number of items in one request to the lock table.
    pub items_per_request: usize,
    /// Maximum number of entries in one page of an index.
    pub page_entries: usize,
    /// Whether a refused conditional write returns the existing item.
    pub shows_what_refused: bool,
    pub sweep_every_ms: u64,
    /// Usual lag of the index.
    pub index_lag_ms: u64,
    /// Longest lag of the index.
    pub index_lag_max_ms: u64,
    /// How far any clock may be from the right time.
    pub skew_max_ms: i64,
    pub sink: SinkKind,
    /// `SINK`, as a number.
    pub destination: usize,
    /// Whether `SINK_FORMAT` is `body`.
    pub bodies_alone: bool,
    /// Whether the sink needs the numbers of parts.
    pub sequence: bool,
    /// Maximum number of parts of a batch.
    pub parts_max: usize,
    /// Maximum number of past deliveries of a lock item.
    pub past_deliveries_max: usize,
    /// Whether duplicates of an event come from other sources too.
    pub crosses_sources: bool,
    /// Whether `EVENT_ID_PREFIX` contains `{source}`.
    pub prefixes_source: bool,
    /// The deployments during the history: when, and what they change.
    pub redeploys: Vec<(u64, Change)>,
    /// `DELIVERY_HOURS`.
    pub hours: Option<Calendar>,
    /// `CLOSE_AT`, in minutes: how often a period ends; it divides a day.
    pub close_every: Option<u32>,
    /// Whether bodies have the time of their event, which decides about its period (`CLOSE_TIME`).
    pub event_times: bool,
    /// `CLOSE_AFTER_IDLE`, in seconds; 0 is never.
    pub close_after_idle_secs: u64,
    /// `QUOTA_MAX`, for the hours of the events' own times; only in a history of the log.
    pub quota_max: Option<u64>,
    /// `DELIVERY_MAX_PER_SECOND`; 0 is no limit.
    pub events_per_second: u64,
    /// The pauses of deliveries during the history.
    pub pauses: Vec<PlannedPause>,
    /// Rate at which an operator sets a batch in error aside instead of trying it again.
    pub sets_aside: f64,
    /// Whether an operator acts while there are faults too.
    pub operates_early: bool,
    /// Whether dead letters are sent back.
    pub redrives: bool,
    /// Whether what was set aside is sent back while there are faults.
    pub redrives_early: bool,
    /// Days after which messages are sent again, some of them with new ids.
    pub afterlife_days: Option<u64>,
    /// Where loads go by their size. The loads of a history are small.
    pub object_sizes: ObjectSizes,
    /// Loads that may not be read, or runs that may not be written.
    pub denial: Option<Denial>,
    /// Days for which nothing runs although batches are under way, right after the faults stopped.
    pub standstill_days: Option<u64>,
    pub manifest_lost_at_ms: Option<u64>,
    /// When an operator has an event of the log forgotten.
    pub forgets_at_ms: Vec<u64>,
    /// When an operator begins to switch from `items` to a log, and to which, or from the log back to `items`.
    pub switch: Option<(u64, BodiesKind)>,
    /// Time from the end of one outage of all services to the next; 0 for no outage.
    pub outage_every_ms: u64,
    /// Share of events that are urgent, 0 to 1. If it is not 0, `BYPASS` is set.
    pub urgent: f64,
    /// Whether dropped duplicates are reported (`DUPLICATES_SQS_URL`), as long as they are dropped.
    pub reports_duplicates: bool,
    /// Number of quota keys that are not the batch keys; 0 if they are.
    pub accounts: usize,
    /// Whether there are no faults.
    pub calm: bool,
    pub faults: Faults,
}

impl Plan {
    /// Returns how long after the faults stopped everything must have drained: six hours, the present period and the next one, in which
    /// an event may be, and, with hours of delivery, some openings. A batch may miss one if a clock is wrong, and a duplicate may wait for
    /// the delivery of another one. What nobody can read is set aside by the sweep, a day after it failed. Where duplicates go back to the
    /// queue, a corrected event is received as often as the queue allows.
    pub fn drain_max_ms(&self) -> u64 {
        let openings_ms = self
            .hours
            .map_or(0, |hours| u64::from(hours.every) * 12 * 60_000);
        let periods_ms = 2 * u64::from(self.close_every.unwrap_or(0)) * 60_000;
        let stays_denied = self.denial.is_some_and(|denial| !denial.ends);
        let unreadable_ms = if stays_denied { 25 * 3_600_000 } else { 0 };
        let requeued_ms = match self.ever(DuplicateRule::Requeue) {
            true => u64::from(self.receives_max) * self.input_visibility_ms(),
            false => 0,
        };
        6 * 3_600_000 + periods_ms + openings_ms + unreadable_ms + requeued_ms
    }

    /// Returns the first plan without faults.
    pub fn calm(plan_of: impl Fn(u64) -> Plan) -> Plan {
        let mut plans = (0..).map(plan_of);
        plans.find(|plan| plan.calm).expect("some plans are calm")
    }

    /// Returns whether anything but the end of its window and a rate keeps a batch from the sink.
    pub fn holds_back(&self) -> bool {
        self.hours.is_some() || self.sequence || !self.pauses.is_empty()
    }

    /// Returns how far any clock may be from the right time.
    pub fn skew_max(&self) -> Duration {
        Duration::from_millis(self.skew_max_ms as u64)
    }

    /// Returns whether a clock may be further from the right time than the protocol allows for.
    pub fn is_wild(&self) -> bool {
        self.skew_max_ms > SKEW_MAX_MS
    }

    /// Returns by how much two clocks may differ beyond the difference that the protocol allows for.
    pub fn excess_skew(&self) -> Duration {
        Duration::from_millis(2 * (self.skew_max_ms - SKEW_MAX_MS) as u64)
    }

    /// Returns the shortest dedup window of any environment.
    pub fn dedup_window_min_secs(&self) -> u64 {
        let changed = self.redeploys.iter().filter_map(|(_, one)| match one {
            Change::DedupWindow(secs) => Some(*secs),
            _ => None,
        });
        changed.fold(self.dedup_window_secs, u64::min)
    }

    /// Returns whether a deployment makes a change of some kind.
    pub fn changes(&self, is_of_kind: impl Fn(Change) -> bool) -> bool {
        self.redeploys.iter().any(|(_, change)| is_of_kind(*change))
    }

    pub fn delivery_hours(&self) -> Option<String> {
        let hours = self.hours?;
        let spans = (hours.first..24 * 60).step_by(hours.every as usize);
        let spans = spans.map(|opens| format!("{}-{}", clock(opens), clock(opens + hours.length)));
        let zone = hours.zone.name();
        Some(format!("{} {zone}", Vec::from_iter(spans).join(",")))
    }

    /// Returns the period that a time is in, computed without a calendar; `None` without `CLOSE_AT`.
    pub fn period_of(&self, at: Timestamp) -> Option<Period> {
        let every_ms = u64::from(self.close_every?) * 60_000;
        let begins = at.as_ms() / every_ms * every_ms;
        Some(Period {
            begins: Timestamp::from_ms(begins),
            ends: Timestamp::from_ms(begins + every_ms),
        })
    }

    /// Returns the largest `QUOTA_MAX` of any configuration of the history, if there are quotas, and whether it changes.
    pub fn quota_max_ever(&self) -> Option<(u64, bool)> {
        let changed = self.redeploys.iter().filter_map(|(_, one)| match one {
            Change::QuotaMax(max) => Some(*max),
            _ => None,
        });
        let max = self.quota_max?;
        let most = changed.clone().fold(max, u64::max);
        Some((most, changed.count() > 0))
    }

    /// Returns whether any configuration of the history has `SEAL_WHEN_DRAINED`.
    pub fn ever_seals_when_drained(&self) -> bool {
        self.seal_when_drained || self.changes(|change| change == Change::SealWhenDrained(true))
    }

    fn close_at(&self) -> Option<String> {
        let times = (0..24 * 60).step_by(self.close_every? as usize);
        let times = Vec::from_iter(times.map(clock)).join(",");
        Some(format!("{times} UTC"))
    }

    /// Returns whether `COMPLETION` is set in every configuration of the history.
    pub fn always_notices(&self) -> bool {
        self.notices && !self.changes(|change| matches!(change, Change::Notices(_)))
    }

    /// Returns whether any configuration of the history has a log.
    pub fn ever_log(&self) -> bool {
        self.bodies.is_log() || self.switch.is_some()
    }

    /// Returns whether the operator who switches to the log primes its index only once batches are in error.
    pub fn forgets_to_prime(&self) -> bool {
        matches!(self.switch, Some((at_ms, to)) if to.is_log() && at_ms % 4 == 0)
    }

    /// Returns whether a batch may still be open when its batch life ends.
    pub fn may_outlast_batch_life(&self) -> bool {
        let standstill = self.standstill_days.unwrap_or_default() * 86_400_000;
        Duration::from_millis(standstill + self.calm_at_ms) >= BATCH_LIFE_MAX
    }

    /// Returns whether any configuration of the history has this rule.
    pub fn ever(&self, rule: DuplicateRule) -> bool {
        self.rule == rule || self.changes(|change| change == Change::Rule(rule))
    }

    pub fn input_visibility_ms(&self) -> u64 {
        2 * self.aggregator_timeout_ms
    }

    pub fn ticket_visibility_ms(&self) -> u64 {
        2 * self.processor_timeout_ms
    }

    /// Returns the configurations of both functions, with limits small enough for a history to reach them.
    pub fn configs(&self) -> (aggregator::Config, batch_processor::Config) {
        let lookup = |name: &str| self.variable(name);
        let aggregator =
            aggregator::Config::read(&lookup).expect("the plan's variables are allowed");
        let aggregator = aggregator::Config {
            past_deliveries_max: self.past_deliveries_max,
            object_sizes: self.object_sizes,
            ..aggregator
        };
        let processor = batch_processor::Config {
            part_bytes_max: self.part_bytes,
            parts_max: self.parts_max,
            ..batch_processor::Config::read(&lookup).expect("the plan's variables are allowed")
        };
        (aggregator, processor)
    }

    /// Returns the value of an environment variable of the functions.
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
            "SINK" => format!("file:///place-{}", self.destination),
            "COMPLETION" if self.notices => {
                "https://sqs.eu-west-1.amazonaws.com/1/notices".to_owned()
            }
            "CLOSE_AT" => return self.close_at(),
            "CLOSE_TIME" if self.close_every.is_some() && self.event_times => "at".to_owned(),
            "QUOTA" if self.quota_max.is_none() => return None,
            "QUOTA" if self.accounts > 0 => "account".to_owned(),
            "QUOTA" => "key".to_owned(),
            "QUOTA_MAX" => self.quota_max.unwrap_or(0).to_string(),
            "QUOTA_PERIOD" => "hour".to_owned(),
            "QUOTA_TIME" if self.quota_max.is_some() => "at".to_owned(),
            "CLOSE_AFTER_IDLE" => self.close_after_idle_secs.to_string(),
            "DELIVERY_HOURS" => return self.delivery_hours(),
            "DELIVERY_MAX_PER_SECOND" => self.events_per_second.to_string(),
            "SINK_PATH" if self.sequence => "{batch}/{sequence}".to_owned(),
            "SINK_FORMAT" if self.bodies_alone => "body".to_owned(),
            "BATCH_KEY" if self.keys > 0 => "key".to_owned(),
            "BYPASS" if self.urgent > 0.0 => "urgent".to_owned(),
            "DUPLICATES_SQS_URL" if self.reports_duplicates && self.rule == DuplicateRule::Drop => {
                "https://sqs.eu-west-1.amazonaws.com/1/duplicates".to_owned()
            }
            "SEAL_WHEN_DRAINED" if self.seal_when_drained => "on".to_owned(),
            "ON_DUPLICATE" => match self.rule {
                DuplicateRule::Drop => "drop",
                DuplicateRule::Requeue => "requeue",
            }
            .to_owned(),
            "DEDUP_WINDOW" => self.dedup_window_secs.to_string(),
            "WRITE_CONCURRENCY" => self.write_concurrency.to_string(),
            "OVERFLOW_BUCKET" if self.large > 0 => "overflow".to_owned(),
            "BODIES" => self.bodies.value(),
            "VERIFY_DELAY" => self.verify_delay_secs.to_string(),
            _ => return None,
        })
    }
}

/// Returns what the clock shows so many minutes after a midnight.
fn clock(minutes: u32) -> String {
    format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

impl Change {
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
            Change::Destination(number) => plan.destination = number,
            Change::Bodies(kind) => plan.bodies = kind,
            Change::BodiesAlone(alone) => plan.bodies_alone = alone,
            Change::Notices(on) => plan.notices = on,
            Change::CloseEvery(every) => plan.close_every = every,
            Change::QuotaMax(max) => plan.quota_max = Some(max),
        }
    }
}
