//! How many batches are in each state, as the index shows them.

use std::collections::BTreeMap;
use std::fmt;

use aws::BatchCatalogue;
use futures::future::try_join_all;
use protocol::batch::{Listing, Status};
use protocol::ids::BatchId;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::ports::{Overdue, PortError};

use crate::filter::is_overdue;

/// The batches that are not complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub open: usize,
    pub sealed: usize,
    pub processing: usize,
    pub error: usize,
    /// Those past their due time that are not in error.
    pub overdue: usize,
    /// When the oldest overdue batch was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue_since: Option<Timestamp>,
    /// The batch that was opened first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Oldest>,
}

/// The oldest batch that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Oldest {
    pub batch_id: BatchId,
    pub opened_at: Timestamp,
    /// `open`, `sealed`, `processing` or `error`.
    pub status: &'static str,
}

impl Counts {
    /// Returns how many batches are not complete.
    pub fn incomplete(&self) -> usize {
        self.open + self.sealed + self.processing + self.error
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "open {}  sealed {}  processing {}  error {}  overdue {}",
            self.open, self.sealed, self.processing, self.error, self.overdue
        )
    }
}

/// What the index shows.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    lists: Vec<(Status, Vec<Overdue>)>,
    /// Each batch once. The index may show it under two statuses while it follows a change.
    pub batches: BTreeMap<BatchId, Status>,
}

impl Indexed {
    /// Reads the lists of all batches that are not complete.
    pub async fn read(catalogue: &dyn BatchCatalogue) -> Result<Indexed, PortError> {
        let lists = Status::ALL.map(|status| async move {
            let listed = catalogue.listed(Listing::Status(status), None).await?;
            Ok::<_, PortError>((status, listed))
        });
        Ok(Indexed::of(try_join_all(lists).await?))
    }

    fn of(lists: Vec<(Status, Vec<Overdue>)>) -> Indexed {
        let batches = lists.iter().flat_map(|(status, listed)| {
            let ids = listed.iter().map(|batch| batch.batch_id);
            ids.map(|id| (id, *status))
        });
        Indexed {
            batches: batches.collect(),
            lists,
        }
    }

    pub fn counts(&self, now: Timestamp) -> Counts {
        let count = |wanted: Status| {
            let lists = self.lists.iter().filter(|(status, _)| *status == wanted);
            lists.map(|(_, listed)| listed.len()).sum()
        };
        let due = self.lists.iter().flat_map(|(status, listed)| {
            let due = listed.iter().map(|batch| batch.due_at);
            due.filter(|due_at| is_overdue(*status, *due_at, now))
        });
        let oldest = self.batches.first_key_value();
        Counts {
            open: count(Status::Open),
            sealed: count(Status::Sealed),
            processing: count(Status::Processing),
            error: count(Status::Error),
            overdue: due.clone().count(),
            overdue_since: due.min(),
            oldest: oldest.map(|(id, status)| Oldest {
                batch_id: *id,
                opened_at: id.opened_at(),
                status: status.as_str(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn listed(opened_ms: u64, due_ms: u64) -> Overdue {
        Overdue {
            batch_id: BatchId::new(Uuid::from_u128(u128::from(opened_ms) << 80 | 7 << 76)),
            source: "arn:aws:sqs:eu-west-1:1:orders".parse().unwrap(),
            due_at: Timestamp::from_ms(due_ms),
        }
    }

    #[test]
    fn batches_are_counted_by_state_and_the_oldest_is_known() {
        let lists = vec![
            (Status::Open, vec![listed(40, 900), listed(50, 100)]),
            (Status::Sealed, vec![]),
            (Status::Processing, vec![listed(30, 90)]),
            (Status::Error, vec![listed(20, 10)]),
        ];
        let counts = Indexed::of(lists).counts(Timestamp::from_ms(200));
        assert_eq!((counts.open, counts.sealed), (2, 0));
        assert_eq!((counts.processing, counts.error), (1, 1));
        assert_eq!(counts.incomplete(), 4);
        assert_eq!(counts.overdue, 2, "one in error waits for an operator");
        assert_eq!(counts.overdue_since, Some(Timestamp::from_ms(90)));
        let oldest = counts.oldest.unwrap();
        assert_eq!(oldest.opened_at, Timestamp::from_ms(20));
        assert_eq!(oldest.status, "error");
    }

    #[test]
    fn a_stack_without_batches_has_no_oldest_one() {
        let counts = Indexed::default().counts(Timestamp::EPOCH);
        assert_eq!(counts, Counts::default());
    }
}
