//! Bugs that the simulation switches on to show that it catches them.
//!
//! What is deployed is built without debug assertions. There [`planted`] is `false` at compile time, and every bug is compiled
//! away. With debug assertions, a thread switches on at most one bug.

use std::cell::Cell;

/// A mistake that a change of this code could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A batch gives out seats before its ticket is acknowledged.
    CacheBeforeTicket,
    /// The ticket is sent after the first claims, with the seal.
    TicketAfterFirstClaim,
    /// A release is not conditional on the seat.
    UnconditionalRelease,
    /// An entry of the index is delivered although the item in the table no longer has this seat.
    IndexBelieved,
    /// Seats that met a duplicate are counted as claims.
    AttemptsCountedAsClaims,
    /// A sealed batch is delivered although counted claims are missing.
    SealedDeliveredShort,
    /// One empty look completes a batch that is not proven.
    CompletionWithoutVerify,
    /// A batch completes although counts or witnesses were written since its record was read.
    CompletionUnconditional,
    /// A message whose outcome is unknown is acknowledged.
    FailedAcknowledged,
    /// With `requeue`, a redelivery is taken for a duplicate.
    RedeliveryTakenForDuplicate,
    /// Live claims carry the TTL of tombstones.
    TtlOnLiveClaim,
    /// A lease is taken while another processor holds it.
    LeaseTakenWhileHeld,
    /// Writes to a batch record do not need the lease.
    WritesWithoutLease,
    /// A frozen part is frozen anew at the next attempt.
    PartRefrozen,
    /// A part is marked as delivered before the sink replied.
    DeliveredBeforeAnswer,
    /// Claims are released before the sink has their events.
    ReleasedBeforeDelivery,
    /// An invocation ignores its deadline.
    DeadlineIgnored,
    /// A message is acknowledged although it could not be sent to the quarantine.
    QuarantineNotAwaited,
    /// A message that cannot be read is acknowledged without being sent to the quarantine.
    BadMessageDropped,
    /// A claim that replaces a tombstone loses the past deliveries.
    PastForgotten,
    /// A message relies on a live claim whose batch is complete.
    OrphanTakenForAlive,
    /// A message relies on a claim that its batch does not know.
    WitnessSkipped,
    /// An attempt without a reply counts as not written.
    UncertainTakenForFree,
    /// Messages are acknowledged before their claims are counted.
    AcknowledgedUncounted,
    /// A tombstone past its window still makes another message a duplicate.
    ExpiredTombstoneBelieved,
    /// Claims of a delivered part that are still live are delivered again.
    LeftoversDeliveredAgain,
    /// A full batch is sealed, but no immediate ticket is sent.
    SealWithoutTicket,
    /// Batches of a drained source are not sealed.
    DrainedUnnoticed,
    /// A claim is written although its body was not stored.
    OverflowLost,
    /// Parts stay small although few parts are left.
    PartsNotGrown,
    /// A frozen part is delivered although the sink's fingerprint changed.
    SinkFingerprintIgnored,
    /// The content hash of a frozen part is not compared.
    ContentHashNotCompared,
    /// A release that was refused counts as released.
    RefusedReleaseCounted,
    /// The oldest past delivery is dropped to make room for the newest.
    OldestPastDropped,
    /// A message relies on a claim whose batch has no record.
    UnknownFateTakenForAlive,
    /// A claim that replaces an orphan loses the past deliveries.
    OrphansPastDropped,
    /// A message relies on a remembered claim of this environment before the claim is counted.
    KnownUncounted,
    /// An invocation takes its claims for counted by another invocation's seal, without reading the record.
    CountedByAnotherUnread,
    /// The counts of a seal that was refused are taken for written.
    RefusedSealCounted,
    /// The body of a claim that may have been written is removed.
    UncertainBodyRemoved,
    /// The dedup window of a leftover begins when its batch was opened.
    LeftoversWindowFromOpening,
    /// The delay of a ticket does not include the clock skew.
    TicketWithoutSkew,
    /// The content hash of a part leaves out the body hashes.
    BodyHashLeftOut,
    /// A claim replaces any existing item.
    ClaimUnconditional,
    /// The aggregator takes its counts for written although the batch is complete.
    CompleteBatchCounted,
    /// A witness write overwrites witnesses that others wrote since the record was read.
    WitnessOverwrites,
    /// Claims that were not counted stand in for counted claims.
    CountsAlone,
    /// Claims are written although their chunk was not stored.
    ClaimBeforeChunk,
    /// A chunk counts as stored although no request for it had a reply.
    UnknownChunkTaken,
    /// The events of a missing chunk are left out.
    MissingChunkSkipped,
    /// A retry builds its chunk anew, from fewer attempts.
    ChunkRebuilt,
    /// The seats of two grants are in one chunk.
    GrantsMerged,
    /// The seats of duplicates are counted as claims of a batch of chunks.
    LosersCounted,
    /// A witness is written into the counted claims.
    WitnessFolded,
    /// A witness does not say which chunk has its body.
    WitnessChunkGuessed,
    /// The record of a batch that is not complete is kept in memory as if it could not change.
    IncompleteRecordKept,
    /// A delivered seat counts as alive while its batch is not complete.
    DeliveredSeatAlive,
    /// A seat that was set aside counts as delivered.
    SetAsideTakenForDelivered,
    /// A seat that was set aside counts as an orphan.
    SetAsideTakenForOrphan,
    /// A chunk claim is judged by the dedup window of the reader.
    ReadersWindow,
    /// The record of a batch expires before its chunk claims.
    RecordForgottenFirst,
    /// A part is frozen with all seqs between its first and its last.
    MembersAsRange,
    /// A chunk claim that replaces a claim with its body keeps the index entry of the replaced claim.
    ReplacementMerges,
    /// A chunk claim is taken for a tombstone.
    ChunkClaimTakenForTombstone,
    /// A batch is delivered however old it is.
    OldBatchDelivered,
    /// An event that was set aside is remembered as if it had been delivered.
    SetAsideRemembered,
    /// The record does not keep the decision to set the batch aside.
    SetAsideForgotten,
    /// A message whose event was set aside is forgotten once another message claims the event.
    SetAsideMessageForgotten,
    /// A rejected event counts as delivered.
    RejectedCountedAsDelivered,
    /// Another body of an event that was rejected is called a conflict.
    CorrectedTakenForConflict,
    /// The sweep finds nothing.
    SweepBlind,
    /// The sweep reads the first page of each list only.
    SweepStopsAfterPage,
    /// Only the first attempt of a batch looks at the pauses.
    PauseOverlooked,
    /// A batch that is paused is not due when the pause ends.
    PausedForEver,
    /// A batch that was put back until the end of a pause stays so when the pause is resumed or shortened.
    LiftedPauseForgotten,
    /// The hours of delivery are not looked at once a part is frozen.
    HoursOverlooked,
    /// An attempt at a delivery begins without another look at the clock after the pause before it.
    ClockNotLookedAtAgain,
    /// A batch that waits for the hours of delivery is not due when they begin.
    NeverOpened,
    /// The notice that a batch is complete is sent before the write that completes it.
    NoticeBeforeCompletion,
    /// Only the invocation that completes a batch, or puts it in error, sends its notice.
    NoticeSentOnlyOnce,
    /// Notices are removed from the record before they were sent.
    NoticesMarkedFirst,
    /// A batch takes a turn however far it is away. Too few histories have so much to deliver, so a test of its own plants it.
    TurnsWithoutEnd,
    /// Another attempt at a part takes another number.
    SequenceTakenAgain,
    /// A part takes the next number whatever became of the part that has the last one.
    SequenceHolderIgnored,
    /// A run does not give up the number of a part that ended in a run which died.
    NumberKept,
    /// A batch has events of several periods.
    PeriodsMixed,
    /// A batch that got no ticket when it was opened gets one only when it is overdue.
    FirstTicketForgotten,
    /// Every sweep before a batch closes sends it a first ticket.
    FirstTicketRepeated,
    /// A sealed batch that never got the ticket of its window is due only when its window ends.
    SealedDueAtWindow,
    /// A claim is made without a place of its quota.
    QuotaUnreserved,
    /// A seat gives its place back although its claim may be made later.
    QuotaUncertainFreed,
    /// An event is beyond its quota although places may still be given back.
    QuotaBeyondUndecided,
    /// A claim whose seat has no reserved place any more takes another place of its quota.
    QuotaCountedTwice,
    /// Places that are reserved are given to other seats.
    QuotaReservedIgnored,
    /// A batch that is complete gives back the places of what it delivered.
    QuotaEndedFreed,
    /// An event that was set aside or rejected loses its place in its quota.
    QuotaPlaceForgotten,
    /// An event whose claim is an orphan keeps a place that was given back with the seat of the claim.
    QuotaPlaceOfOrphan,
    /// A claim that takes a place over keeps the one that was reserved for its seat as well.
    QuotaPlaceHeldTwice,
    /// Message attributes that have no place of their own in a message of the quarantine are dropped.
    MoreAttributesDropped,
    /// A message loses its message group in the quarantine.
    MessageGroupDropped,
    /// A pause of one source holds the batches of all.
    PauseHoldsOthers,
    /// A pause of a source and a key holds nothing.
    PauseOfBothOverlooked,
    /// The time zone of hours and periods is overlooked.
    HoursByUtc,
    /// An hour that the clock shows twice counts when it is shown for the second time.
    HoursShownTwice,
    /// Only the first part of a batch keeps to the rate.
    TurnOnlyOnce,
    /// A part takes as much of the rate as one event.
    TurnOfOneEvent,
    /// The number of a part that was set aside counts as used.
    SetAsideNumberUsed,
    /// A part waits for the number of one that was set aside.
    EndedHolderAwaited,
    /// Notices are removed although one of them could not be sent.
    UnsentNoticesRemoved,
    /// A notice counts rejected events as delivered.
    RejectedToldDelivered,
    /// A batch whose source is drained is sealed although its period goes on.
    PeriodDrained,
    /// A duplicate is dropped without a report if it is not known who claimed its event.
    DuplicateUnreported,
    /// Quotas are those of the batch keys.
    QuotaOfBatchKey,
    /// An event counts in the period in which it is processed, whatever its own time.
    QuotaOfArrival,
    /// A dedup window of more than a day lasts a day.
    LongWindowCut,
    /// The sweep has batches in error set aside at once.
    SetAsideTooEarly,
    /// A part that comes too early for its turn takes another one after all others.
    TurnTakenAgain,
}

