//! Types that the readers of events share: the limits, the result and the errors of one call.

use std::fmt;

use protocol::ids::ObjectId;
use protocol::limits::CLAIM_OVERHEAD_BYTES;
use protocol::seqs::SeqSet;
use protocol::text::counted;
use shared::ports::{PortError, StoredEvent};

use crate::ticket_end::TicketEnd;

/// How much one call reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimits {
    /// The maximum of bytes, approximately.
    pub(crate) bytes_max: u64,
    /// The minimum of events, even beyond `bytes_max`, if there are as many.
    pub(crate) items_min: usize,
}

impl ReadLimits {
    /// Reads everything that was asked for.
    pub(crate) const NONE: ReadLimits = ReadLimits {
        bytes_max: u64::MAX,
        items_min: 1,
    };
}

/// Events that were read, in seq order.
#[derive(Debug, Default)]
pub(crate) struct ReadEvents {
    pub(crate) events: Vec<StoredEvent>,
    /// The loads that cannot be read, or not completely.
    pub(crate) lost: Vec<Lost>,
    /// Why further events were not read. They are still to be read.
    pub(crate) failed: Option<HandOverError>,
}

impl ReadEvents {
    /// Returns the seats of all events, with the lost ones.
    pub(crate) fn seqs(&self) -> SeqSet {
        let mut seqs: SeqSet = self.events.iter().map(|event| event.seq).collect();
        for lost in &self.lost {
            seqs.extend_from(&lost.seqs);
        }
        seqs
    }
}

/// A load or a slot that is missing or damaged, so that no retry can bring all its events back.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) object: ObjectId,
    /// The seats whose events are lost.
    pub(crate) seqs: SeqSet,
    pub(crate) problem: String,
}

/// Maximum number of seats that the message about a lost object names.
const SEATS_NAMED_MAX: usize = 50;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost { seqs, problem, .. } = self;
        let first = seqs.iter().take(SEATS_NAMED_MAX);
        let first: Vec<String> = first.map(|seq| seq.to_string()).collect();
        let (events, first) = (counted(seqs.len(), "event"), first.join(", "));
        let more = match seqs.len() > SEATS_NAMED_MAX as u64 {
            true => ", …",
            false => "",
        };
        write!(f, "{problem}; {events} lost (seqs {first}{more})")
    }
}

/// Why events cannot be given to the sink or the quarantine.
#[derive(Debug)]
pub(crate) enum HandOverError {
    /// A retry would fail too.
    Permanent(String),
    /// A service could not be reached in time.
    Service(PortError),
    /// The lease was lost.
    Lease(TicketEnd),
}

impl From<PortError> for HandOverError {
    fn from(error: PortError) -> HandOverError {
        match error {
            PortError::Refused { .. } => HandOverError::Permanent(error.to_string()),
            _ => HandOverError::Service(error),
        }
    }
}

/// Returns the approximate memory of an event once its body is fetched, in bytes.
pub(crate) fn memory_bytes(event: &StoredEvent) -> u64 {
    let overflow = event.overflow.as_ref().map_or(0, |object| object.bytes);
    let attributes = event.attributes.as_ref();
    let attributes = attributes.map_or(0, |all| all.as_text().len());
    (event.body.len() + attributes + CLAIM_OVERHEAD_BYTES) as u64 + overflow
}
