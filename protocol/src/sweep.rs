//! Which batches get a ticket from the sweep, and when it arrives.

use crate::batch::{Closing, Listing, Status};
use crate::ids::BatchId;
use crate::limits::{BATCH_LIFE_MAX, CLOCK_SKEW_MAX, DUE_GRACE, SQS_DELAY_MAX};
use crate::pause::Pauses;
use crate::time::Timestamp;

/// The rules for all batches of one sweep.
#[derive(Clone, Debug)]
pub struct SweepRules {
    pub now: Timestamp,
    /// When the hours of delivery begin, if a ticket can be sent for that time.
    pub opening: Option<Timestamp>,
    pub pauses: Pauses,
    /// Whether there is a quarantine queue, to which old batches in error go.
    pub has_quarantine_queue: bool,
    /// Whether notices are sent.
    pub has_notices: bool,
}

/// Why a batch gets a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It is past its due time, or waits for a pause that was lifted.
    Due,
    /// It waits for the hours of delivery, which begin soon.
    Opening,
    /// Its window ends soon, and it may have got no ticket when it was opened. Its record tells whether it needs one.
    Window,
    /// It has been in error for so long that it is set aside.
    Quarantine,
    /// Its notices may not have been sent.
    Notice,
}

impl SweepRules {
    /// Returns the lists to read, each with the due time before which its batches are read. All batches in processing and in error are
    /// read, because they are counted, and because those in processing may wait for a pause that was lifted.
    pub fn lists(&self) -> Vec<(Listing, Timestamp)> {
        let mut lists = vec![
            (
                Listing::Status(Status::Open),
                self.now + SQS_DELAY_MAX + DUE_GRACE,
            ),
            (Listing::Status(Status::Sealed), self.now),
            (Listing::Status(Status::Processing), Timestamp::FAR_FUTURE),
            (Listing::Status(Status::Error), Timestamp::FAR_FUTURE),
        ];
        lists.extend(self.has_notices.then_some((Listing::Notices, self.now)));
        lists
    }

    /// Returns why a batch of a list gets a ticket, if it gets one.
    pub fn wake(&self, listing: Listing, batch: BatchId, due_at: Timestamp) -> Option<Wake> {
        let is_due = due_at < self.now;
        match listing {
            Listing::Status(Status::Error) if is_due && self.is_set_aside(batch) => {
                Some(Wake::Quarantine)
            }
            Listing::Status(Status::Error) | Listing::Notices => {
                (is_due && self.has_notices).then_some(Wake::Notice)
            }
            Listing::Status(_) if is_due => Some(Wake::Due),
            Listing::Status(_) if self.opening == Some(due_at) => Some(Wake::Opening),
            Listing::Status(Status::Open) => {
                may_have_no_ticket(batch, due_at).then_some(Wake::Window)
            }
            Listing::Status(Status::Processing) => {
                let were_lifted = self.pauses.were_lifted_for(batch, due_at);
                were_lifted.then_some(Wake::Due)
            }
            // The sweep reads this list by itself.
            Listing::Status(Status::Sealed) | Listing::Answers => None,
        }
    }

    /// Returns when the ticket of a batch should arrive.
    pub fn ticket_at(&self, wake: Wake, due_at: Timestamp) -> Timestamp {
        match wake {
            Wake::Due | Wake::Quarantine | Wake::Notice => self.now,
            Wake::Opening => due_at + CLOCK_SKEW_MAX,
            // When the window has ended by every clock.
            Wake::Window => due_at.saturating_sub(DUE_GRACE),
        }
    }

    /// Returns whether a batch in error is so old that it goes to the quarantine.
    fn is_set_aside(&self, batch: BatchId) -> bool {
        let is_old = batch.opened_at() + BATCH_LIFE_MAX <= self.now;
        self.has_quarantine_queue && is_old
    }
}

/// Returns whether an open batch is due so late that it may have got no ticket when it was opened. Another batch is due so late if the
/// sweep sent it a ticket.
fn may_have_no_ticket(batch: BatchId, due_at: Timestamp) -> bool {
    let closes_at = due_at.saturating_sub(DUE_GRACE + CLOCK_SKEW_MAX);
    Closing { closes_at }.is_beyond_delays(batch.opened_at())
}
