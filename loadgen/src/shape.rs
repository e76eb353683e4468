//! The shape of a burst: how its rate changes over time, as text.
//!
//! | text | messages a second |
//! |---|---|
//! | `max` | as many as the queue takes |
//! | `constant:1000` | always 1,000 |
//! | `ramp:100..5000/60s` | from 100 to 5,000 within 60 s, in a straight line; then 5,000 |
//! | `spikes:100,5000,every=30s,for=2s` | 100 for 28 s, 5,000 for 2 s, and so on |
//! | `replay:FILE` | as recorded in a file of [`Arrivals`](crate::Arrivals) |

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::whole::whole;

/// The highest rate, in messages a second. With it, products of rates and times fit 128 bits.
pub const RATE_MAX: u64 = 100_000;

/// The longest ramp, and the longest time between two spikes.
pub const PERIOD_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How the rate of a burst changes over time. Rates are in messages a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Shape {
    /// As fast as the queue takes the messages.
    #[default]
    Max,
    /// Always the same rate.
    Constant {
        /// The rate, from 1.
        per_second: u64,
    },
    /// A rate that changes in a straight line, and then stays.
    Ramp {
        /// The rate at the start; may be 0.
        from: u64,
        /// The rate at the end of the ramp and after it, from 1.
        to: u64,
        /// The length of the ramp.
        over: Duration,
    },
    /// A base rate, and a spike at the end of each period.
    Spikes {
        /// The rate between spikes; may be 0.
        base: u64,
        /// The rate in a spike, from 1.
        spike: u64,
        /// The length of a period, which is the time from one spike to the next.
        every: Duration,
        /// The length of a spike, shorter than the period.
        length: Duration,
    },
    /// The arrivals that a file records.
    Replay { file: PathBuf },
}

/// Why a text or a value is not a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The text has none of the forms.
    #[error(
        "the shape: not understood: got `{0}`, expected `max`, `constant:RATE`, `ramp:FROM..TO/TIME`, \
         `spikes:BASE,SPIKE,every=TIME,for=TIME` or `replay:FILE`, with times such as `500ms`, `30s` or `5m`"
    )]
    Unknown(String),
    /// A rate is too low or too high.
    #[error("the shape: wrong rate: got `{rate}` messages a second, expected {min} to {RATE_MAX}")]
    Rate { rate: u64, min: u64 },
    /// A ramp or a period is too short or too long.
    #[error("the shape: wrong time: got `{}`, expected 1ms to {}h", text_of(*.0), PERIOD_MAX.as_secs() / 3600)]
    Period(Duration),
    /// A spike is as long as its period, or takes no time.
    #[error(
        "the shape: wrong length of a spike: got `{}` every `{}`, expected 1ms or more, and less than the period",
        text_of(*.length), text_of(*.every)
    )]
    Spike { length: Duration, every: Duration },
}

impl Shape {
    /// Checks rates and times.
    ///
    /// # Errors
    /// The first value that is out of range, and the range.
    pub fn check(&self) -> Result<(), ShapeError> {
        let rate = |rate: u64, min: u64| match (min..=RATE_MAX).contains(&rate) {
            true => Ok(()),
            false => Err(ShapeError::Rate { rate, min }),
        };
        let period = |time: Duration| match (Duration::from_millis(1)..=PERIOD_MAX).contains(&time)
        {
            true => Ok(()),
            false => Err(ShapeError::Period(time)),
        };
        match *self {
            Self::Max | Self::Replay { .. } => Ok(()),
            Self::Constant { per_second } => rate(per_second, 1),
            Self::Ramp { from, to, over } => rate(from, 0).and(rate(to, 1)).and(period(over)),
            Self::Spikes {
                base,
                spike,
                every,
                length,
            } => {
                rate(base, 0).and(rate(spike, 1)).and(period(every))?;
                match length < every && length >= Duration::from_millis(1) {
                    true => Ok(()),
                    false => Err(ShapeError::Spike { length, every }),
                }
            }
        }
    }

    /// Reads the text without checking the values.
    fn read(text: &str) -> Option<Self> {
        if text == "max" {
            return Some(Self::Max);
        }
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "constant" => Self::Constant {
                per_second: whole(rest)?,
            },
            "ramp" => {
                let (rates, over) = rest.split_once('/')?;
                let (from, to) = rates.split_once("..")?;
                Self::Ramp {
                    from: whole(from)?,
                    to: whole(to)?,
                    over: time(over)?,
                }
            }
            "spikes" => {
                let fields: Vec<&str> = rest.split(',').collect();
                let &[base, spike, every, length] = fields.as_slice() else {
                    return None;
                };
                Self::Spikes {
                    base: whole(base)?,
                    spike: whole(spike)?,
                    every: time(every.strip_prefix("every=")?)?,
                    length: time(length.strip_prefix("for=")?)?,
                }
            }
            "replay" if !rest.is_empty() => Self::Replay { file: rest.into() },
            _ => return None,
        })
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let shape = Self::read(text).ok_or_else(|| ShapeError::Unknown(text.to_owned()))?;
        shape.check()?;
        Ok(shape)
    }
}