impl Bug {
    /// The bugs that the seeds of the simulation must catch.
    pub const ALL: &[Bug] = &[
        Bug::CacheBeforeTicket,
        Bug::TicketAfterFirstClaim,
        Bug::UnconditionalRelease,
        Bug::IndexBelieved,
        Bug::AttemptsCountedAsClaims,
        Bug::SealedDeliveredShort,
        Bug::CompletionWithoutVerify,
        Bug::CompletionUnconditional,
        Bug::FailedAcknowledged,
        Bug::RedeliveryTakenForDuplicate,
        Bug::TtlOnLiveClaim,
        Bug::LeaseTakenWhileHeld,
        Bug::WritesWithoutLease,
        Bug::PartRefrozen,
        Bug::DeliveredBeforeAnswer,
        Bug::ReleasedBeforeDelivery,
        Bug::DeadlineIgnored,
        Bug::QuarantineNotAwaited,
        Bug::BadMessageDropped,
        Bug::PastForgotten,
        Bug::OrphanTakenForAlive,
        Bug::WitnessSkipped,
        Bug::UncertainTakenForFree,
        Bug::AcknowledgedUncounted,
        Bug::ExpiredTombstoneBelieved,
        Bug::LeftoversDeliveredAgain,
        Bug::SealWithoutTicket,
        Bug::DrainedUnnoticed,
        Bug::OverflowLost,
        Bug::PartsNotGrown,
        Bug::SinkFingerprintIgnored,
        Bug::ContentHashNotCompared,
        Bug::RefusedReleaseCounted,
        Bug::OldestPastDropped,
        Bug::UnknownFateTakenForAlive,
        Bug::OrphansPastDropped,
        Bug::KnownUncounted,
        Bug::CountedByAnotherUnread,
        Bug::RefusedSealCounted,
        Bug::UncertainBodyRemoved,
        Bug::LeftoversWindowFromOpening,
        Bug::TicketWithoutSkew,
        Bug::BodyHashLeftOut,
        Bug::ClaimUnconditional,
        Bug::CompleteBatchCounted,
        Bug::WitnessOverwrites,
        Bug::CountsAlone,
        Bug::ClaimBeforeChunk,
        Bug::UnknownChunkTaken,
        Bug::MissingChunkSkipped,
        Bug::ChunkRebuilt,
        Bug::GrantsMerged,
        Bug::LosersCounted,
        Bug::WitnessFolded,
        Bug::WitnessChunkGuessed,
        Bug::IncompleteRecordKept,
        Bug::DeliveredSeatAlive,
        Bug::SetAsideTakenForDelivered,
        Bug::SetAsideTakenForOrphan,
        Bug::ReadersWindow,
        Bug::RecordForgottenFirst,
        Bug::MembersAsRange,
        Bug::ReplacementMerges,
        Bug::ChunkClaimTakenForTombstone,
        Bug::OldBatchDelivered,
        Bug::SetAsideRemembered,
        Bug::SetAsideForgotten,
        Bug::SetAsideMessageForgotten,
        Bug::RejectedCountedAsDelivered,
        Bug::CorrectedTakenForConflict,
        Bug::SweepBlind,
        Bug::SweepStopsAfterPage,
        Bug::PauseOverlooked,
        Bug::PausedForEver,
        Bug::LiftedPauseForgotten,
        Bug::HoursOverlooked,
        Bug::ClockNotLookedAtAgain,
        Bug::NeverOpened,
        Bug::NoticeBeforeCompletion,
        Bug::NoticeSentOnlyOnce,
        Bug::NoticesMarkedFirst,
        Bug::SequenceTakenAgain,
        Bug::SequenceHolderIgnored,
        Bug::NumberKept,
        Bug::PeriodsMixed,
        Bug::FirstTicketForgotten,
        Bug::FirstTicketRepeated,
        Bug::SealedDueAtWindow,
        Bug::QuotaUnreserved,
        Bug::QuotaUncertainFreed,
        Bug::QuotaBeyondUndecided,
        Bug::QuotaCountedTwice,
        Bug::QuotaReservedIgnored,
        Bug::QuotaEndedFreed,
        Bug::QuotaPlaceForgotten,
        Bug::QuotaPlaceOfOrphan,
        Bug::QuotaPlaceHeldTwice,
        Bug::MoreAttributesDropped,
        Bug::MessageGroupDropped,
        Bug::PauseHoldsOthers,
        Bug::PauseOfBothOverlooked,
        Bug::HoursByUtc,
        Bug::HoursShownTwice,
        Bug::TurnOnlyOnce,
        Bug::TurnOfOneEvent,
        Bug::SetAsideNumberUsed,
        Bug::EndedHolderAwaited,
        Bug::UnsentNoticesRemoved,
        Bug::RejectedToldDelivered,
        Bug::PeriodDrained,
        Bug::DuplicateUnreported,
        Bug::QuotaOfBatchKey,
        Bug::QuotaOfArrival,
        Bug::LongWindowCut,
        Bug::SetAsideTooEarly,
    ];
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Returns whether this thread runs with `bug`.
#[inline]
pub fn planted(bug: Bug) -> bool {
    cfg!(debug_assertions) && PLANTED.get() == Some(bug)
}

/// Switches on a bug for this thread, or none.
///
/// # Panics
/// This build has no debug assertions, and so no bugs.
pub fn plant(bug: Option<Bug>) {
    if !cfg!(debug_assertions) {
        panic!("bugs can be planted only in a build with debug assertions");
    }
    PLANTED.set(bug);
}
