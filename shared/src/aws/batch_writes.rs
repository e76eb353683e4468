//! Every [`BatchWrite`] as an update expression with its condition. It has the same effect as
//! [`apply`](protocol::batch::apply); the contract tests compare the two.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{
    BatchCounts, BatchWrite, Failure, Lease, NO_ERROR, OperatorDecision, OperatorNote, PartRecord,
    Rejects, Status,
};
use protocol::format_version::{FORMAT_VERSION, FORMAT_VERSION_FIELD};
use protocol::ids::{BatchId, LeaseOwner};
use protocol::limits::{CLOCK_SKEW_MAX, DUE_GRACE};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;

use super::attributes::{b, ms, n, s};
use super::batch_items::{notes_value, status_shard};
use super::part_items::{DELIVERED, FROZEN, SET_ASIDE, part_value};
use super::update::{LEASED, Update, with_parts, with_sets};
use ends::{complete, fail, notices_sent};

/// Permits a write to a batch that is not complete. Like every condition here, it does not hold if there is no record.
const NOT_COMPLETE: &str = "attribute_exists(#status)";
/// Permits counts that are later than those in the record.
const LATER_COUNTS: &str = "#accounts < :version";

/// Permits taking the lease of a sealed batch, of an open batch whose window has ended, and of a batch in processing
/// whose lease was given up or ended longer ago than the clock skew.
const FREE: &str = "#status = :sealed \
     OR (#status = :open AND #closesAt <= :at) \
     OR (#status = :processing AND (attribute_not_exists(#lockedBy) OR #lockedUntil <= :free))";

/// Permits a write to a record that this code can read. The lease and a resent ticket are written before anything is read.
const READABLE: &str = "attribute_not_exists(#formatVersion) OR #formatVersion <= :formatVersion";

/// Returns the update for `write` to the record of `batch`. It is refused if a later version of the service wrote the record.
pub(super) fn update(batch: BatchId, write: &BatchWrite) -> Update {
    let mut update = update_of(batch, write);
    update.condition = format!("({READABLE}) AND ({})", update.condition);
    let name = format!("#{FORMAT_VERSION_FIELD}");
    update.names.insert(name, FORMAT_VERSION_FIELD.to_owned());
    let update = update.with(":formatVersion", n(FORMAT_VERSION));
    debug_assert!(update.has_its_values(), "{update:?}");
    update
}

fn update_of(batch: BatchId, write: &BatchWrite) -> Update {
    match write {
        BatchWrite::Count(counts) => counts_update(counts),
        BatchWrite::Seal { counts, at, due_at } => seal(batch, counts, *at, *due_at),
        BatchWrite::Reserve(wanted) => log::reserve(wanted),
        BatchWrite::SealLog {
            at,
            due_at,
            idle_since,
        } => log::seal(batch, *at, *due_at, *idle_since),
        BatchWrite::Resolve {
            owner,
            winners,
            resolution,
        } => log::resolve(owner, winners, resolution),
        BatchWrite::Reported { owner } => log::report(owner),
        BatchWrite::Witness {
            witnessed,
            chunks,
            witnesses,
        } => witness(witnessed, chunks, *witnesses),
        BatchWrite::Lease {
            lease,
            at,
            operator,
        } => take_lease(batch, lease, *at, *operator),
        BatchWrite::Freeze { owner, index, part } => freeze(owner, *index, part),
        BatchWrite::AcceptSink { owner, index, sink } => accept_sink(owner, *index, sink),
        BatchWrite::Number {
            owner,
            index,
            number,
        } => set_file_number(owner, *index, *number),
        BatchWrite::Delivered {
            owner,
            index,
            receipt,
            at,
            rejects,
            delivered,
        } => {
            let update = mark_delivered(owner, *index, receipt, *at, delivered.as_ref());
            match rejects {
                None => update,
                Some(rejects) => with_rejects(update, *index, rejects),
            }
        }
        BatchWrite::SetAside {
            owner,
            part,
            set_aside,
            set_asides,
        } => set_aside_update(owner, *part, set_aside, *set_asides),
        BatchWrite::TicketResent { was_due_at, due_at } => ticket_resent(*was_due_at, *due_at),
        BatchWrite::GiveUp {
            owner,
            due_at,
            verify_at,
            turn_at,
            failure,
        } => give_up(owner, *due_at, *verify_at, *turn_at, failure.as_ref()),
        BatchWrite::Fail {
            owner,
            error,
            notice,
        } => fail(batch, owner, error, notice.as_ref()),
        BatchWrite::Complete {
            owner,
            counts_version,
            witnesses,
            parts,
            at,
            expires_at,
            notice,
        } => {
            let seen = (*counts_version, *witnesses, *parts);
            complete(batch, owner, seen, (*at, *expires_at), notice.as_ref())
        }
        BatchWrite::NoticesSent {
            status,
            count,
            last,
            due_at,
        } => notices_sent(*status, *count, *last, *due_at),
        BatchWrite::Note {
            status,
            attempts,
            notes_count,
            notes,
        } => note(*status, *attempts, *notes_count, notes),
    }
}

