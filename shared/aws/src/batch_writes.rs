//! Every [`BatchWrite`] as an update expression with its condition. It has the same effect as
//! [`apply`](protocol::batch::apply); the contract tests compare the two.

use protocol::batch::{
    BatchWrite, Lease, Listing, NO_ERROR, Notice, OperatorDecision, OperatorNote, Rejects,
    Reservation, Resolution, Status,
};
use protocol::chain::Link;
use protocol::format_version::FORMAT_VERSION;
use protocol::ids::{BatchId, LeaseOwner};
use protocol::limits::{CLOCK_SKEW_MAX, DUE_GRACE, SLOTS_MAX};
use protocol::seqs::SeqSet;
use protocol::slot::ClaimCounts;
use protocol::time::Timestamp;

use crate::attributes::{b, list, ms, n, s, seqs_value, ttl};
use crate::batch_items::{listing_shard, note_value};
use crate::notice_items::notice_value;
use crate::part_items::{
    DELIVERED, FROZEN, LINK_AFTER, LINK_PREVIOUS, LINK_TAKEN_AT, SET_ASIDE, part_value,
};
use crate::reservation_items::{REPORTED, state};
use crate::update::Update;

/// Permits a write to a batch that is not complete. Like every condition here, it does not hold if there is no record.
const NOT_COMPLETE: &str = "attribute_exists(#status)";
/// Permits a write to a batch that is complete. `completedAt`, because the condition must not hold if there is no record.
const COMPLETE: &str = "attribute_not_exists(#status) AND attribute_exists(#completedAt)";
/// Permits a write to a batch of claims.
const HAS_CLAIMS: &str = "attribute_not_exists(#bodies)";
/// Permits a write to a batch of the log.
const IS_LOG: &str = "attribute_exists(#bodies)";
/// Permits a write to a batch of which it is not known yet what became of its seats.
const UNRESOLVED: &str = "attribute_exists(#slots) AND attribute_not_exists(#resolution)";

/// Permits taking the lease of a sealed batch, of an open batch whose window has ended, and of a batch in processing
/// whose lease was given up or ended longer ago than the clock skew.
const FREE: &str = "#status = :sealed \
     OR (#status = :open AND #closesAt <= :at) \
     OR (#status = :processing AND (attribute_not_exists(#lockedBy) OR #lockedUntil <= :free))";
/// The attributes of the lease.
const LEASE: &str = "#lockedBy, #lockedUntil";

/// Permits a write to a record that this code can read. The lease and a resent ticket are written before anything is read.
const READABLE: &str = "attribute_not_exists(#formatVersion) OR #formatVersion <= :formatVersion";

/// Returns the update for `write` to the record of `batch`. It is refused if a later version of the service wrote the record.
pub(crate) fn update(batch: BatchId, write: &BatchWrite) -> Update {
    let mut update = update_of(batch, write);
    update.condition = format!("({READABLE}) AND ({})", update.condition);
    let update = update.with(":formatVersion", n(FORMAT_VERSION));
    debug_assert!(update.has_its_values(), "{update:?}");
    update
}

