//! The invariants of every state, as named functions. Unit tests, `debug_assert!`s and the simulation call them.
//!
//! Each function returns `Ok(())`, or [`Broken`] with a sentence that says what is wrong.

mod check;
mod reservations;

pub use check::{Broken, Check, hold};

use crate::batch::{BatchRecord, BatchWrite, PartState, Status, lag};
use crate::limits::{LISTING_RECORD_BYTES_MAX, RECORD_BYTES_MAX};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// The invariants that production asserts in builds with debug assertions.
pub const ASSERTED: [&str; 6] = [
    "INV-1 parts_are_disjoint",
    "INV-2 earlier_parts_are_delivered",
    "INV-3 complete_means_whole",
    "INV-4 counts_fit_the_settled_seats",
    "INV-5 complete_means_no_status",
    "INV-19 a_record_fits_its_item",
];

/// INV-1: no seq is in two parts of a batch, and none is in a part and set aside, except the rejected ones of a delivered part, and those
/// that an answer rejected once the batch is complete.
/// Of a frozen part in a batch that is being set aside, some seats may be set aside already.
pub fn parts_are_disjoint(record: &BatchRecord) -> Check {
    let batch = record.batch_id;
    let rejected = record.parts.iter().map(|part| part.rejected);
    let are_rejected = record.completed_at.is_some() || record.rejected().len() <= rejected.sum();
    hold("INV-1 parts_are_disjoint", are_rejected, || {
        format!("batch {batch} set aside delivered events")
    })?;
    let mut seen = record.delivered.union(&record.quarantined());
    for (index, part) in record.parts.iter().enumerate() {
        let is_quarantined = part.state == PartState::Frozen && record.quarantine.is_some();
        let members = match is_quarantined {
            true => part.members.difference(&record.set_aside),
            false => part.members.clone(),
        };
        let is_disjoint = members.is_disjoint(&seen);
        hold("INV-1 parts_are_disjoint", is_disjoint, || {
            format!("part {index} of batch {batch} shares seqs with an earlier part")
        })?;
        seen.extend_from(&part.members);
    }
    Ok(())
}

/// INV-2: only the last part may be frozen and not delivered.
pub fn earlier_parts_are_delivered(record: &BatchRecord) -> Check {
    let earlier = record.parts.len().saturating_sub(1);
    let open = record.parts[..earlier]
        .iter()
        .position(|part| part.state == PartState::Frozen);
    hold("INV-2 earlier_parts_are_delivered", open.is_none(), || {
        format!("part {open:?} of batch {} is still frozen", record.batch_id)
    })
}

/// INV-3: a complete batch has delivered or set aside every claim that was counted or witnessed.
pub fn complete_means_whole(record: &BatchRecord) -> Check {
    if record.completed_at.is_none() {
        return Ok(());
    }
    let missing = lag(record, &SeqSet::new());
    let frozen = record.frozen_part().map(|(index, _)| index);
    let is_whole = missing.is_none() && frozen.is_none();
    hold("INV-3 complete_means_whole", is_whole, || {
        let batch = record.batch_id;
        format!("batch {batch} is complete with {missing:?} missing and part {frozen:?} frozen")
    })
}

/// INV-4: no more claims are counted than seats are settled.
pub fn counts_fit_the_settled_seats(record: &BatchRecord) -> Check {
    let (confirmed, settled) = (record.confirmed, record.counted().len());
    let fits = confirmed <= settled;
    hold("INV-4 counts_fit_the_settled_seats", fits, || {
        let batch = record.batch_id;
        format!("batch {batch}: {confirmed} confirmed, {settled} settled")
    })
}

/// INV-5: a batch has a status until it is complete, and none after.
pub fn complete_means_no_status(record: &BatchRecord) -> Check {
    let (status, completed_at) = (record.status, record.completed_at);
    let agree = status.is_none() == completed_at.is_some();
    hold("INV-5 complete_means_no_status", agree, || {
        let batch = record.batch_id;
        format!("batch {batch}: status {status:?}, completed at {completed_at:?}")
    })
}

/// INV-19: a record never exceeds [`RECORD_BYTES_MAX`], or [`LISTING_RECORD_BYTES_MAX`] if it is of the log, so that every
/// write of it fits its item.
pub fn a_record_fits_its_item(record: &BatchRecord) -> Check {
    let bytes = record.bytes();
    let bytes_max = match record.bodies.is_log() {
        true => LISTING_RECORD_BYTES_MAX,
        false => RECORD_BYTES_MAX,
    };
    hold("INV-19 a_record_fits_its_item", bytes <= bytes_max, || {
        format!("batch {} comes to {bytes} bytes", record.batch_id)
    })
}