/// Writes counts under `condition`. `also` goes into the same `SET`.
fn counted(condition: String, also: &str, counts: &BatchCounts) -> Update {
    let set =
        format!("SET #confirmed = :confirmed, #uncertain = :uncertain, #accounts = :version{also}");
    let values = [
        (":confirmed", n(counts.confirmed)),
        (":uncertain", n(counts.uncertain)),
        (":version", n(counts.version)),
    ];
    let (expression, sets) = with_sets(set, &[("settled", &counts.settled)]);
    let mut update = Update::new(condition, expression, values);
    update.values.extend(sets);
    update
}

fn counts_update(counts: &BatchCounts) -> Update {
    counted(format!("{NOT_COMPLETE} AND {LATER_COUNTS}"), "", counts)
}

/// Writes counts and the seal, if the batch is open and its counts are of an earlier version. Keeps the `dueAt` of the record if no
/// new one is given.
fn seal(batch: BatchId, counts: &BatchCounts, at: Timestamp, due_at: Option<Timestamp>) -> Update {
    let condition = format!("#status = :open AND {LATER_COUNTS}");
    let mut set = ", #status = :sealed, #statusShard = :shard, #sealedAt = :at".to_owned();
    set += due_at.map_or("", |_| ", #dueAt = :dueAt");
    let mut update = counted(condition, &set, counts);
    if let Some(due_at) = due_at {
        update = update.with(":dueAt", ms(due_at));
    }
    update
        .with(":open", s(Status::Open.as_str()))
        .with(":sealed", s(Status::Sealed.as_str()))
        .with(":shard", status_shard(Status::Sealed, batch))
        .with(":at", ms(at))
}

/// Sets the witnessed seats, if the batch is not complete and got no witness since it was read.
fn witness(witnessed: &SeqSet, chunks: &SeqSet, witnesses: u64) -> Update {
    let condition = format!("{NOT_COMPLETE} AND #witnesses = :witnesses");
    let values = [
        (":witnessed", b(witnessed.to_bytes())),
        (":witnesses", n(witnesses)),
        (":one", n(1)),
    ];
    let set = "SET #witnessed = :witnessed".to_owned();
    let (expression, sets) = with_sets(set, &[("witnessedChunks", chunks)]);
    let expression = format!("{expression} ADD #witnesses :one");
    let mut update = Update::new(condition, expression, values);
    update.values.extend(sets);
    update
}

/// Takes the lease of a batch that is free, or with an operator's decision, of a batch in error, and removes its error.
/// To set the batch aside or to accept another sink, the batch must be in error. When it is set aside, its error is
/// kept as the reason.
fn take_lease(
    batch: BatchId,
    lease: &Lease,
    at: Timestamp,
    operator: Option<OperatorDecision>,
) -> Update {
    // A batch that is not in error is not set aside.
    let must_be_in_error = matches!(
        operator,
        Some(OperatorDecision::Quarantine | OperatorDecision::AcceptSink)
    );
    let condition = match operator {
        Some(OperatorDecision::Quarantine | OperatorDecision::AcceptSink) => {
            "#status = :error".to_owned()
        }
        Some(OperatorDecision::Retry) => format!("{FREE} OR #status = :error"),
        None => FREE.to_owned(),
    };
    let quarantine = match operator {
        Some(OperatorDecision::Quarantine) => {
            ", #quarantine = if_not_exists(#quarantine, if_not_exists(#error, :noError))"
        }
        Some(OperatorDecision::Retry | OperatorDecision::AcceptSink) | None => "",
    };
    let set = format!(
        "SET #status = :processing, #statusShard = :shard, #lockedBy = :owner, #lockedUntil = :until, \
         #dueAt = :dueAt{quarantine} REMOVE #error ADD #attempts :one"
    );
    let mut update = Update::new(
        condition,
        set,
        [
            (":shard", status_shard(Status::Processing, batch)),
            (":processing", s(Status::Processing.as_str())),
            (":owner", s(lease.owner.as_str())),
            (":until", ms(lease.until)),
            (":dueAt", ms(lease.until + DUE_GRACE)),
            (":one", n(1)),
        ],
    );
    if !must_be_in_error {
        // A lease counts as ended only after the clock skew has passed.
        let free = i128::from(at.as_ms()) - CLOCK_SKEW_MAX.as_millis() as i128;
        update = update
            .with(":sealed", s(Status::Sealed.as_str()))
            .with(":open", s(Status::Open.as_str()))
            .with(":at", ms(at))
            .with(":free", n(free));
    }
    if operator.is_some() {
        update = update.with(":error", s(Status::Error.as_str()));
    }
    if !quarantine.is_empty() {
        update = update.with(":noError", s(NO_ERROR));
    }
    update
}

