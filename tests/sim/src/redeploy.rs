//! Deployments during a history: a function's configuration is updated, new environments start with it, and the old
//! ones end after their present invocation.

use fastrand::Rng;
use protocol::claim::DuplicateRule;

/// Where the bodies of new batches go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodiesKind {
    /// `BODIES=items`.
    Items,
    /// `BODIES=log:table`.
    Log,
    /// `BODIES=log:s3://loads/…`, under one of several prefixes.
    LogS3(u8),
}

impl BodiesKind {
    /// Returns the value of `BODIES`.
    pub fn value(self) -> String {
        match self {
            BodiesKind::Items => "items".to_owned(),
            BodiesKind::Log => "log:table".to_owned(),
            BodiesKind::LogS3(number) => format!("log:s3://loads/{number}"),
        }
    }

    pub fn is_log(self) -> bool {
        matches!(self, BodiesKind::Log | BodiesKind::LogS3(_))
    }
}

/// One variable that may be changed while batches are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No variable: only the code is deployed, and every environment is new.
    Nothing,
    /// `MAX_SECONDARY_BATCHING_WINDOW`.
    Window(u64),
    /// `MAX_BATCH_SIZE`.
    BatchSize(u64),
    /// `INDEX_SHARDS`.
    Shards(u16),
    /// `ON_DUPLICATE`.
    Rule(DuplicateRule),
    /// `DEDUP_WINDOW`.
    DedupWindow(u64),
    /// `MAX_PART_BYTES`.
    PartBytes(u64),
    /// `VERIFY_DELAY`.
    VerifyDelay(u64),
    /// `WRITE_CONCURRENCY`.
    WriteConcurrency(usize),
    /// `SEAL_WHEN_DRAINED`.
    SealWhenDrained(bool),
    /// `SINK`.
    Destination(usize),
    /// `BODIES`.
    Bodies(BodiesKind),
    /// `SINK_FORMAT`.
    BodiesAlone(bool),
    /// `COMPLETION`: whether it is set.
    Notices(bool),
    /// `CLOSE_AT`: how often a period ends, in minutes.
    CloseEvery(Option<u32>),
    /// `QUOTA_MAX`.
    QuotaMax(u64),
}

impl Change {
    pub fn draw(rng: &mut Rng) -> Change {
        match rng.u8(..14) {
            0 => Change::Nothing,
            1 => Change::Window(rng.u64(1..120)),
            2 => Change::BatchSize(rng.u64(1..40)),
            3 => Change::Shards(rng.u16(1..12)),
            4 => Change::Rule(match rng.bool() {
                true => DuplicateRule::Drop,
                false => DuplicateRule::Requeue,
            }),
            5 => Change::DedupWindow(rng.u64(200..400)),
            6 => Change::PartBytes(rng.u64(1_024..8_192)),
            7 => Change::VerifyDelay(rng.u64(1..90)),
            8 => Change::WriteConcurrency(rng.usize(1..20)),
            9 => Change::SealWhenDrained(rng.bool()),
            10..12 => Change::Destination(rng.usize(1..3)),
            _ => Change::BodiesAlone(rng.bool()),
        }
    }
}