/// Checks INV-1 to INV-5 and INV-19 of one record.
pub fn record_is_sound(record: &BatchRecord) -> Check {
    a_record_fits_its_item(record)?;
    parts_are_disjoint(record)?;
    earlier_parts_are_delivered(record)?;
    complete_means_whole(record)?;
    counts_fit_the_settled_seats(record)?;
    complete_means_no_status(record)
}

/// INV-8: the members, count, hash, number and link of a frozen part never change, and a part that is delivered or set aside stays
/// so.
pub fn parts_never_change(before: &BatchRecord, after: &BatchRecord) -> Check {
    let members = after.members();
    let changed = before.parts.iter().enumerate().find(|(index, was)| {
        after.parts.get(*index).is_none_or(|is| {
            // When a part is delivered or set aside, its members may move into the set that all parts share.
            let moved = is.members.is_empty()
                && is.state != PartState::Frozen
                && was.members.is_subset(&members);
            (is.members != was.members && !moved)
                || is.count != was.count
                || is.hash != was.hash
                || was.file_number.is_some() && is.file_number != was.file_number
                // A link comes with the number or not at all.
                || was.file_number.is_some() && is.link != was.link
                || (was.state != PartState::Frozen && is.state != was.state)
        })
    });
    hold("INV-8 parts_never_change", changed.is_none(), || {
        let index = changed.map(|(index, _)| index);
        format!("part {index:?} of batch {}", before.batch_id)
    })
}

/// INV-9: a processor takes the lease of another only after that one gave it up or its lease ended. `now` is the
/// earliest time that any clock shows.
pub fn a_lease_is_taken_only_when_free(
    before: &BatchRecord,
    write: &BatchWrite,
    now: Timestamp,
) -> Check {
    let BatchWrite::Lease { lease, .. } = write else {
        return Ok(());
    };
    let held = before
        .lease
        .as_ref()
        .filter(|held| before.status == Some(Status::Processing) && held.owner != lease.owner);
    let is_free = held.is_none_or(|held| held.until <= now);
    hold("INV-9 a_lease_is_taken_only_when_free", is_free, || {
        let (taker, batch) = (&lease.owner, before.batch_id);
        format!("{taker} takes batch {batch} at {now} from {held:?}")
    })
}

/// INV-10: only the holder of the lease makes the writes that need it, such as parts, failure and completion.
pub fn only_the_holder_writes(before: &BatchRecord, write: &BatchWrite) -> Check {
    // Not `BatchWrite::owner`: `apply` asks that which writes need the lease, and this checks `apply`.
    let owner = match write {
        BatchWrite::Count { owner, .. }
        | BatchWrite::Resolve { owner, .. }
        | BatchWrite::Reported { owner }
        | BatchWrite::Freeze { owner, .. }
        | BatchWrite::AcceptSink { owner, .. }
        | BatchWrite::Number { owner, .. }
        | BatchWrite::Delivered { owner, .. }
        | BatchWrite::SetAside { owner, .. }
        | BatchWrite::GiveUp { owner, .. }
        | BatchWrite::Fail { owner, .. }
        | BatchWrite::Complete { owner, .. } => owner,
        BatchWrite::Reserve(_)
        | BatchWrite::Seal { .. }
        | BatchWrite::Witness { .. }
        | BatchWrite::Lease { .. }
        | BatchWrite::TicketResent { .. }
        | BatchWrite::NoticesSent { .. }
        | BatchWrite::Answered { .. }
        | BatchWrite::Note { .. } => return Ok(()),
    };
    let holder = before.lease.as_ref().map(|lease| &lease.owner);
    let holds = holder == Some(owner);
    hold("INV-10 only_the_holder_writes", holds, || {
        let batch = before.batch_id;
        format!("{owner} writes batch {batch} held by {holder:?}")
    })
}

