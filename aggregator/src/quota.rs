//! The configuration of quotas. The quota of an event, which `records` finds by it, goes into its line of the log.

use std::str::FromStr;

use protocol::period::Period;
use protocol::time::Timestamp;
use shared::close_at::CloseAt;
use shared::config::{Number, QUARANTINE_SQS_URL, Reader, Text, Unset, Variable};
use shared::expression::Expression;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

pub(crate) const QUOTA: Variable<Text> = Variable {
    name: "QUOTA",
    key: Some("quota.key"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "a JMESPath over the body",
    },
    meaning: "Where a body has its quota key, such as a customer. Of the events of one key and period, at most `QUOTA_MAX` are \
              delivered, however often they are sent; the others go to the quarantine. Needs the log (`BODIES`).",
};
const QUOTA_MAX: Variable<Number<u64>> = Variable {
    name: "QUOTA_MAX",
    key: Some("quota.max"),
    value: Number {
        unit: "events",
        default: 0,
        min: 0,
        max: 1_000_000_000,
    },
    meaning: "How many distinct events of a quota key and a period are delivered. With `QUOTA`, at least 1. A message is decided by the \
              value of the aggregator that received it.",
};
const QUOTA_PERIOD: Variable<Text> = Variable {
    name: "QUOTA_PERIOD",
    key: Some("quota.period"),
    value: Text {
        unset: Unset::Default("day"),
        allowed: "`minute`, `hour`, `day` or `day TIME-ZONE`",
    },
    meaning: "The period in which a quota counts, by UTC; `day Europe/Berlin` is a day by the clock of that time zone.",
};
pub(crate) const QUOTA_TIME: Variable<Text> = Variable {
    name: "QUOTA_TIME",
    key: Some("quota.time"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "a JMESPath over the body",
    },
    meaning: "Where a body has the time that decides in which period of its quota it counts, written as for `CLOSE_TIME`. Without it, the \
              time at which it is processed decides.",
};

/// How many events of a key and a period are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRule {
    /// `QUOTA`: finds the quota key in a body.
    pub key: Expression,
    /// `QUOTA_MAX`.
    pub events_max: u64,
    /// `QUOTA_PERIOD`.
    pub period: QuotaPeriod,
    /// `QUOTA_TIME`: finds the time that decides the period; without it, the present time does.
    pub time: Option<Expression>,
}

/// The periods in which a quota counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaPeriod {
    /// Of this many milliseconds, by UTC.
    Utc(u64),
    /// The days of a time zone.
    DaysOf(CloseAt),
}

impl QuotaRule {
    /// Reads the rule from the variables; `None` without `QUOTA`.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<QuotaRule> {
        let key: Option<Expression> = reader.text_with(&QUOTA, str::parse);
        let events_max = reader.number(&QUOTA_MAX);
        reader.rule(
            "`QUOTA_MAX` is at least 1 if `QUOTA` is set, and not set otherwise.",
            (key.is_some() != (events_max > 0)).then(|| match key.is_some() {
                true => format!("`{QUOTA_MAX}`: not set: expected how many events of a key are delivered, because `{QUOTA}` is set"),
                false => format!("`{QUOTA_MAX}` is set, but `{QUOTA}` is not: there are no quotas"),
            }),
        );
        let period: Option<QuotaPeriod> = reader.text_with(&QUOTA_PERIOD, str::parse);
        let time: Option<Expression> = reader.text_with(&QUOTA_TIME, str::parse);
        reader.rule(
            "`QUOTA_TIME` is set only with `QUOTA`: otherwise there are no quotas.",
            (time.is_some() && key.is_none()).then(|| {
                format!("`{QUOTA_TIME}` is set, but `{QUOTA}` is not: there are no quotas")
            }),
        );
        let has_quarantine = reader.is_set(&QUARANTINE_SQS_URL);
        reader.rule(
            "`QUOTA` needs `QUARANTINE_SQS_URL`.",
            (key.is_some() && !has_quarantine).then(|| {
                format!("`{QUARANTINE_SQS_URL}`: not set: expected the URL of a queue, because events beyond a `{QUOTA}` go there")
            }),
        );
        Some(QuotaRule {
            key: key?,
            events_max,
            period: period?,
            time,
        })
    }
}

impl QuotaPeriod {
    /// Returns the period that `at` is in; `None` for a time that no calendar has.
    pub fn of(&self, at: Timestamp) -> Option<Period> {
        match self {
            QuotaPeriod::Utc(ms) => {
                let begins = at.as_ms() / ms * ms;
                Some(Period {
                    begins: Timestamp::from_ms(begins),
                    ends: Timestamp::from_ms(begins.checked_add(*ms)?),
                })
            }
            QuotaPeriod::DaysOf(midnights) => midnights.period_of(at),
        }
    }
}

impl FromStr for QuotaPeriod {
    type Err = String;

    /// Parses `minute`, `hour`, `day`, or `day` and a time zone.
    fn from_str(text: &str) -> Result<QuotaPeriod, String> {
        match text.split_once(' ') {
            None if text == "minute" => Ok(QuotaPeriod::Utc(MINUTE_MS)),
            None if text == "hour" => Ok(QuotaPeriod::Utc(HOUR_MS)),
            None if text == "day" => Ok(QuotaPeriod::Utc(DAY_MS)),
            Some(("day", zone)) => format!("00:00 {zone}").parse().map(QuotaPeriod::DaysOf),
            Some(_) | None => Err("expected `minute`, `hour`, `day` or `day TIME-ZONE`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(text: &str, ms: u64) -> (u64, u64) {
        let period: QuotaPeriod = text.parse().unwrap();
        let period = period.of(Timestamp::from_ms(ms)).unwrap();
        (period.begins.as_ms(), period.ends.as_ms())
    }

    #[test]
    fn a_period_begins_at_its_full_minute_hour_or_day() {
        // 25 November 2026, 19:15 UTC.
        let now = 1_795_634_100_000;
        assert_eq!(period("minute", now + 59_999), (now, now + MINUTE_MS));
        let hour = now - 15 * MINUTE_MS;
        assert_eq!(period("hour", now), (hour, hour + HOUR_MS));
        let day = hour - 19 * HOUR_MS;
        assert_eq!(period("day", now), (day, day + DAY_MS));
        let in_berlin = (day - HOUR_MS, day + 23 * HOUR_MS);
        assert_eq!(period("day Europe/Berlin", now), in_berlin);
    }

    #[test]
    fn other_periods_are_refused_with_what_is_allowed() {
        for text in ["", "week", "days", "hour Europe/Berlin", "day "] {
            let error = text.parse::<QuotaPeriod>().unwrap_err();
            let is_named = error.contains("expected `minute`") || error.contains("no time zone");
            assert!(is_named, "{text}: {error}");
        }
    }
}
