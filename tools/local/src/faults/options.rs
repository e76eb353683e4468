//! The flags of the faults, and the options that they are checked into.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use emulators::Percent;

use super::outages::Outage;
use super::redeploys::Redeploy;

/// Flags of the faults. All faults are off by default.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Faults")]
pub struct FaultArgs {
    /// The seed of all faults. With any fault on, a message is received up to 100 times, not 5, before it is a dead letter
    #[arg(long, value_name = "N", default_value_t = 1)]
    fault_seed: u64,
    /// Longest lag with which batchId-index shows changes; each query draws its own lag
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    index_lag: f64,
    /// Write units per second of each lock item and each index key; one that has none left throttles the table
    #[arg(long, value_name = "UNITS")]
    partition_limit: Option<u32>,
    /// Write units per second of each whole table, and as many of its whole index; a new on-demand table on AWS has 4000
    #[arg(long, value_name = "UNITS")]
    table_limit: Option<u32>,
    /// Share of the functions' requests whose reply is lost; the requests are applied, some only after the caller gave up
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    lost_replies: Percent,
    /// Share of the functions' requests that are not applied: two of three return status 500, the others are throttled
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    error_rate: Percent,
    /// Share of the received messages that become visible again within 2 s, while they are in flight
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    duplicate_deliveries: Percent,
    /// Share of the invocations of both functions whose environment is killed at a random moment
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    kills: Percent,
    /// Kill an environment when it logs a line that contains TEXT, with this probability [default: 100]; may be repeated
    #[arg(long = "kill-at", value_name = "TEXT[:PERCENT]")]
    kill_at: Vec<String>,
    /// Share of the environments whose credentials expire within 5 s of their first request
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    expired_credentials: Percent,
    /// Time from the start for which the sink is down, as with --sink-outage 0:SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    sink_down: f64,
    /// The sink is down for FOR seconds, from AT seconds after the start: it returns 503, or cannot be written to; may be
    /// repeated
    #[arg(long = "sink-outage", value_name = "AT:FOR")]
    sink_outages: Vec<Outage>,
    /// Share of the deliveries to any sink but `file` and `sftp` that fail; half of them are stored before they fail
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    pub(crate) sink_error_rate: Percent,
    /// Share of the deliveries to the sink `sftp` whose connection is cut, after at most 128 KiB
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    pub(crate) cut_connections: Percent,
    /// Update the functions SECONDS after the start: new environments get these variables, and the others end after the
    /// invocation they are in; may be repeated
    #[arg(long = "redeploy-at", value_name = "SECONDS[:NAME=VALUE,...]")]
    redeploys: Vec<Redeploy>,
}

/// A line of the log at which environments are killed.
#[derive(Clone, Debug, PartialEq)]
pub struct KillAt {
    /// The text that the line contains.
    pub text: String,
    /// The probability with which such a line kills its environment.
    pub percent: Percent,
    /// Maximum number of kills per function; `None` for no limit.
    pub kills_max: Option<u64>,
}

/// The faults that are on: [`FaultArgs`] says what each is. The default is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultOptions {
    pub seed: u64,
    pub index_lag: Option<Duration>,
    pub partition_limit: Option<u32>,
    pub table_limit: Option<u32>,
    pub lost_replies: Percent,
    pub error_rate: Percent,
    pub duplicate_deliveries: Percent,
    pub kills: Percent,
    pub kill_at: Vec<KillAt>,
    pub expired_credentials: Percent,
    /// Sorted, and none overlaps another.
    pub sink_outages: Vec<Outage>,
    pub sink_error_rate: Percent,
    pub cut_connections: Percent,
    /// Sorted by time.
    pub redeploys: Vec<Redeploy>,
}

impl FaultOptions {
    /// Returns whether any fault or redeploy is on.
    pub fn any(&self) -> bool {
        let none = FaultOptions {
            seed: self.seed,
            ..FaultOptions::default()
        };
        *self != none
    }
}

impl FaultArgs {
    /// Returns whether the sink is to be down at any time.
    pub(crate) fn sink_outages(&self) -> bool {
        self.sink_down != 0.0 || !self.sink_outages.is_empty()
    }

    /// Checks the flags.
    ///
    /// # Errors
    /// A duration or a share is out of range, a text is empty, a limit is 0, or outages overlap.
    pub fn resolve(&self) -> anyhow::Result<FaultOptions> {
        for (flag, limit) in [
            ("--partition-limit", self.partition_limit),
            ("--table-limit", self.table_limit),
        ] {
            if limit == Some(0) {
                bail!("`{flag}`: too small: got `0`, expected at least 1");
            }
        }
        let lines = self.kill_at.iter().map(|text| kill_at(text));
        Ok(FaultOptions {
            seed: self.fault_seed,
            index_lag: duration("--index-lag", self.index_lag)?,
            partition_limit: self.partition_limit,
            table_limit: self.table_limit,
            lost_replies: self.lost_replies,
            error_rate: self.error_rate,
            duplicate_deliveries: self.duplicate_deliveries,
            kills: self.kills,
            kill_at: lines.collect::<anyhow::Result<_>>()?,
            expired_credentials: self.expired_credentials,
            sink_outages: self.outages()?,
            sink_error_rate: self.sink_error_rate,
            cut_connections: self.cut_connections,
            redeploys: self.redeploys.clone(),
        })
    }

    fn outages(&self) -> anyhow::Result<Vec<Outage>> {
        let from_the_start = duration("--sink-down", self.sink_down)?.map(|duration| Outage {
            at: Duration::ZERO,
            duration,
        });
        let mut outages = Vec::from_iter(from_the_start);
        outages.extend(&self.sink_outages);
        outages.sort_unstable();
        for pair in outages.windows(2) {
            if pair[1].at < pair[0].end() {
                bail!(
                    "`--sink-outage`: two outages overlap: got one that ends after {} s and one that begins after {} s",
                    pair[0].end().as_secs_f64(),
                    pair[1].at.as_secs_f64()
                );
            }
        }
        Ok(outages)
    }
}

fn duration(flag: &str, secs: f64) -> anyhow::Result<Option<Duration>> {
    let duration = Duration::try_from_secs_f64(secs)
        .with_context(|| format!("`{flag}`: wrong duration: got `{secs}`"))?;
    Ok((!duration.is_zero()).then_some(duration))
}

/// Parses `TEXT[:PERCENT]`. The text may contain colons: what follows the last colon is the probability only if it is a
/// number.
fn kill_at(argument: &str) -> anyhow::Result<KillAt> {
    let (text, percent) = match argument.rsplit_once(':') {
        Some((text, percent)) if percent.parse::<f64>().is_ok() => (text, percent.parse()?),
        Some(_) | None => (argument, Percent::ALL),
    };
    if text.is_empty() {
        bail!(
            "`--kill-at`: no text: got `{argument}`, expected TEXT[:PERCENT]: every line contains an empty text"
        );
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
        let half = Some(Duration::from_millis(500));
        assert_eq!(duration("--index-lag", 0.5).unwrap(), half);
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
        let flags = <Flags as clap::Parser>::try_parse_from(flags)?;
        flags.faults.resolve()
    }

    #[test]
    fn a_sink_that_is_down_from_the_start_is_one_more_outage() {
        let options = resolved(&["--sink-outage=9:1", "--sink-down=2", "--sink-outage=3:5"]);
        let outages = options.unwrap().sink_outages;
        let secs = |outage: &Outage| (outage.at.as_secs(), outage.end().as_secs());
        let secs = Vec::from_iter(outages.iter().map(secs));
        assert_eq!(secs, [(0, 2), (3, 8), (9, 10)]);
    }
}
