//! The flags, and what they come to.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use emulators::Percent;

use super::outages::Outage;
use super::redeploys::Redeploy;

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
    /// Write units a second of each lock item and each key of an index; one with none left throttles the table
    #[arg(long, value_name = "UNITS")]
    partition_limit: Option<u32>,
    /// Write units a second of the whole lock table, and as many of its whole index; a new table takes 4000
    #[arg(long, value_name = "UNITS")]
    table_limit: Option<u32>,
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
    /// Share of the environments whose credentials expire within 5 s of their first request
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    expired_credentials: Percent,
    /// The sink is down from the start for so long, as with --sink-outage 0:SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    sink_down: f64,
    /// From AT seconds after the start on, the sink returns 503 or cannot be written to for FOR seconds; may be repeated
    #[arg(long = "sink-outage", value_name = "AT:FOR")]
    sink_outages: Vec<Outage>,
    /// Share of the deliveries to `s3`, `http` or `postgres` that fail; half of them were stored
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    sink_error_rate: Percent,
    /// So many seconds after the start the functions are updated: environments started then have these variables, those of
    /// before end with the invocation they are in; may be repeated
    #[arg(long = "redeploy-at", value_name = "SECONDS[:NAME=VALUE,...]")]
    redeploys: Vec<Redeploy>,
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
    /// Write units a second of the whole lock table, and as many of its whole index.
    pub table_limit: Option<u32>,
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
    /// Environments whose credentials expire.
    pub expired_credentials: Percent,
    /// Times at which the sink is down, in order.
    pub sink_outages: Vec<Outage>,
    /// Deliveries that fail at the sink's end.
    pub sink_error_rate: Percent,
    /// Updates of the functions' configuration, in order.
    pub redeploys: Vec<Redeploy>,
}

impl FaultOptions {
    /// Whether any fault is on.
    pub fn any(&self) -> bool {
        self.index_lag.is_some()
            || self.partition_limit.is_some()
            || self.table_limit.is_some()
            || self.strikes_requests()
            || !self.duplicate_deliveries.is_zero()
            || !self.kills.is_zero()
            || !self.kill_at.is_empty()
            || !self.expired_credentials.is_zero()
            || !self.sink_outages.is_empty()
            || !self.sink_error_rate.is_zero()
            || !self.redeploys.is_empty()
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

    /// Whether the sink is to be down at any time.
    #[cfg(feature = "postgres")]
    pub(crate) fn sink_outages(&self) -> bool {
        self.sink_down != 0.0 || !self.sink_outages.is_empty()
    }

    /// Checks the flags.
    ///
    /// # Errors
    /// A duration or a share out of range, an empty text, a limit of nothing, outages that overlap.
    pub fn resolve(&self) -> anyhow::Result<FaultOptions> {
        for (flag, limit) in [
            ("--partition-limit", self.partition_limit),
            ("--table-limit", self.table_limit),
        ] {
            if limit == Some(0) {
                bail!("`{flag} 0` would let nothing be written, ever");
            }
        }
        let mut redeploys = self.redeploys.clone();
        redeploys.sort_by_key(|redeploy| redeploy.at);
        Ok(FaultOptions {
            seed: self.fault_seed,
            index_lag: duration("--index-lag", self.index_lag)?,
            partition_limit: self.partition_limit,
            table_limit: self.table_limit,
            lost_replies: self.lost_replies,
            error_rate: self.error_rate,
            duplicate_deliveries: self.duplicate_deliveries,
            kills: self.kills,
            kill_at: self
                .kill_at
                .iter()
                .map(|text| kill_at(text))
                .collect::<anyhow::Result<_>>()?,
            expired_credentials: self.expired_credentials,
            sink_outages: self.outages()?,
            sink_error_rate: self.sink_error_rate,
            redeploys,
        })
    }

    fn outages(&self) -> anyhow::Result<Vec<Outage>> {
        let from_the_start = duration("--sink-down", self.sink_down)?.map(|time| Outage {
            at: Duration::ZERO,
            time,
        });
        let mut outages = Vec::from_iter(from_the_start);
        outages.extend(&self.sink_outages);
        outages.sort_unstable();
        for pair in outages.windows(2) {
            if pair[1].at < pair[0].end() {
                bail!(
                    "`--sink-outage`: two outages overlap: one ends after {} s, the next begins after {} s",
                    pair[0].end().as_secs_f64(),
                    pair[1].at.as_secs_f64()
                );
            }
        }
        Ok(outages)
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

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        faults: FaultArgs,
    }

    fn resolved(flags: &[&str]) -> anyhow::Result<FaultOptions> {
        let flags = [&["flags"], flags].concat();
        <Flags as clap::Parser>::try_parse_from(flags)?
            .faults
            .resolve()
    }

    #[test]
    fn a_sink_that_is_down_from_the_start_is_one_more_outage() {
        let options = resolved(&["--sink-outage=9:1", "--sink-down=2", "--sink-outage=3:5"]);
        let outages = options.unwrap().sink_outages;
        let secs = |outage: &Outage| (outage.at.as_secs(), outage.end().as_secs());
        assert_eq!(
            Vec::from_iter(outages.iter().map(secs)),
            [(0, 2), (3, 8), (9, 10)]
        );
        let overlapping = resolved(&["--sink-down=2", "--sink-outage=1:5"]).unwrap_err();
        assert!(overlapping.to_string().contains("overlap"), "{overlapping}");
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        for flag in ["--partition-limit", "--table-limit"] {
            let error = resolved(&[flag, "0"]).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
    }
}