/// Appends part `index`, by the holder of the lease, if there are exactly `index` parts.
fn freeze(owner: &LeaseOwner, index: usize, part: &PartRecord) -> Update {
    let expression =
        "SET #parts = list_append(if_not_exists(#parts, :none), :part) REMOVE #verifyAt";
    let values = [
        (":owner", s(owner.as_str())),
        (":none", AttributeValue::L(Vec::new())),
        (":part", AttributeValue::L(vec![part_value(part)])),
    ];
    with_parts(LEASED.to_owned(), index, expression, values)
}

/// Permits a write to part `index` by the holder of the lease, while the part is frozen.
fn frozen(index: usize) -> String {
    format!("{LEASED} AND #parts[{index}].#state = :frozen")
}

/// Writes another sink fingerprint for part `index`, by the holder of the lease, while the part is frozen.
fn accept_sink(owner: &LeaseOwner, index: usize, sink: &str) -> Update {
    Update::new(
        frozen(index),
        format!("SET #parts[{index}].#sink = :sink"),
        [
            (":owner", s(owner.as_str())),
            (":frozen", s(FROZEN)),
            (":sink", s(sink)),
        ],
    )
}

/// Writes the number of part `index`, by the holder of the lease, while the part is frozen and has none.
fn set_file_number(owner: &LeaseOwner, index: usize, number: u64) -> Update {
    let without = format!("attribute_not_exists(#parts[{index}].#sequence)");
    Update::new(
        format!("{} AND {without}", frozen(index)),
        format!("SET #parts[{index}].#sequence = :number"),
        [
            (":owner", s(owner.as_str())),
            (":frozen", s(FROZEN)),
            (":number", n(number)),
        ],
    )
}

/// Attributes that are removed when the next part is delivered.
const ENDED_WITH_PART: &str = "#turnAt, #lastFailure, #lastFailureAt";

/// Marks part `index` as delivered, by the holder of the lease, while it is frozen. With `delivered`, the members of
/// the part move into that set.
fn mark_delivered(
    owner: &LeaseOwner,
    index: usize,
    receipt: &str,
    at: Timestamp,
    delivered: Option<&SeqSet>,
) -> Update {
    let set = format!(
        "SET #parts[{index}].#state = :delivered, #parts[{index}].#receipt = :receipt, \
             #parts[{index}].#deliveredAt = :at"
    );
    let values = [
        (":at", ms(at)),
        (":owner", s(owner.as_str())),
        (":frozen", s(FROZEN)),
        (":delivered", s(DELIVERED)),
        (":receipt", s(receipt)),
    ];
    match delivered {
        None => Update::new(
            frozen(index),
            format!("{set} REMOVE {ENDED_WITH_PART}, #parts[{index}].#sink"),
            values,
        ),
        Some(all) => Update::new(
            frozen(index),
            format!(
                "{set}, #delivered = :all REMOVE {ENDED_WITH_PART}, #parts[{index}].#sink, #parts[{index}].#members"
            ),
            values,
        )
        .with(":all", b(all.to_bytes())),
    }
}

/// Adds the rejected records of part `index` to the update that marks it as delivered, if nothing was set aside since the record was
/// read.
fn with_rejects(delivered: Update, index: usize, rejects: &Rejects) -> Update {
    let set = format!("SET #parts[{index}].#rejected = :rejected, #setAside = :setAside, ");
    let condition = delivered.condition + " AND " + same_set_asides(rejects.set_asides);
    let expression = delivered.expression.replacen("SET ", &set, 1) + " ADD #setAsides :one";
    let values = [
        (":rejected", n(rejects.count)),
        (":setAside", b(rejects.set_aside.to_bytes())),
        (":one", n(1)),
    ];
    let mut update = Update::new(condition, expression, values);
    update.values.extend(delivered.values);
    match rejects.set_asides {
        0 => update,
        count => update.with(":setAsides", n(count)),
    }
}

