//! The writes that end the work on a batch, and their notices.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{Listing, Notice, Status};
use protocol::ids::{BatchId, LeaseOwner};
use protocol::time::Timestamp;

use super::super::attributes::{ms, n, s, ttl};
use super::super::batch_items::{listing_shard, status_shard};
use super::super::notice_items::notices_value;
use super::super::update::{LEASED, Update, with_parts};

/// Adds a notice, and makes the batch due when the notice is.
const ADD_NOTICE: &str =
    ", #notices = list_append(if_not_exists(#notices, :noNotices), :notice), #dueAt = :dueAt";

/// Puts the batch in error and gives the lease up, by the holder of the lease. With a notice, the batch is due when the notice
/// is.
pub(super) fn fail(
    batch: BatchId,
    owner: &LeaseOwner,
    error: &str,
    notice: Option<&Notice>,
) -> Update {
    let set = "SET #status = :status, #statusShard = :shard, #error = :error";
    let values = [
        (":shard", status_shard(Status::Error, batch)),
        (":owner", s(owner.as_str())),
        (":status", s(Status::Error.as_str())),
        (":error", s(error)),
    ];
    let remove = "REMOVE #lockedBy, #lockedUntil";
    match notice {
        None => Update::new(LEASED, format!("{set} {remove}"), values),
        Some(notice) => {
            let update = Update::new(LEASED, format!("{set}{ADD_NOTICE} {remove}"), values);
            with_notice(update, notice)
        }
    }
}

fn with_notice(update: Update, notice: &Notice) -> Update {
    update
        .with(":noNotices", AttributeValue::L(Vec::new()))
        .with(":notice", notices_value(std::slice::from_ref(notice)))
        .with(":dueAt", ms(notice.due_at()))
}

/// Completes the batch, by the holder of the lease, if no counts, no witness and no part were written since it was read. With a
/// notice, the batch stays in `status-index`, in the list of notices. Without one, notices that wait are dropped.
pub(super) fn complete(
    batch: BatchId,
    owner: &LeaseOwner,
    (counts_version, witnesses, parts): (u64, u64, usize),
    (at, expires_at): (Timestamp, Timestamp),
    notice: Option<&Notice>,
) -> Update {
    let unchanged = format!("{LEASED} AND #accounts = :accounts AND #witnesses = :witnesses");
    let set = "SET #completedAt = :at, #expiresAt = :expiresAt";
    let remove = "REMOVE #status, #lockedBy, #lockedUntil";
    let values = [
        (":owner", s(owner.as_str())),
        (":accounts", n(counts_version)),
        (":witnesses", n(witnesses)),
        (":at", ms(at)),
        (":expiresAt", ttl(expires_at)),
    ];
    match notice {
        None => {
            let expression = format!("{set} {remove}, #statusShard, #notices");
            with_parts(unchanged, parts, &expression, values)
        }
        Some(notice) => {
            let expression = format!("{set}{ADD_NOTICE}, #statusShard = :shard {remove}");
            let update = with_parts(unchanged, parts, &expression, values)
                .with(":shard", listing_shard(Listing::Notices, batch));
            with_notice(update, notice)
        }
    }
}

/// Removes the notices, if they and the status are as they were read. Takes a complete batch out of `status-index`, and moves
/// the due time of a batch in error.
pub(super) fn notices_sent(
    status: Option<Status>,
    count: usize,
    last: u64,
    due_at: Timestamp,
) -> Update {
    let same_status = match status {
        Some(_) => "#status = :status",
        // `completedAt`, because the condition must not hold if there is no record.
        None => "attribute_not_exists(#status) AND attribute_exists(#completedAt)",
    };
    // The attribute is absent while there is no notice.
    let condition = match count {
        0 => format!("{same_status} AND attribute_not_exists(#notices)"),
        _ => {
            let index = count - 1;
            format!(
                "{same_status} AND size(#notices) = :count AND #notices[{index}].#number = :last"
            )
        }
    };
    let expression = match status {
        None => "REMOVE #notices, #statusShard",
        Some(Status::Error) => "SET #dueAt = :dueAt REMOVE #notices",
        Some(Status::Open | Status::Sealed | Status::Processing) => "REMOVE #notices",
    };
    let mut update = Update::new(condition, expression, []);
    if let Some(status) = status {
        update = update.with(":status", s(status.as_str()));
    }
    if status == Some(Status::Error) {
        update = update.with(":dueAt", ms(due_at));
    }
    if count > 0 {
        update = update.with(":count", n(count)).with(":last", n(last));
    }
    update
}
