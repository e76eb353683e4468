//! Quotas: at most so many distinct events of a quota key and a period are delivered.
//!
//! The aggregator says in the line of a message which key and period its event counts in, and how many events these may have. The places
//! are counted when a batch of the log is decided: see the module `log`.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{BatchId, BodyHash, QuotaKey};
use crate::limits::QUOTA_TALLY_RETENTION;
use crate::time::Timestamp;

/// The quota that an event counts in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    pub key: QuotaKey,
    pub begins: Timestamp,
    /// The end of the period, which is no part of it.
    pub ends: Timestamp,
    /// How many events of the key and the period are delivered, by the aggregator that received the message.
    pub max: u64,
}

impl Quota {
    /// Returns the account in which the event takes a place.
    pub fn account(&self) -> AccountHash {
        let (begins, ends) = (self.begins.as_ms(), self.ends.as_ms());
        let name = format!("{begins}/{ends}/{}", self.key);
        AccountHash(u128::from_be_bytes(
            *BodyHash::of(name.as_bytes()).as_bytes(),
        ))
    }

    /// Returns the time from which on nobody needs to know how many places are taken: no line with this account is decided later, unless
    /// its batch is too old for a delivery.
    pub fn tally_ends_at(&self) -> Timestamp {
        self.ends + QUOTA_TALLY_RETENTION
    }
}

/// A hash of a quota key and its period, which stands for their account.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AccountHash(u128);

impl fmt::Display for AccountHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for AccountHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccountHash({self})")
    }
}

impl From<AccountHash> for String {
    fn from(account: AccountHash) -> String {
        account.to_string()
    }
}

impl FromStr for AccountHash {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<AccountHash, ParseIntError> {
        u128::from_str_radix(text, 16).map(AccountHash)
    }
}

impl TryFrom<String> for AccountHash {
    type Error = ParseIntError;

    fn try_from(text: String) -> Result<AccountHash, ParseIntError> {
        text.parse()
    }
}

/// The place that a winner has in the account of its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    pub account: AccountHash,
    /// The batch whose tally counts the place, if the winner took it over from an earlier one of its event, which was set aside or
    /// rejected. It is counted once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub taken_in: Option<BatchId>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn quota(key: &str, begins_ms: u64, max: u64) -> Quota {
        let begins = Timestamp::from_ms(begins_ms);
        let ends = Timestamp::from_ms(begins_ms + 60_000);
        let key = key.parse().unwrap();
        Quota {
            key,
            begins,
            ends,
            max,
        }
    }

    #[test]
    fn an_account_is_of_a_key_and_a_period() {
        let of = |key, begins| quota(key, begins, 1).account();
        let longer = Quota {
            ends: Timestamp::from_ms(180_000),
            ..quota("a", 60_000, 1)
        };
        assert_ne!(of("a", 60_000), longer.account());
        assert_eq!(of("a", 60_000), quota("a", 60_000, 9).account());
        assert_ne!(of("a", 60_000), of("b", 60_000));
        assert_ne!(of("a", 60_000), of("a", 120_000));
    }

    #[test]
    fn an_account_reads_back_as_it_was_written() {
        // A hash that begins with zeros keeps them.
        for account in [quota("a", 0, 1).account(), AccountHash(5)] {
            let json = serde_json::to_string(&account).unwrap();
            assert_eq!(json.len(), 34);
            assert_eq!(serde_json::from_str::<AccountHash>(&json).unwrap(), account);
        }
        assert!("place".parse::<AccountHash>().is_err());
    }

    #[test]
    fn a_tally_ends_thirty_five_days_after_its_period() {
        let days = std::time::Duration::from_secs(35 * 24 * 3_600);
        let quota = quota("a", 0, 1);
        assert_eq!(quota.tally_ends_at(), Timestamp::from_ms(60_000) + days);
    }
}