fn update_of(batch: BatchId, write: &BatchWrite) -> Update {
    match write {
        BatchWrite::Reserve(wanted) => reserve(wanted),
        BatchWrite::Seal {
            at,
            due_at,
            idle_since,
        } => {
            let open = Update::in_status(Status::Open).and("attribute_exists(#slots)");
            sealed(idle(open, *idle_since), batch, *at, *due_at)
        }
        BatchWrite::Count {
            owner,
            counts,
            uncertain,
            witnesses,
        } => count(owner, counts, *uncertain, *witnesses),
        BatchWrite::Resolve {
            owner,
            winners,
            resolution,
        } => resolve(owner, winners, resolution),
        // Notes that the decisions are reported.
        BatchWrite::Reported { owner } => Update::leased(owner)
            .and("attribute_exists(#resolution)")
            .set("#resolution", s(REPORTED)),
        BatchWrite::Witness {
            witnessed,
            witnesses,
        } => witness(witnessed, *witnesses),
        BatchWrite::Lease {
            lease,
            at,
            operator,
        } => take_lease(batch, lease, *at, *operator),
        // Appends part `index`, if there are exactly `index` parts.
        BatchWrite::Freeze { owner, index, part } => with_parts(Update::leased(owner), *index)
            .append("#parts", part_value(part))
            .remove("#verifyAt"),
        // Writes another sink fingerprint, while the part is frozen.
        BatchWrite::AcceptSink { owner, index, sink } => {
            frozen(owner, *index).set(&of_part(*index, "sink"), s(sink))
        }
        BatchWrite::Number {
            owner,
            index,
            number,
            link,
        } => set_file_number(owner, *index, *number, *link),
        BatchWrite::Delivered {
            owner,
            index,
            receipt,
            at,
            rejects,
            delivered,
        } => {
            let update = mark_delivered(owner, *index, receipt, *at, delivered.as_ref());
            with_rejects(update, *index, rejects.as_ref())
        }
        BatchWrite::SetAside {
            owner,
            part,
            set_aside,
            set_asides,
        } => set_part_aside(owner, *part, set_aside, *set_asides),
        BatchWrite::TicketResent { was_due_at, due_at } => ticket_resent(*was_due_at, *due_at),
        // Gives the lease up. Keeps the `verifyAt` and the failure of the record if no new ones are given.
        BatchWrite::GiveUp {
            owner,
            due,
            failure,
        } => Update::leased(owner)
            .set("#dueAt", ms(due.at))
            .set("#verifyAt", due.verify_at.map(ms))
            .set_or_remove("#turnAt", due.turn_at.map(ms))
            .set("#lastFailure", failure.as_ref().map(|last| s(&last.text)))
            .set("#lastFailureAt", failure.as_ref().map(|last| ms(last.at)))
            .remove(LEASE),
        // Puts the batch in error, and gives the lease up.
        BatchWrite::Fail {
            owner,
            error,
            notice,
        } => {
            let update = Update::leased(owner).with_status(Status::Error, batch);
            let update = update.set("#error", s(error)).remove(LEASE);
            with_notice(update, notice.as_ref())
        }
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
        // Adds events that an answer rejected, once the batch is complete.
        BatchWrite::Answered {
            set_aside,
            set_asides,
        } => with_set_aside(Update::under(COMPLETE), set_aside, *set_asides),
        BatchWrite::Note {
            status,
            attempts,
            notes_count,
            notes,
        } => note(*status, *attempts, *notes_count, notes),
    }
}

/// Writes what the slots say of the claims, by the holder of the lease, if that is not written and there is no new witness.
fn count(owner: &LeaseOwner, counts: &ClaimCounts, uncertain: u64, witnesses: u64) -> Update {
    Update::leased(owner)
        .and(HAS_CLAIMS)
        .and(UNRESOLVED)
        .and("#witnesses = :witnesses")
        .with(":witnesses", n(witnesses))
        .set("#resolution", s(REPORTED))
        .set("#confirmed", n(counts.confirmed))
        .set("#uncertain", n(uncertain))
        .set_or_remove("#settled", seqs_value(&counts.settled))
        .set_or_remove("#witnessed", seqs_value(&counts.witnessed))
        .add("#witnesses", 1)
}

/// Seals the batch. Keeps the `dueAt` of the record if no new one is given.
fn sealed(update: Update, batch: BatchId, at: Timestamp, due_at: Option<Timestamp>) -> Update {
    update
        .with_status(Status::Sealed, batch)
        .set("#sealedAt", ms(at))
        .set("#dueAt", due_at.map(ms))
}

/// Demands that nothing was reserved after `since`, if it is given.
fn idle(update: Update, since: Option<Timestamp>) -> Update {
    match since {
        Some(since) => update.and("#lastAt <= :since").with(":since", ms(since)),
        None => update,
    }
}

/// Reserves seats and a slot, if the batch is open and has room.
fn reserve(wanted: &Reservation) -> Update {
    // A room below 0 refuses every batch.
    let room = |max: u64, wanted: u64| n(i128::from(max) - i128::from(wanted));
    let bytes_room = match wanted.is_oversized() {
        true => n(u64::MAX),
        false => room(wanted.limits.bytes_max, wanted.bytes),
    };
    Update::in_status(Status::Open)
        .and("#reserved <= :seatsRoom AND #reservedBytes <= :bytesRoom AND #slots < :slotsMax")
        .with(":seatsRoom", room(wanted.limits.items_max, wanted.seats))
        .with(":bytesRoom", bytes_room)
        .with(":slotsMax", n(SLOTS_MAX))
        .set("#lastAt", ms(wanted.at))
        .set("#busyUntil", ms(wanted.until))
        .add("#reserved", wanted.seats)
        .add("#reservedBytes", wanted.bytes)
        .add("#slots", 1)
}

