//! The flags, and what they come to.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::draws::Percent;
use super::sink_errors::share;

/// Flags of the faults. None of them is on by default, and then nothing stands in the way of a request.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Faults")]
pub struct FaultArgs {
    /// Where all randomness of the faults comes from; with any fault, messages may come back 100 times, not 5
    #[arg(long, value_name = "N", default_value_t = 1)]
    fault_seed: u64,
    /// batchId-index shows puts and removals up to so much later; each query draws its own lag
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    index_lag: f64,
    /// Write units a second of each lock item and each key of batchId-index; one with none left throttles the table
    #[arg(long, value_name = "UNITS")]
    partition_limit: Option<u32>,
    /// Share of the functions' requests whose reply is lost: most are applied, some only after the caller gave up
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    lost_replies: Percent,
    /// Share of the functions' requests answered with an error and not applied: two of three 500, the others throttled
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    error_rate: Percent,
    /// Share of the received messages that become visible again within 2 s, although in flight
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    duplicate_deliveries: Percent,
    /// Share of the invocations, of both functions, whose environment is killed at a random moment
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    kills: Percent,
    /// An environment that logs a line with this text is killed, with this probability; may be repeated
    #[arg(long = "kill-at", value_name = "TEXT[:PERCENT]")]
    kill_at: Vec<String>,
    /// The file sink cannot be written to for so long from the start
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    sink_down: f64,
    /// Share of the deliveries that the sinks `s3` and `http` answer with 503, 0 to 1; half of them having stored the part
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    sink_error_rate: Percent,
}

/// A line of the log at which environments are killed.
#[derive(Clone, Debug, PartialEq)]
pub struct KillAt {
    /// What the line contains.
    pub text: String,
    /// How often such a line kills.
    pub percent: Percent,
    /// Kills after which such lines kill no more.
    pub kills_max: Option<u64>,
}

/// The faults that are on. The default is none.
#[derive(Clone, Debug, Default)]
pub struct FaultOptions {
    /// Where all randomness comes from.
    pub seed: u64,
    /// Longest lag of the index.
    pub index_lag: Option<Duration>,
    /// Write units a second of each key.
    pub partition_limit: Option<u32>,
    /// Requests whose reply is lost.
    pub lost_replies: Percent,
    /// Requests answered with an error.
    pub error_rate: Percent,
    /// Messages delivered again.
    pub duplicate_deliveries: Percent,
    /// Invocations whose environment is killed.
    pub kills: Percent,
    /// Lines that kill.
    pub kill_at: Vec<KillAt>,
    /// How long the sink is down.
    pub sink_down: Option<Duration>,
    /// Deliveries that fail at the sink's end.
    pub sink_error_rate: Percent,
}

impl FaultOptions {
    /// Whether any fault is on.
    pub fn any(&self) -> bool {
        self.index_lag.is_some()
            || self.partition_limit.is_some()
            || self.strikes_requests()
            || !self.duplicate_deliveries.is_zero()
            || !self.kills.is_zero()
            || !self.kill_at.is_empty()
            || self.sink_down.is_some()
            || !self.sink_error_rate.is_zero()
    }

    /// Whether any request may be struck, whatever it asks.
    pub(super) fn strikes_requests(&self) -> bool {
        !self.lost_replies.is_zero() || !self.error_rate.is_zero()
    }
}

impl FaultArgs {
    /// Whether deliveries are to fail at the sink's end.
    pub(crate) fn sink_errors(&self) -> bool {
        !self.sink_error_rate.is_zero()
    }

    /// Whether the file sink is to be down.
    pub(crate) fn sink_down(&self) -> bool {
        self.sink_down != 0.0
    }

    /// Checks the flags.
    ///
    /// # Errors
    /// A duration or a share out of range, an empty text, a limit of nothing.
    pub fn resolve(&self) -> anyhow::Result<FaultOptions> {
        if self.partition_limit == Some(0) {
            bail!("`--partition-limit 0` would let nothing be written, ever");
        }
        Ok(FaultOptions {
            seed: self.fault_seed,
            index_lag: duration("--index-lag", self.index_lag)?,
            partition_limit: self.partition_limit,
            lost_replies: self.lost_replies,
            error_rate: self.error_rate,
            duplicate_deliveries: self.duplicate_deliveries,
            kills: self.kills,
            kill_at: self
                .kill_at
                .iter()
                .map(|text| kill_at(text))
                .collect::<anyhow::Result<_>>()?,
            sink_down: duration("--sink-down", self.sink_down)?,
            sink_error_rate: self.sink_error_rate,
        })
    }
}

fn duration(flag: &str, secs: f64) -> anyhow::Result<Option<Duration>> {
    let duration = Duration::try_from_secs_f64(secs).with_context(|| format!("`{flag} {secs}`"))?;
    Ok((!duration.is_zero()).then_some(duration))
}

/// What follows the last colon is the probability, if it is a number: a text may hold colons itself.
fn kill_at(argument: &str) -> anyhow::Result<KillAt> {
    let (text, percent) = match argument.rsplit_once(':') {
        Some((text, percent)) if percent.parse::<f64>().is_ok() => (text, percent.parse()?),
        Some(_) | None => (argument, Percent::ALL),
    };
    if text.is_empty() {
        bail!("`--kill-at {argument}` names no text: every line has an empty one");
    }
    Ok(KillAt {
        text: text.to_owned(),
        percent,
        kills_max: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_kills_may_hold_a_colon_and_a_probability() {
        let parsed = |text| {
            let KillAt { text, percent, .. } = kill_at(text).unwrap();
            (text, percent)
        };
        let twenty = "20".parse().unwrap();
        assert_eq!(parsed("part frozen"), ("part frozen".into(), Percent::ALL));
        assert_eq!(parsed("part frozen:20"), ("part frozen".into(), twenty));
        assert_eq!(parsed("a: b"), ("a: b".into(), Percent::ALL));
        assert_eq!(parsed("a: b:20"), ("a: b".into(), twenty));
        assert!(kill_at(":20").is_err());
        assert!(kill_at("x:120").is_err());
    }

    #[test]
    fn without_flags_no_fault_is_on() {
        assert!(!FaultOptions::default().any());
    }

    #[test]
    fn durations_are_seconds_and_may_be_fractions() {
        assert_eq!(
            duration("--index-lag", 0.5).unwrap(),
            Some(Duration::from_millis(500))
        );
        assert_eq!(duration("--index-lag", 0.0).unwrap(), None);
        assert!(duration("--index-lag", -1.0).is_err());
    }
}
