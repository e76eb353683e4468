//! Which batches a command is about.

use std::time::Duration;

use aws::BatchSummary;
use clap::{Args, ValueEnum};
use protocol::batch::{Listing, Status};
use protocol::ids::BatchId;
use protocol::time::Timestamp;

use crate::times::duration;

/// The options that select batches.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Batches in one of these states [default: all but `complete`]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STATE,…")]
    pub status: Vec<State>,
    /// Batches of this source: the ARN of a queue, or its name
    #[arg(long, value_name = "QUEUE")]
    pub source: Option<String>,
    /// Batches with this batch key
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Batches whose error contains this text
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Batches that were opened longer ago than this: `90s`, `15m`, `2h`, `3d`
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// Batches that were opened within this time
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub younger_than: Option<Duration>,
}

/// A state of batches, as the option `--status` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum State {
    Open,
    Sealed,
    Processing,
    /// Past its due time, and not in error: the sweep will send a ticket
    Overdue,
    Error,
    /// Complete or in error, and a notice of it was not sent yet
    Unnoticed,
    /// Complete. Reads the whole batch table
    Complete,
}

impl State {
    /// Returns the status of the batches in this state; `None` for `overdue`, and for complete batches.
    fn status(self) -> Option<Status> {
        match self {
            State::Open => Some(Status::Open),
            State::Sealed => Some(Status::Sealed),
            State::Processing => Some(Status::Processing),
            State::Error => Some(Status::Error),
            State::Overdue | State::Unnoticed | State::Complete => None,
        }
    }
}

/// Returns whether a batch that is not complete should have made progress. A batch in error waits for an operator.
pub fn is_overdue(status: Status, due_at: Timestamp, now: Timestamp) -> bool {
    status != Status::Error && due_at < now
}

/// Returns whether a batch is complete or in error, and a notice of it may not have been sent. A batch in processing sends the
/// notices of former errors itself.
pub fn is_unnoticed(batch: &BatchSummary) -> bool {
    matches!(batch.status, None | Some(Status::Error)) && !batch.notices.is_empty()
}

impl Filter {
    /// Returns whether the filter selects every batch that is not complete.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Returns the lists to ask the index for.
    pub fn listings(&self) -> Vec<Listing> {
        let all = Status::ALL.into_iter();
        let statuses = all.filter(|status| {
            self.status.is_empty()
                || self.status.iter().any(|state| match state {
                    State::Overdue => *status != Status::Error,
                    State::Unnoticed => *status == Status::Error,
                    state => state.status() == Some(*status),
                })
        });
        let notices = self.selects_unnoticed().then_some(Listing::Notices);
        statuses.map(Listing::Status).chain(notices).collect()
    }

    /// Returns whether only overdue batches of this list are selected, so that the index need not return others.
    pub fn only_overdue(&self, listing: Listing) -> bool {
        let Listing::Status(status) = listing else {
            return false;
        };
        let all = |state: &State| state.status() == Some(status) || *state == State::Unnoticed;
        !self.status.is_empty() && !self.status.iter().any(all)
    }

    /// Returns whether all complete batches are selected, most of which are in no index.
    pub fn selects_complete(&self) -> bool {
        self.status.contains(&State::Complete)
    }

    /// Returns whether batches are selected because a notice of them waits, and not because they are in error.
    pub fn is_about_notices(&self) -> bool {
        self.selects_unnoticed() && !self.status.contains(&State::Error)
    }

    fn selects_unnoticed(&self) -> bool {
        self.status.contains(&State::Unnoticed)
    }

    /// Returns whether the filter needs more than the index shows.
    pub fn needs_records(&self) -> bool {
        self.key.is_some() || self.error.is_some() || self.selects_unnoticed()
    }

    /// Returns whether id and source fit, which the index shows.
    pub fn fits_index(&self, batch: BatchId, source: &str, now: Timestamp) -> bool {
        let age = batch.opened_at().until(now);
        let name = self.source.as_deref();
        name.is_none_or(|name| is_queue(source, name))
            && self.older_than.is_none_or(|than| age > than)
            && self.younger_than.is_none_or(|than| age <= than)
    }

    /// Returns whether a batch is selected.
    pub fn fits(&self, batch: &BatchSummary, now: Timestamp) -> bool {
        let state = match batch.status {
            None => self.selects_complete() || (self.selects_unnoticed() && is_unnoticed(batch)),
            Some(_) if self.status.is_empty() => true,
            Some(status) => self.status.iter().any(|state| match state {
                State::Overdue => is_overdue(status, batch.due_at, now),
                State::Unnoticed => is_unnoticed(batch),
                state => state.status() == Some(status),
            }),
        };
        let key = batch.batch_key.as_ref().map(|key| key.as_str());
        let error = batch.error.as_deref().unwrap_or_default();
        let text = self.error.as_deref();
        state
            && self.fits_index(batch.batch_id, batch.source.as_str(), now)
            && self.key.as_deref().is_none_or(|wanted| key == Some(wanted))
            && text.is_none_or(|text| !error.is_empty() && error.contains(text))
    }
}