/// Writes the decisions about a batch of the log, by the holder of the lease, if there are none.
fn resolve(owner: &LeaseOwner, winners: &SeqSet, resolution: &Resolution) -> Update {
    Update::leased(owner)
        .and(IS_LOG)
        .and(UNRESOLVED)
        .set("#resolution", state(resolution))
        .set("#confirmed", n(winners.len()))
        .set_or_remove("#claimed", seqs_value(winners))
        .set_or_remove("#duplicates", seqs_value(&resolution.duplicates))
        .set_or_remove("#conflicts", seqs_value(&resolution.conflicts))
        .set_or_remove("#beyondQuota", seqs_value(&resolution.beyond_quota))
}

/// Sets the witnessed seats, if the batch is not complete and got no witness since it was read.
fn witness(witnessed: &SeqSet, witnesses: u64) -> Update {
    Update::under(NOT_COMPLETE)
        .and("#witnesses = :witnesses")
        .with(":witnesses", n(witnesses))
        .set("#witnessed", b(witnessed.to_bytes()))
        .add("#witnesses", 1)
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
    // A lease counts as ended only after the clock skew has passed.
    let ended = i128::from(at.as_ms()) - CLOCK_SKEW_MAX.as_millis() as i128;
    let free = |condition: String| {
        Update::under(condition)
            .with(":sealed", s(Status::Sealed.as_str()))
            .with(":open", s(Status::Open.as_str()))
            .with(":processing", s(Status::Processing.as_str()))
            .with(":at", ms(at))
            .with(":free", n(ended))
    };
    let in_error = s(Status::Error.as_str());
    let update = match operator {
        None => free(FREE.to_owned()),
        Some(OperatorDecision::Retry) => {
            free(format!("{FREE} OR #status = :error")).with(":error", in_error)
        }
        // A batch that is not in error is not set aside, and keeps its sink.
        Some(OperatorDecision::AcceptSink) => Update::in_status(Status::Error),
        Some(OperatorDecision::Quarantine) => Update::in_status(Status::Error)
            .assign("#quarantine = if_not_exists(#quarantine, if_not_exists(#error, :noError))")
            .with(":noError", s(NO_ERROR)),
    };
    update
        .with_status(Status::Processing, batch)
        .set("#lockedBy", s(lease.owner.as_str()))
        .set("#lockedUntil", ms(lease.until))
        .set("#dueAt", ms(lease.until + DUE_GRACE))
        .remove("#error")
        .add("#attempts", 1)
}

/// Demands exactly `parts` parts.
fn with_parts(update: Update, parts: usize) -> Update {
    update.and_count("#parts", "size(#parts)", parts as u64)
}

/// Returns the path of an attribute of part `index`.
fn of_part(index: usize, name: &str) -> String {
    format!("#parts[{index}].#{name}")
}

/// Returns an update by the holder of the lease, while part `index` is frozen.
fn frozen(owner: &LeaseOwner, index: usize) -> Update {
    Update::leased(owner)
        .and(&format!("{} = :frozen", of_part(index, "state")))
        .with(":frozen", s(FROZEN))
}

/// Writes the number and the link of part `index`, by the holder of the lease, while the part is frozen and has no number.
fn set_file_number(owner: &LeaseOwner, index: usize, number: u64, link: Option<Link>) -> Update {
    let path = of_part(index, "sequence");
    let update = frozen(owner, index)
        .and(&format!("attribute_not_exists({path})"))
        .set(&path, n(number));
    match link {
        None => update,
        Some(link) => update
            .set(&of_part(index, LINK_TAKEN_AT), ms(link.taken_at))
            .set(&of_part(index, LINK_AFTER), n(link.after))
            .set(
                &of_part(index, LINK_PREVIOUS),
                b(link.previous.as_bytes().to_vec()),
            ),
    }
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
    let update = frozen(owner, index)
        .set(&of_part(index, "state"), s(DELIVERED))
        .set(&of_part(index, "receipt"), s(receipt))
        .set(&of_part(index, "deliveredAt"), ms(at))
        .remove(ENDED_WITH_PART)
        .remove(&of_part(index, "sink"));
    match delivered {
        None => update,
        Some(all) => update
            .set("#delivered", b(all.to_bytes()))
            .remove(&of_part(index, "members")),
    }
}

/// Adds the rejected records of part `index`, if there are any, to the update that marks it as delivered. They are set aside.
fn with_rejects(delivered: Update, index: usize, rejects: Option<&Rejects>) -> Update {
    match rejects {
        None => delivered,
        Some(rejects) => with_set_aside(delivered, &rejects.set_aside, rejects.set_asides)
            .set(&of_part(index, "rejected"), n(rejects.count)),
    }
}

