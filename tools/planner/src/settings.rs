//! What a plan is made for: the burst, and the configuration of the stack.

use std::fmt;

use protocol::limits::{SQS_MESSAGE_BYTES_MAX, aws};

use super::calibration as measured;
use super::local;
use super::shape::Shape;

/// Messages a second that the stand-in of a mapping receives: more than a function handles.
const LOCAL_RECEIVE_RATE: f64 = 50_000.0;
/// Units a second of a table that has no limit.
const UNLIMITED: f64 = 1e12;

/// The longest burst, in messages. Products of two such numbers still fit 64 bits.
pub const MESSAGES_MAX: u64 = 1_000_000_000;

/// About half of the duplicates of a burst come at most this many messages after their original.
pub const NEAR_MESSAGES: u64 = 1_000;

/// Everything that a plan depends on. The default is the burst of `loadgen` and the template's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Decides the small differences between invocations, and which key a message has.
    pub seed: u64,
    pub burst: Burst,
    pub input: Input,
    pub aggregator: Function,
    pub processor: Function,
    pub batches: Batches,
    pub tables: Tables,
    pub requests: Requests,
    pub sink: Sink,
    /// Concurrent invocations of the whole account.
    pub account_concurrency: u64,
    /// By how much the time of an invocation may differ from the computed one, in percent.
    pub jitter_percent: f64,
}

/// What producers send.
#[derive(Clone, Debug, PartialEq)]
pub struct Burst {
    pub messages: u64,
    pub duplicates_percent: f64,
    /// Length of every body.
    pub size_bytes: u64,
    pub shape: Shape,
    /// Values of the batch key; 1 without `BatchKey`.
    pub keys: u32,
}

/// The input queue and its event source mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Most messages of an invocation.
    pub batch_size: u64,
    /// How long a batch is gathered, from its first message on.
    pub window_secs: f64,
    pub scaling: Scaling,
    /// Messages a second that one gatherer of a batch receives at most.
    pub receive_rate: f64,
    /// Bytes of a record in an event besides the body.
    pub record_bytes: u64,
    pub visibility_secs: f64,
    /// Receives after which a message is a dead letter.
    pub receives_max: u32,
}

/// How a mapping scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// A mapping with `MaximumConcurrency`. Each concurrent invocation has a gatherer.
    MaximumConcurrency(u32),
    /// Provisioned pollers.
    Provisioned { min: u32, max: u32 },
    /// The stand-in of `local`: one gatherer for so many environments, all there from the start.
    Local(u32),
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub memory_mb: u64,
    pub timeout_secs: f64,
    /// CPU for a message on a whole processor, in microseconds.
    pub micros_per_message: f64,
    /// From the start of an environment until it takes its invocation.
    pub cold_start_secs: f64,
    /// Most concurrent invocations. Of the aggregator it is the mapping that decides.
    pub concurrency: u32,
    /// Concurrent invocations of one environment: more than one only in `local`.
    pub per_environment: u32,
    /// Dollars of a GB-second: `true` for arm64.
    pub arm64: bool,
}

impl Function {
    /// Returns the seconds of CPU that one message takes, given the share of a processor that the memory buys. Each function
    /// computes on one thread, so more than a processor buys nothing.
    pub fn secs_per_message(&self) -> f64 {
        let share = (self.memory_mb as f64 / aws::LAMBDA_PROCESSOR_MB).min(1.0);
        self.micros_per_message / 1e6 / share
    }
}

/// The rules by which events become batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Batches {
    pub window_secs: f64,
    pub items_max: u64,
    pub bytes_max: u64,
    pub part_bytes_max: u64,
    pub seal_when_drained: bool,
    pub bodies: Bodies,
    /// Entries that the index of the log has at the start.
    pub index_entries: u64,
    /// Whether a full batch starts at once. Only the proof of concept lets it wait for its window.
    pub full_starts_at_once: bool,
    /// Whether each environment fills batches of its own, for a window that begins when its invocation must end. Only those of the proof of
    /// concept do.
    pub own_batches: bool,
    pub deadline_margin_secs: f64,
}

/// Where bodies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bodies {
    /// In lock items.
    Items,
    /// In the log. Its loads and its index are in the batch table.
    LogTable,
    /// The same, but those of more than a few KB are in S3.
    LogS3,
}