impl TryFrom<String> for Shape {
    type Error = ShapeError;

    fn try_from(text: String) -> Result<Self, ShapeError> {
        text.parse()
    }
}

impl From<Shape> for String {
    fn from(shape: Shape) -> String {
        shape.to_string()
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::Constant { per_second } => write!(f, "constant:{per_second}"),
            Self::Ramp { from, to, over } => write!(f, "ramp:{from}..{to}/{}", text_of(*over)),
            Self::Spikes {
                base,
                spike,
                every,
                length,
            } => {
                let (every, length) = (text_of(*every), text_of(*length));
                write!(f, "spikes:{base},{spike},every={every},for={length}")
            }
            Self::Replay { file } => write!(f, "replay:{}", file.display()),
        }
    }
}

/// Reads a whole number of milliseconds, seconds, minutes or hours.
fn time(text: &str) -> Option<Duration> {
    let unit = text.find(|character: char| !character.is_ascii_digit())?;
    let (count, unit) = text.split_at(unit);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(
        whole::<u64>(count)?.checked_mul(millis)?,
    ))
}

/// Returns a time in the largest of the units `h`, `m`, `s` and `ms` in which it is a whole number.
fn text_of(time: Duration) -> String {
    let millis = time.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let whole = |(unit, _): &&(u128, &str)| millis > 0 && millis.is_multiple_of(*unit);
    match units.iter().find(whole) {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn every_form_is_read_and_written_back() {
        for (text, shape) in [
            ("max", Shape::Max),
            ("constant:1000", Shape::Constant { per_second: 1_000 }),
            (
                "ramp:100..5000/1m",
                Shape::Ramp {
                    from: 100,
                    to: 5_000,
                    over: 60 * SECOND,
                },
            ),
            (
                "spikes:0,5000,every=30s,for=1500ms",
                Shape::Spikes {
                    base: 0,
                    spike: 5_000,
                    every: 30 * SECOND,
                    length: SECOND * 3 / 2,
                },
            ),
            (
                "replay:/a:b/c,d.csv",
                Shape::Replay {
                    file: "/a:b/c,d.csv".into(),
                },
            ),
        ] {
            assert_eq!(text.parse(), Ok(shape.clone()), "{text}");
            assert_eq!(shape.to_string(), text);
            let json = serde_json::to_string(&shape).unwrap();
            assert_eq!(serde_json::from_str::<Shape>(&json).unwrap(), shape);
        }
        let minute: Shape = "ramp:1..2/60s".parse().unwrap();
        assert_eq!(minute.to_string(), "ramp:1..2/1m");
    }

    #[test]
    fn other_texts_are_refused_with_every_form() {
        for text in [
            "",
            "fast",
            "constant",
            "constant:",
            "constant:1.5",
            "constant:-1",
            "constant:+1",
            "ramp:1..2",
            "ramp:1-2/3s",
            "ramp:1..2/3",
            "ramp:1..2/3d",
            "spikes:1,2",
            "replay:",
            "spikes:1,2,for=1s,every=2s",
            "spikes:1,2,every=2s,for=1s,3",
            "max:3",
        ] {
            let error = text.parse::<Shape>().unwrap_err();
            assert_eq!(error, ShapeError::Unknown(text.to_owned()));
        }
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        for (text, error) in [
            (
                "constant:0",
                "wrong rate: got `0` messages a second, expected 1 to 100000",
            ),
            (
                "ramp:0..100001/1s",
                "got `100001` messages a second, expected 1 to 100000",
            ),
            (
                "ramp:5..0/1s",
                "got `0` messages a second, expected 1 to 100000",
            ),
            ("ramp:5..5/0s", "wrong time: got `0ms`, expected 1ms to 24h"),
            (
                "ramp:5..5/25h",
                "wrong time: got `25h`, expected 1ms to 24h",
            ),
            (
                "spikes:0,1,every=2s,for=2s",
                "wrong length of a spike: got `2s` every `2s`, expected 1ms or more, and less than the period",
            ),
            ("spikes:0,1,every=2s,for=0s", "got `0ms` every `2s`"),
        ] {
            let refusal = text.parse::<Shape>().unwrap_err().to_string();
            assert!(refusal.contains(error), "{text}: {refusal}");
        }
    }
}
