//! The writes of a batch of the log.

use protocol::batch::{LogResolution, Reservation, Status};
use protocol::ids::{BatchId, LeaseOwner};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;

use super::super::attributes::{ms, n, s};
use super::super::batch_items::status_shard;
use super::super::log_items::{REPORTED, state};
use super::super::update::{LEASED, Update, with_sets};

/// Permits a write to a batch of the log. Only such a record has the attribute.
const IS_LOG: &str = "attribute_exists(#slots)";

/// Reserves seats and a slot, if the batch is open and has room.
pub(super) fn reserve(wanted: &Reservation) -> Update {
    // A room below 0 refuses every batch.
    let room = |max: u64, wanted: u64| n(i128::from(max) - i128::from(wanted));
    Update::new(
        "#status = :open AND #reserved <= :linesRoom AND (#reserved = :none OR #reservedBytes <= :bytesRoom)",
        "SET #lastAt = :at ADD #reserved :lines, #reservedBytes :bytes, #slots :one",
        [
            (":open", s(Status::Open.as_str())),
            (":linesRoom", room(wanted.limits.lines_max, wanted.lines)),
            (":bytesRoom", room(wanted.limits.bytes_max, wanted.bytes)),
            (":none", n(0)),
            (":at", ms(wanted.at)),
            (":lines", n(wanted.lines)),
            (":bytes", n(wanted.bytes)),
            (":one", n(1)),
        ],
    )
}

/// Seals the batch, if it is open and, with `idle_since`, if nothing was reserved after that time. Keeps the `dueAt` of the record if no
/// new one is given.
pub(super) fn seal(
    batch: BatchId,
    at: Timestamp,
    due_at: Option<Timestamp>,
    idle_since: Option<Timestamp>,
) -> Update {
    let idle = idle_since.map_or("", |_| " AND #lastAt <= :since");
    let due = due_at.map_or("", |_| ", #dueAt = :dueAt");
    let mut update = Update::new(
        format!("#status = :open AND {IS_LOG}{idle}"),
        format!("SET #status = :sealed, #statusShard = :shard, #sealedAt = :at{due}"),
        [
            (":open", s(Status::Open.as_str())),
            (":sealed", s(Status::Sealed.as_str())),
            (":shard", status_shard(Status::Sealed, batch)),
            (":at", ms(at)),
        ],
    );
    for (name, value) in [(":dueAt", due_at), (":since", idle_since)] {
        if let Some(value) = value {
            update = update.with(name, ms(value));
        }
    }
    update
}

/// Writes the decisions, by the holder of the lease, if there are none.
pub(super) fn resolve(owner: &LeaseOwner, winners: &SeqSet, resolution: &LogResolution) -> Update {
    let sets = [
        ("claimed", winners),
        ("duplicates", &resolution.duplicates),
        ("conflicts", &resolution.conflicts),
    ];
    let set = "SET #resolution = :resolution, #confirmed = :confirmed".to_owned();
    let (expression, sets) = with_sets(set, &sets);
    let mut update = Update::new(
        format!("{LEASED} AND {IS_LOG} AND attribute_not_exists(#resolution)"),
        expression,
        [
            (":owner", s(owner.as_str())),
            (":resolution", state(resolution)),
            (":confirmed", n(winners.len())),
        ],
    );
    update.values.extend(sets);
    update
}

/// Notes that the decisions are reported, by the holder of the lease.
pub(super) fn report(owner: &LeaseOwner) -> Update {
    Update::new(
        format!("{LEASED} AND attribute_exists(#resolution)"),
        "SET #resolution = :resolution",
        [(":owner", s(owner.as_str())), (":resolution", s(REPORTED))],
    )
}
