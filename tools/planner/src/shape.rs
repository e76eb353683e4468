//! When the messages of a burst arrive.

use std::str::FromStr;

/// How the rate of a burst changes with time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// All messages are in the queue at the start.
    Burst,
    /// So many messages a second.
    Constant { rate: f64 },
    /// The rate rises evenly from 0 until, after `secs`, all messages are sent.
    Ramp { secs: f64 },
    /// All messages arrive in `count` equal bursts, `every_secs` apart.
    Spikes { count: u32, every_secs: f64 },
}

/// Arrivals are put together into slices; this is the most of them.
const SLICES_MAX: f64 = 4_000.0;
/// The shortest slice, in seconds.
const SLICE_SECS_MIN: f64 = 0.02;

impl Shape {
    /// Returns how long the burst takes to send, in seconds.
    pub fn secs(self, messages: u64) -> f64 {
        match self {
            Shape::Burst => 0.0,
            Shape::Constant { rate } => messages as f64 / rate,
            Shape::Ramp { secs } => secs,
            Shape::Spikes { count, every_secs } => f64::from(count.saturating_sub(1)) * every_secs,
        }
    }

    /// Returns how many of the messages have been sent at a time.
    pub fn sent(self, messages: u64, at_secs: f64) -> u64 {
        let share = match self {
            Shape::Burst => 1.0,
            Shape::Constant { rate } => at_secs * rate / messages as f64,
            Shape::Ramp { secs } => (at_secs / secs).powi(2),
            Shape::Spikes { count, every_secs } => {
                let spikes = (at_secs / every_secs + 1e-9).floor() + 1.0;
                spikes / f64::from(count.max(1))
            }
        };
        // A share that is 1 but for its rounding is 1: the last message must not wait for a slice that never comes.
        ((share.clamp(0.0, 1.0) * messages as f64 + 1e-6).floor() as u64).min(messages)
    }

    /// Returns the time between two looks at the arrivals, in seconds.
    pub fn slice_secs(self, messages: u64) -> f64 {
        match self {
            Shape::Burst => 1.0,
            Shape::Spikes { every_secs, .. } => every_secs,
            Shape::Constant { .. } | Shape::Ramp { .. } => {
                (self.secs(messages) / SLICES_MAX).max(SLICE_SECS_MIN)
            }
        }
    }
}

/// Reads `burst`, `constant:RATE`, `ramp:SECONDS` or `spikes:COUNT:SECONDS`.
impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let wrong = || {
            "expected burst, constant:RATE, ramp:SECONDS or spikes:COUNT:SECONDS, each above 0"
                .to_owned()
        };
        let positive = |text: &str| match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
            Ok(_) | Err(_) => Err(wrong()),
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["burst"] => Ok(Shape::Burst),
            ["constant", rate] => Ok(Shape::Constant {
                rate: positive(rate)?,
            }),
            ["ramp", secs] => Ok(Shape::Ramp {
                secs: positive(secs)?,
            }),
            ["spikes", count, secs] => {
                let count = count
                    .parse()
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or_else(wrong)?;
                Ok(Shape::Spikes {
                    count,
                    every_secs: positive(secs)?,
                })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_sends_all_messages_by_its_end() {
        let shapes = [
            Shape::Burst,
            Shape::Constant { rate: 333.0 },
            Shape::Ramp { secs: 7.0 },
            Shape::Spikes {
                count: 3,
                every_secs: 10.0,
            },
        ];
        for shape in shapes {
            assert_eq!(shape.sent(1_000, shape.secs(1_000)), 1_000, "{shape:?}");
        }
    }

    #[test]
    fn a_ramp_sends_a_quarter_in_its_first_half() {
        assert_eq!(Shape::Ramp { secs: 10.0 }.sent(1_000, 5.0), 250);
    }

    #[test]
    fn spikes_come_at_once_and_apart() {
        let spikes = Shape::Spikes {
            count: 4,
            every_secs: 10.0,
        };
        let sent = [0.0, 9.9, 10.0, 30.0].map(|at| spikes.sent(1_000, at));
        assert_eq!(sent, [250, 250, 500, 1_000]);
    }
}
