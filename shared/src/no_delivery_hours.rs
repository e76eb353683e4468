//! `DELIVERY_HOURS` in a build without the cargo feature `time-zones`: there are none.

use std::str::FromStr;

use protocol::time::Timestamp;

use crate::config::not_built;

/// Hours of the week, which this build cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryHours {}

impl DeliveryHours {
    /// Returns when the hours next begin.
    pub fn closed_until(&self, _now: Timestamp) -> Option<Timestamp> {
        match *self {}
    }

    /// Returns when the hours that it is in began.
    pub fn open_since(&self, _now: Timestamp) -> Option<Timestamp> {
        match *self {}
    }

    /// Returns when the hours that it is in end.
    pub fn open_until(&self, _now: Timestamp) -> Option<Timestamp> {
        match *self {}
    }
}

impl FromStr for DeliveryHours {
    type Err = String;

    fn from_str(_text: &str) -> Result<DeliveryHours, String> {
        Err(not_built("time-zones"))
    }
}
