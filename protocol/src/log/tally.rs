//! Tallies: how many places of the accounts of quotas are taken. A run has those that its batch took.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quota::{AccountHash, Quota};
use crate::time::Timestamp;

/// The quota of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineQuota {
    pub account: AccountHash,
    /// [`Quota::tally_ends_at`].
    pub ends_at: Timestamp,
    /// How many places the account has for this line.
    pub max: u64,
}

impl From<&Quota> for LineQuota {
    fn from(quota: &Quota) -> LineQuota {
        LineQuota {
            account: quota.account(),
            ends_at: quota.tally_ends_at(),
            max: quota.max,
        }
    }
}

/// Places of an account that the winners of a run took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    pub account: AccountHash,
    /// When nobody needs it any more.
    pub ends_at: Timestamp,
    pub count: u64,
}

/// The sums of tallies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies(BTreeMap<AccountHash, Tally>);

impl Tallies {
    pub fn add(&mut self, tally: Tally) {
        let Tally {
            account,
            ends_at,
            count,
        } = tally;
        let sum = self.0.entry(account).or_insert(Tally { count: 0, ..tally });
        sum.count = sum.count.saturating_add(count);
        debug_assert_eq!(sum.ends_at, ends_at, "of one period");
    }

    /// Adds a place that a line takes.
    pub fn take(&mut self, quota: LineQuota) {
        self.add(Tally {
            account: quota.account,
            ends_at: quota.ends_at,
            count: 1,
        });
    }

    /// Returns how many places of an account are taken.
    pub fn of(&self, account: AccountHash) -> u64 {
        self.0.get(&account).map_or(0, |tally| tally.count)
    }

    /// Returns the sums, in the order of the accounts.
    pub fn into_sums(self) -> Vec<Tally> {
        self.0.into_values().collect()
    }
}