impl Bodies {
    pub fn is_log(self) -> bool {
        match self {
            Bodies::Items => false,
            Bodies::LogTable | Bodies::LogS3 => true,
        }
    }
}

/// As a value of the template's parameter.
impl fmt::Display for Bodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bodies::Items => "items",
            Bodies::LogTable => "log:table",
            Bodies::LogS3 => "log:s3",
        })
    }
}

/// Write limits of the tables, in units a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// Of the lock table, and as many of its index.
    pub lock: f64,
    /// Of the batch table.
    pub batch: f64,
    /// The most that either grows to.
    pub quota: f64,
    /// Of one key of the index, or one batch record; `None` for no limit.
    pub key: Option<f64>,
    pub shards: u32,
    /// Share of a limit that writers get to use while it throttles.
    pub paced_share: f64,
    pub index_lag_secs: f64,
}

/// Requests of the functions.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// Requests in flight of one environment.
    pub concurrency: u32,
    /// Claims or releases of one request.
    pub items: u32,
    /// Time of a request with that many items.
    pub write_secs: f64,
    /// Time of a request for one record, a ticket, a slot, or a piece of an object in the table.
    pub control_secs: f64,
    /// Time of a PUT or GET, besides that of its bytes.
    pub s3_secs: f64,
}

/// The system behind the sink.
#[derive(Clone, Debug, PartialEq)]
pub struct Sink {
    /// Time of one part, whatever its size.
    pub secs_per_part: f64,
    pub bytes_per_sec: f64,
}

impl Burst {
    /// Returns everything that is wrong with the burst.
    pub fn problems(&self) -> Vec<String> {
        let Burst {
            messages,
            duplicates_percent: percent,
            size_bytes: size,
            ..
        } = *self;
        let mut problems = Vec::new();
        if !(1..=MESSAGES_MAX).contains(&messages) {
            problems.push(format!("the burst: wrong number of messages: got `{messages}`, expected 1 to {MESSAGES_MAX}"));
        }
        if !(0.0..100.0).contains(&percent) {
            problems.push(format!(
                "the burst: wrong share of duplicates: got `{percent}` %, expected 0 to below 100"
            ));
        }
        if !(1..=SQS_MESSAGE_BYTES_MAX as u64).contains(&size) {
            problems.push(format!(
                "the burst: wrong body size: got `{size}` bytes, expected 1 to {SQS_MESSAGE_BYTES_MAX}"
            ));
        }
        problems
    }
}

impl Tables {
    /// Gives each table, and each index, so many write units a second, whatever AWS would make of it.
    pub fn fix_units(&mut self, units: f64) {
        (self.lock, self.batch, self.quota) = (units, units, units);
    }
}

impl Settings {
    /// Changes the settings to the stand-ins and defaults of `batch-local burst`, with so many aggregators.
    pub fn be_local(&mut self, environments: u32) {
        self.input.scaling = Scaling::Local(environments);
        (self.input.batch_size, self.input.receive_rate) =
            (local::BATCH_SIZE as u64, LOCAL_RECEIVE_RATE);
        self.input.receives_max = local::RECEIVES_MAX_FAULTS;
        self.aggregator.timeout_secs = local::AGGREGATOR_TIMEOUT_SECS as f64;
        self.processor.timeout_secs = local::BATCH_PROCESSOR_TIMEOUT_SECS as f64;
        for function in [&mut self.aggregator, &mut self.processor] {
            function.cold_start_secs = measured::COLD_START_SECS;
        }
        self.batches.window_secs = local::window_secs(self.burst.messages) as f64;
        self.batches.seal_when_drained =
            local::is_small(self.burst.messages) && self.burst.shape == Shape::Burst;
        // The stand-ins throttle only with a limit.
        self.tables.fix_units(UNLIMITED);
        (self.tables.key, self.tables.index_lag_secs) = (None, 0.0);
        self.requests.concurrency = local::WRITE_CONCURRENCY;
        (self.requests.control_secs, self.requests.write_secs) = (0.005, 0.005);
        (self.sink.secs_per_part, self.sink.bytes_per_sec) = (0.02, 1e9);
    }