/// Permits a write if nothing was set aside since the record was read. With another number than 0, it needs `:setAsides`.
fn same_set_asides(set_asides: u64) -> &'static str {
    match set_asides {
        // The attribute is absent until something is set aside.
        0 => "attribute_not_exists(#setAsides)",
        _ => "#setAsides = :setAsides",
    }
}

/// Sets the seats that are set aside, by the holder of the lease, if nothing was set aside since the record was read.
/// If `part` is given, it must be frozen, and is marked as set aside.
fn set_aside_update(
    owner: &LeaseOwner,
    part: Option<usize>,
    set_aside: &SeqSet,
    set_asides: u64,
) -> Update {
    let unchanged = same_set_asides(set_asides);
    let set = "SET #setAside = :all";
    let add = "ADD #setAsides :one";
    let values = [
        (":owner", s(owner.as_str())),
        (":all", b(set_aside.to_bytes())),
        (":one", n(1)),
    ];
    let mut update = match part {
        None => Update::new(
            format!("{LEASED} AND {unchanged}"),
            format!("{set} REMOVE #verifyAt {add}"),
            values,
        ),
        Some(index) => Update::new(
            format!("{} AND {unchanged}", frozen(index)),
            format!(
                "{set}, #parts[{index}].#state = :ended \
                 REMOVE #parts[{index}].#sink, #parts[{index}].#members, #verifyAt {add}"
            ),
            values,
        )
        .with(":frozen", s(FROZEN))
        .with(":ended", s(SET_ASIDE)),
    };
    if set_asides > 0 {
        update = update.with(":setAsides", n(set_asides));
    }
    update
}

/// Moves the due time of a batch that is not complete or has a notice that waits, if no other writer has moved it.
fn ticket_resent(was_due_at: Timestamp, due_at: Timestamp) -> Update {
    Update::new(
        format!("({NOT_COMPLETE} OR attribute_exists(#notices)) AND #dueAt = :was"),
        "SET #dueAt = :dueAt",
        [(":was", ms(was_due_at)), (":dueAt", ms(due_at))],
    )
}

/// Gives the lease up, by its holder. Keeps the `verifyAt` and the failure of the record if no new ones are given.
fn give_up(
    owner: &LeaseOwner,
    due_at: Timestamp,
    verify_at: Option<Timestamp>,
    turn_at: Option<Timestamp>,
    failure: Option<&Failure>,
) -> Update {
    let mut set = "SET #dueAt = :dueAt".to_owned();
    set += verify_at.map_or("", |_| ", #verifyAt = :verifyAt");
    set += failure.map_or(
        "",
        |_| ", #lastFailure = :lastFailure, #lastFailureAt = :lastFailureAt",
    );
    let (turn, no_turn) = match turn_at {
        Some(_) => (", #turnAt = :turnAt", ""),
        None => ("", ", #turnAt"),
    };
    set += turn;
    let values = [(":owner", s(owner.as_str())), (":dueAt", ms(due_at))];
    let mut update = Update::new(
        LEASED,
        format!("{set} REMOVE #lockedBy, #lockedUntil{no_turn}"),
        values,
    );
    if let Some(verify_at) = verify_at {
        update = update.with(":verifyAt", ms(verify_at));
    }
    if let Some(turn_at) = turn_at {
        update = update.with(":turnAt", ms(turn_at));
    }
    if let Some(failure) = failure {
        update = update
            .with(":lastFailure", s(&failure.text))
            .with(":lastFailureAt", ms(failure.at));
    }
    update
}

/// Sets the notes, if status, number of leases and number of notes are as they were read.
fn note(status: Option<Status>, attempts: u64, count: u64, notes: &[OperatorNote]) -> Update {
    let same_status = match status {
        Some(_) => "#status = :status",
        // Without a record, `attempts` is absent too, and the condition does not hold.
        None => "attribute_not_exists(#status)",
    };
    // The attribute is absent until there is a note.
    let same_count = match count {
        0 => "attribute_not_exists(#noteCount)",
        _ => "#noteCount = :count",
    };
    let condition = format!("{same_status} AND #attempts = :attempts AND {same_count}");
    let values = [
        (":attempts", n(attempts)),
        (":notes", notes_value(notes)),
        (":next", n(count + 1)),
    ];
    let set = "SET #notes = :notes, #noteCount = :next";
    let mut update = Update::new(condition, set, values);
    if let Some(status) = status {
        update = update.with(":status", s(status.as_str()));
    }
    if count > 0 {
        update = update.with(":count", n(count));
    }
    update
}

mod ends;
mod log;
