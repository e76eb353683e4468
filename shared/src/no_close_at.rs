//! `CLOSE_AT` in a build without the cargo feature `time-zones`: there are no periods.

use std::str::FromStr;

use protocol::period::Period;
use protocol::time::Timestamp;

use crate::config::not_built;

/// Times of the day at which one period ends and the next begins, which this build cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseAt {}

impl CloseAt {
    /// Returns the period that `at` is in.
    pub fn period_of(&self, _at: Timestamp) -> Option<Period> {
        match *self {}
    }
}

impl FromStr for CloseAt {
    type Err = String;

    fn from_str(_text: &str) -> Result<CloseAt, String> {
        Err(not_built("time-zones"))
    }
}