/// Sets all seats that are set aside, if nothing was set aside since the record was read, when its `setAsides` was
/// `set_asides`. The attribute is absent until something is set aside.
fn with_set_aside(update: Update, all: &SeqSet, set_asides: u64) -> Update {
    update
        .and_count("#setAsides", "#setAsides", set_asides)
        .set("#setAside", b(all.to_bytes()))
        .add("#setAsides", 1)
}

/// Sets the seats that are set aside, by the holder of the lease, if nothing was set aside since the record was read.
/// If `part` is given, it must be frozen, and is marked as set aside.
fn set_part_aside(
    owner: &LeaseOwner,
    part: Option<usize>,
    all: &SeqSet,
    set_asides: u64,
) -> Update {
    let update = match part {
        None => Update::leased(owner),
        Some(index) => frozen(owner, index)
            .set(&of_part(index, "state"), s(SET_ASIDE))
            .remove(&of_part(index, "sink"))
            .remove(&of_part(index, "members")),
    };
    with_set_aside(update, all, set_asides).remove("#verifyAt")
}

/// Moves the due time of a batch that is not complete or has a notice that waits, if no other writer has moved it.
fn ticket_resent(was_due_at: Timestamp, due_at: Timestamp) -> Update {
    Update::under(format!("({NOT_COMPLETE} OR attribute_exists(#notices))"))
        .and("#dueAt = :wasDueAt")
        .with(":wasDueAt", ms(was_due_at))
        .set("#dueAt", ms(due_at))
}

/// Adds a notice, if there is one, and makes the batch due when the notice is.
fn with_notice(update: Update, notice: Option<&Notice>) -> Update {
    match notice {
        None => update,
        Some(notice) => update
            .append("#notices", notice_value(notice))
            .set("#dueAt", ms(notice.due_at())),
    }
}

/// Completes the batch, by the holder of the lease, if no counts, no witness and no part were written since it was read. With a
/// notice, the batch stays in `status-index`, in the list of notices. Without one, notices that wait are dropped.
fn complete(
    batch: BatchId,
    owner: &LeaseOwner,
    (counts_version, witnesses, parts): (u64, u64, usize),
    (at, expires_at): (Timestamp, Timestamp),
    notice: Option<&Notice>,
) -> Update {
    let update = Update::leased(owner)
        .and("#accounts = :accounts AND #witnesses = :witnesses")
        .with(":accounts", n(counts_version))
        .with(":witnesses", n(witnesses))
        .set("#completedAt", ms(at))
        .set("#expiresAt", ttl(expires_at))
        .remove("#status")
        .remove(LEASE);
    let update = with_parts(update, parts);
    match notice {
        None => update.remove("#statusShard, #notices"),
        Some(_) => {
            let shard = listing_shard(Listing::Notices, batch);
            with_notice(update.set("#statusShard", shard), notice)
        }
    }
}

/// Removes the notices, if they and the status are as they were read. Takes a complete batch out of `status-index`, and moves
/// the due time of a batch in error.
fn notices_sent(status: Option<Status>, count: usize, last: u64, due_at: Timestamp) -> Update {
    let update = match status {
        None => Update::under(COMPLETE).remove("#statusShard"),
        Some(Status::Error) => Update::in_status(Status::Error).set("#dueAt", ms(due_at)),
        Some(status @ (Status::Open | Status::Sealed | Status::Processing)) => {
            Update::in_status(status)
        }
    };
    let update = match count {
        0 => update,
        _ => update
            .and(&format!("#notices[{}].#number = :last", count - 1))
            .with(":last", n(last)),
    };
    update
        .and_count("#notices", "size(#notices)", count as u64)
        .remove("#notices")
}

/// Sets the notes, if status, number of leases and number of notes are as they were read.
fn note(status: Option<Status>, attempts: u64, count: u64, notes: &[OperatorNote]) -> Update {
    let update = match status {
        Some(status) => Update::in_status(status),
        // Without a record, `attempts` is absent too, and the condition does not hold.
        None => Update::under("attribute_not_exists(#status)"),
    };
    update
        .and("#attempts = :attempts")
        .with(":attempts", n(attempts))
        .and_count("#noteCount", "#noteCount", count)
        .set_or_remove("#notes", list(notes, note_value))
        .set("#noteCount", n(count + 1))
}