    /// Returns the write units a second, at first, of the table to which events are written.
    pub fn units_at_first(&self) -> f64 {
        match self.batches.bodies {
            Bodies::Items => self.tables.lock,
            Bodies::LogTable | Bodies::LogS3 => self.tables.batch,
        }
    }

    /// Sets the CPU of both functions to what was measured for the bodies of this burst.
    pub fn use_measured_cpu(&mut self) {
        use measured::{
            AGGREGATOR_MICROS_ITEMS, AGGREGATOR_MICROS_LOG, AGGREGATOR_MICROS_PER_BYTE,
            PROCESSOR_MICROS_ITEMS, PROCESSOR_MICROS_LOG, PROCESSOR_MICROS_PER_BYTE, PUT_FACTOR,
        };
        let (aggregator, processor) = match self.batches.bodies {
            Bodies::Items => (AGGREGATOR_MICROS_ITEMS, PROCESSOR_MICROS_ITEMS),
            Bodies::LogTable | Bodies::LogS3 => (AGGREGATOR_MICROS_LOG, PROCESSOR_MICROS_LOG),
        };
        let size = self.burst.size_bytes;
        let put = match self.requests.items {
            1 => PUT_FACTOR,
            _ => 1.0,
        };
        let micros = |base, per_byte| put * scaled(base, size, per_byte);
        self.aggregator.micros_per_message = micros(aggregator, AGGREGATOR_MICROS_PER_BYTE);
        self.processor.micros_per_message = micros(processor, PROCESSOR_MICROS_PER_BYTE);
    }
}

fn scaled(micros: f64, size_bytes: u64, per_byte: f64) -> f64 {
    let more = size_bytes as f64 - measured::MEASURED_BYTES;
    (micros + more * per_byte).max(micros / 2.0)
}

impl Default for Settings {
    fn default() -> Settings {
        let function = Function {
            memory_mb: 1_769,
            timeout_secs: 60.0,
            micros_per_message: 0.0,
            cold_start_secs: 0.25,
            concurrency: 4,
            per_environment: 1,
            arm64: true,
        };
        let mut settings = Settings {
            seed: 1,
            burst: Burst {
                messages: 100_000,
                duplicates_percent: 0.0,
                size_bytes: 300,
                shape: Shape::Burst,
                keys: 1,
            },
            input: Input {
                batch_size: 10_000,
                window_secs: 1.0,
                scaling: Scaling::MaximumConcurrency(4),
                receive_rate: STANDARD_RECEIVE_RATE,
                record_bytes: 750,
                visibility_secs: 361.0,
                receives_max: 50,
            },
            processor: Function {
                timeout_secs: 300.0,
                concurrency: 2,
                ..function.clone()
            },
            aggregator: function,
            batches: Batches {
                window_secs: 300.0,
                items_max: 50_000,
                bytes_max: 134_217_728,
                part_bytes_max: 67_108_864,
                seal_when_drained: false,
                bodies: Bodies::Items,
                index_entries: 0,
                full_starts_at_once: true,
                own_batches: false,
                deadline_margin_secs: 3.0,
            },
            tables: Tables {
                lock: aws::TABLE_UNITS_PER_SECOND_AT_FIRST,
                batch: aws::TABLE_UNITS_PER_SECOND_AT_FIRST,
                quota: aws::TABLE_UNITS_PER_SECOND_QUOTA,
                key: Some(protocol::limits::INDEX_KEY_UNITS_PER_SECOND),
                shards: 10,
                paced_share: measured::PACED_SHARE,
                index_lag_secs: 0.5,
            },
            requests: Requests {
                concurrency: 64,
                items: 25,
                write_secs: 0.025,
                control_secs: 0.01,
                s3_secs: 0.1,
            },
            sink: Sink {
                secs_per_part: 1.0,
                bytes_per_sec: 20e6,
            },
            account_concurrency: aws::LAMBDA_CONCURRENCY_DEFAULT,
            jitter_percent: 5.0,
        };
        settings.use_measured_cpu();
        settings
    }
}

/// Messages a second that a gatherer of a mapping without provisioned pollers receives. AWS publishes no figure; in the
/// published run each of two received at least so many.
pub const STANDARD_RECEIVE_RATE: f64 = 1_000.0;