/// Returns whether `name` is this source, or the name of its queue.
pub fn is_queue(source: &str, name: &str) -> bool {
    source == name || source.rsplit(':').next() == Some(name)
}

/// A batch for the tests of this crate, opened 10 s after the epoch.
#[cfg(test)]
pub fn summary(status: Option<Status>) -> BatchSummary {
    use protocol::batch::BatchRecord;

    let id = BatchId::new("00000000-2710-7000-8000-000000000001".parse().unwrap());
    let at = |secs: u64| Timestamp::from_ms(secs * 1_000);
    let source = "arn:aws:sqs:eu-west-1:1:orders".parse().unwrap();
    let record = BatchRecord::open(id, source, Some("k".parse().unwrap()), 10, at(10), at(40));
    BatchSummary {
        status,
        ..BatchSummary::of(record)
    }
}

/// A notice for the tests of this crate, of a batch without parts that was completed 50 s after the epoch.
#[cfg(test)]
pub fn notice() -> protocol::batch::Notice {
    use protocol::batch::{Notice, NoticeKind};

    Notice {
        kind: NoticeKind::Complete,
        number: 1,
        at: Timestamp::from_ms(50_000),
        parts: 0,
        frozen: false,
        set_aside: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(60_000);

    fn filter(states: &[State]) -> Filter {
        Filter {
            status: states.to_vec(),
            ..Filter::default()
        }
    }

    #[test]
    fn without_states_every_batch_fits_that_is_not_complete() {
        let all = filter(&[]);
        assert!(all.is_empty() && !all.selects_complete());
        assert_eq!(all.listings(), Status::ALL.map(Listing::Status));
        assert!(all.fits(&summary(Some(Status::Error)), NOW));
        assert!(!all.fits(&summary(None), NOW));
    }

    #[test]
    fn overdue_batches_are_those_past_their_due_time_that_are_not_in_error() {
        let overdue = filter(&[State::Overdue]);
        let under_way = [Status::Open, Status::Sealed, Status::Processing];
        assert_eq!(overdue.listings(), under_way.map(Listing::Status));
        let open = Listing::Status(Status::Open);
        assert!(overdue.only_overdue(open));
        assert!(!filter(&[State::Overdue, State::Open]).only_overdue(open));
        let mut batch = summary(Some(Status::Open));
        assert!(!overdue.fits(&batch, NOW), "it is due at {}", batch.due_at);
        batch.due_at = Timestamp::from_ms(1);
        assert!(overdue.fits(&batch, NOW));
        batch.status = Some(Status::Error);
        assert!(!overdue.fits(&batch, NOW));
    }

    #[test]
    fn unnoticed_batches_are_those_complete_or_in_error_that_have_a_notice() {
        let unnoticed = filter(&[State::Unnoticed]);
        let in_error = Listing::Status(Status::Error);
        assert_eq!(unnoticed.listings(), [in_error, Listing::Notices]);
        assert!(!unnoticed.only_overdue(Listing::Notices) && !unnoticed.only_overdue(in_error));
        assert!(unnoticed.needs_records() && !unnoticed.selects_complete());
        let mut batch = summary(None);
        assert!(!unnoticed.fits(&batch, NOW));
        batch.notices = vec![notice()];
        assert!(unnoticed.fits(&batch, NOW));
        batch.status = Some(Status::Error);
        assert!(unnoticed.fits(&batch, NOW) && unnoticed.is_about_notices());
        assert!(!filter(&[State::Unnoticed, State::Error]).is_about_notices());
        batch.status = Some(Status::Processing);
        assert!(!unnoticed.fits(&batch, NOW), "it sends them itself");
    }

    #[test]
    fn a_batch_fits_by_source_key_age_and_error() {
        let mut batch = summary(Some(Status::Error));
        batch.error = Some("sink says no".to_owned());
        let fits = |change: fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            assert!(!filter.is_empty());
            filter.fits(&batch, NOW)
        };
        assert!(fits(|f| f.source = Some("orders".to_owned())));
        assert!(fits(
            |f| f.source = Some("arn:aws:sqs:eu-west-1:1:orders".to_owned())
        ));
        assert!(!fits(|f| f.source = Some("order".to_owned())));
        assert!(fits(|f| f.key = Some("k".to_owned())));
        assert!(!fits(|f| f.key = Some("other".to_owned())));
        assert!(fits(|f| f.error = Some("says".to_owned())));
        assert!(!fits(|f| f.error = Some("yes".to_owned())));
        assert!(fits(|f| f.older_than = Some(Duration::from_secs(49))));
        assert!(!fits(|f| f.older_than = Some(Duration::from_secs(51))));
        assert!(fits(|f| f.younger_than = Some(Duration::from_secs(51))));
    }
}