/// INV-11: a batch completes only when it is proven, or after a second look at or after `verify_at`. `now` is the
/// latest time that any clock shows.
pub fn completion_is_proven_or_verified(
    before: &BatchRecord,
    after: &BatchRecord,
    now: Timestamp,
) -> Check {
    if before.status.is_none() || after.status.is_some() {
        return Ok(());
    }
    let is_counted = before.bodies.is_log() || (before.has_final_counts() && before.uncertain == 0);
    let proven = before.is_reported() && is_counted && lag(before, &SeqSet::new()).is_none();
    let may_end = proven || before.verify_at.is_some_and(|at| at <= now);
    hold("INV-11 completion_is_proven_or_verified", may_end, || {
        format!(
            "batch {} completed at {now}, counts final: {}, {} uncertain, verify at {:?}",
            before.batch_id,
            before.has_final_counts(),
            before.uncertain,
            before.verify_at
        )
    })
}

/// INV-12: the sets of counted, witnessed, delivered and set-aside seats only grow.
pub fn counts_never_go_back(before: &BatchRecord, after: &BatchRecord) -> Check {
    let grows = before.counts_version <= after.counts_version
        && before.witnesses <= after.witnesses
        && before.confirmed <= after.confirmed
        && before.settled.is_subset(&after.settled)
        && before.claimed.is_subset(&after.claimed)
        && before.witnessed.is_subset(&after.witnessed)
        && before.set_asides <= after.set_asides
        && before.members().is_subset(&after.members());
    hold("INV-12 counts_never_go_back", grows, || {
        format!("batch {}: {before:?} became {after:?}", before.batch_id)
    })
}

/// INV-18: the processor that completes a batch has read every count, every witness and every part of it.
pub fn completion_saw_everything(before: &BatchRecord, write: &BatchWrite) -> Check {
    let BatchWrite::Complete {
        counts_version,
        witnesses,
        parts,
        ..
    } = write
    else {
        return Ok(());
    };
    let seen = (*counts_version, *witnesses, *parts);
    let stands = (before.counts_version, before.witnesses, before.parts.len());
    let saw_all = before.status.is_none() || seen == stands;
    hold("INV-18 completion_saw_everything", saw_all, || {
        format!(
            "batch {}: counts_version, witnesses and parts are {stands:?}, seen were {seen:?}",
            before.batch_id
        )
    })
}

/// Checks INV-1 to INV-5 and INV-19 of the record, and INV-8 to INV-12, INV-18, INV-29, INV-34, INV-35 and INV-40 of the step. `earliest` and `latest`
/// are the lowest and highest time that any clock showed when the write was applied.
pub fn step_is_sound(
    before: &BatchRecord,
    write: &BatchWrite,
    after: &BatchRecord,
    earliest: Timestamp,
    latest: Timestamp,
) -> Check {
    parts_never_change(before, after)?;
    a_lease_is_taken_only_when_free(before, write, earliest)?;
    only_the_holder_writes(before, write)?;
    completion_is_proven_or_verified(before, after, latest)?;
    counts_never_go_back(before, after)?;
    completion_saw_everything(before, write)?;
    notices_stay_until_they_are_sent(before, write, after)?;
    reservations::step_is_sound(before, write, after)?;
    an_answer_is_about_delivered_events(before, write)?;
    record_is_sound(after)
}

/// INV-40: what an answer sets aside was delivered by its batch, which is complete, and what was set aside before stays so.
pub fn an_answer_is_about_delivered_events(before: &BatchRecord, write: &BatchWrite) -> Check {
    let BatchWrite::Answered { set_aside, .. } = write else {
        return Ok(());
    };
    let was = &before.set_aside;
    let all = before.members().difference(&before.quarantined());
    let holds = before.status.is_none()
        && was.is_subset(set_aside)
        && set_aside.difference(was).is_subset(&all);
    hold("INV-40 an_answer_is_about_delivered_events", holds, || {
        format!("batch {}: {was:?} became {set_aside:?}", before.batch_id)
    })
}

/// INV-29: a notice leaves the record only because it was sent, or because the batch is completed without notices. A notice that
/// is added comes last.
pub fn notices_stay_until_they_are_sent(
    before: &BatchRecord,
    write: &BatchWrite,
    after: &BatchRecord,
) -> Check {
    let may_remove = matches!(
        write,
        BatchWrite::NoticesSent { .. } | BatchWrite::Complete { notice: None, .. }
    );
    let (batch, was, is) = (before.batch_id, &before.notices, &after.notices);
    let stay = may_remove || is.starts_with(was);
    hold("INV-29 notices_stay_until_they_are_sent", stay, || {
        format!("batch {batch}: notices {was:?} became {is:?}")
    })
}
