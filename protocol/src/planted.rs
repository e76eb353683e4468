//! Bugs planted on purpose, so that the simulation can be shown to catch them.
//!
//! Without the feature `planted-bugs`, which nothing that deploys enables, [`planted`] is a constant `false` and every
//! bug is compiled away. With it, a thread switches on at most one.

/// A mistake that somebody could make here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A batch may be claimed into before its ticket is acknowledged.
    CacheBeforeTicket,
    /// The ticket is sent after the first claims, with the seal.
    TicketAfterFirstClaim,
    /// A release does not care who holds the claim by now.
    UnconditionalRelease,
    /// What the index proposes is delivered though the table says otherwise.
    IndexBelieved,
    /// Seats that met a duplicate are counted as claims.
    AttemptsCountedAsClaims,
    /// A sealed batch is delivered although counted claims are not seen yet.
    SealedDeliveredShort,
    /// One empty look completes a batch whose count is not proven.
    CompletionWithoutVerify,
    /// Completion does not care about counts and witnesses that came meanwhile.
    CompletionUnconditional,
    /// A message whose outcome is unknown is acknowledged.
    FailedAcknowledged,
    /// Under `requeue`, a redelivery is taken for a duplicate.
    RedeliveryTakenForDuplicate,
    /// Live claims carry the TTL of tombstones.
    TtlOnLiveClaim,
    /// A lease is taken while another processor holds it.
    LeaseTakenWhileHeld,
    /// Writes to a batch record do not need the lease.
    WritesWithoutLease,
    /// A frozen part is frozen anew at the next attempt.
    PartRefrozen,
    /// A part is marked as delivered before the sink answered.
    DeliveredBeforeAnswer,
    /// Claims are released before the sink has them.
    ReleasedBeforeDelivery,
    /// Nobody looks at the deadline.
    DeadlineIgnored,
    /// A message is acknowledged though its quarantine failed.
    QuarantineNotAwaited,
    /// A message that cannot be read is acknowledged and nothing else.
    BadMessageDropped,
    /// A replaced tombstone takes the memory of earlier deliveries with it.
    PastForgotten,
    /// A live claim is relied on though its batch is complete.
    OrphanTakenForAlive,
    /// A claim is relied on without its batch knowing of it.
    WitnessSkipped,
    /// An attempt without an answer counts as not written.
    UncertainTakenForFree,
    /// Messages are acknowledged before their claims are counted.
    AcknowledgedUncounted,
    /// A tombstone past its window still makes duplicates.
    ExpiredTombstoneBelieved,
    /// Claims of a delivered part that are still live are delivered again.
    LeftoversDeliveredAgain,
    /// A full batch waits for its window.
    SealWithoutTicket,
    /// Nobody hears that a source is drained.
    DrainedUnnoticed,
    /// A claim is written although its body was not stored.
    OverflowLost,
    /// The parts of a batch do not grow as they run out.
    PartsNotGrown,
    /// A frozen part goes to whatever the sink is now.
    SinkFingerprintIgnored,
    /// Nobody compares what is delivered with what was frozen.
    ContentHashNotCompared,
    /// A release that was refused counts as released.
    RefusedReleaseCounted,
    /// The oldest past delivery makes room for the newest.
    OldestPastDropped,
    /// A claim whose batch has no record is relied on.
    UnknownFateTakenForAlive,
    /// A claim that takes an orphan's place forgets its past deliveries.
    OrphansPastDropped,
    /// What this environment claimed is relied on before it is counted.
    KnownUncounted,
    /// Claims that another invocation takes along in its seal count without a look at the record.
    CountedByAnotherUnread,
    /// The counts of a seal that was refused are taken for written.
    RefusedSealCounted,
    /// The body of a claim that may have been written is removed.
    UncertainBodyRemoved,
    /// A leftover's dedup window begins when its batch was opened.
    LeftoversWindowFromOpening,
    /// A ticket is not delayed for clocks that differ.
    TicketWithoutSkew,
    /// The hash of a part leaves out what the bodies are.
    BodyHashLeftOut,
    /// A claim takes the place of whatever is there.
    ClaimUnconditional,
    /// The counts of a batch that is complete are taken for told.
    CompleteBatchCounted,
    /// A witness overwrites those that others told of meanwhile.
    WitnessOverwrites,
    /// Claims that nobody counted stand in for counted ones.
    CountsAlone,
    /// What was set aside is remembered as if it had been delivered.
    SetAsideRemembered,
    /// That a batch is being set aside is known to the operator's ticket alone.
    SetAsideForgotten,
    /// A message whose event was set aside is forgotten once another claims the event.
    SetAsideMessageForgotten,
    /// The sweep finds nothing.
    SweepBlind,
}

impl Bug {
    /// All of them.
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
        Bug::SetAsideRemembered,
        Bug::SetAsideForgotten,
        Bug::SetAsideMessageForgotten,
        Bug::SweepBlind,
    ];
}

/// Whether this thread runs with `bug`.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether this thread runs with `bug`.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Plants a bug for this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }
}

#[cfg(feature = "planted-bugs")]
pub use switch::{plant, planted};
