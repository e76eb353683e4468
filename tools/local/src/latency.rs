//! The latency of delivered batches: from the time at which the table acknowledged the last claim, to the time at which the
//! last part was complete at the sink. Also the rate of claims.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde::Serialize;

/// Claims of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Claims {
    /// Claims that were written, or seats that were reserved in batches of the log. An event has several if a fault made a claim useless.
    pub count: u64,
    /// The time from the first to the last of them.
    pub secs: f64,
    /// Claims a second in that time; 0 if that time is 0.
    pub per_second: f64,
}

impl Claims {
    /// Returns the rate of `count` claims that were written in this time.
    pub(crate) fn new(count: u64, time: Duration) -> Claims {
        let secs = time.as_secs_f64();
        Claims {
            count,
            secs,
            per_second: match secs {
                0.0 => 0.0,
                secs => count as f64 / secs,
            },
        }
    }
}

/// One line for people, with its line break.
impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, secs, rate) = (self.count, self.secs, self.per_second);
        writeln!(f, "claims      {count} in {secs:.1} s, {rate:.0} a second")
    }
}

/// Latencies of the batches of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// Latencies of all batches; `None` if there are none, like the others.
    pub all: Option<Latency>,
    /// Latencies of the batches that were sealed because they were full. They are processed at once.
    pub full: Option<Latency>,
    /// Latencies of the other batches, which wait until their window closes or their source is drained.
    pub drained: Option<Latency>,
}

/// The distribution of the latencies of some batches, in seconds. Each figure is a latency that occurred.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The number of batches.
    pub batches: usize,
    pub median_secs: f64,
    /// The 99th percentile: the maximum if there are fewer than 100 batches.
    pub p99_secs: f64,
    pub max_secs: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct DeliveredBatch {
    pub latency: Duration,
    /// Whether it was sealed because it was full.
    pub full: bool,
}

impl Latencies {
    pub fn of(delivered: &[DeliveredBatch]) -> Latencies {
        let of = |which: &dyn Fn(&DeliveredBatch) -> bool| {
            let batches = delivered.iter().filter(|one| which(one));
            Latency::of(batches.map(|one| one.latency).collect())
        };
        Latencies {
            all: of(&|_| true),
            full: of(&|one| one.full),
            drained: of(&|one| !one.full),
        }
    }
}

impl Latency {
    fn of(mut sorted: Vec<Duration>) -> Option<Latency> {
        sorted.sort_unstable();
        let max = sorted.last()?;
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100) - 1];
        Some(Latency {
            batches: sorted.len(),
            median_secs: rank(50).as_secs_f64(),
            p99_secs: rank(99).as_secs_f64(),
            max_secs: max.as_secs_f64(),
        })
    }
}

/// Returns when each file in the directory of a batch was complete, sorted: parts, manifests and reject lists. Returns none
/// if the directory does not exist.
///
/// The time is that of the last change of the inode. The sink writes a file under a temporary name, links it to its final
/// name, and removes the temporary name, so the inode changes for the last time when the file is complete.
pub fn delivered_at(batch: &Path) -> anyhow::Result<Vec<SystemTime>> {
    let mut times = Vec::new();
    if !batch.exists() {
        return Ok(times);
    }
    for entry in std::fs::read_dir(batch).with_context(|| batch.display().to_string())? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let metadata = entry.metadata()?;
        let (secs, nanos) = (metadata.ctime(), metadata.ctime_nsec());
        let since_epoch = Duration::new(u64::try_from(secs)?, u32::try_from(nanos)?);
        times.push(UNIX_EPOCH + since_epoch);
    }
    times.sort_unstable();
    Ok(times)
}

/// A line for people for each kind of batch that occurred, each with its line break.
impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, latency) in [("full", &self.full), ("drained", &self.drained)] {
            if let Some(latency) = latency {
                writeln!(
                    f,
                    "latency     {kind} batches, last claim to delivery: median {:.2} s, p99 {:.2} s, max {:.2} s of {}",
                    latency.median_secs, latency.p99_secs, latency.max_secs, latency.batches
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(latencies: impl IntoIterator<Item = u64>, full: bool) -> Vec<DeliveredBatch> {
        let batch = |secs| DeliveredBatch {
            latency: Duration::from_secs(secs),
            full,
        };
        latencies.into_iter().map(batch).collect()
    }

    #[test]
    fn ranks_are_latencies_that_occurred() {
        let spread = |latencies: Vec<DeliveredBatch>| {
            let all = Latencies::of(&latencies).all.unwrap();
            (all.batches, all.median_secs, all.p99_secs, all.max_secs)
        };
        assert_eq!(spread(batches([3], true)), (1, 3.0, 3.0, 3.0));
        assert_eq!(spread(batches([4, 1], true)), (2, 1.0, 4.0, 4.0));
        let many = batches((1..=200).rev(), true);
        assert_eq!(spread(many), (200, 100.0, 198.0, 200.0));
    }

    #[test]
    fn full_batches_and_the_others_are_measured_apart() {
        assert_eq!(Latencies::of(&[]), Latencies::default());
        let both = [batches([1, 2], true), batches([60], false)].concat();
        let Latencies { all, full, drained } = Latencies::of(&both);
        let max = |latency: Option<Latency>| latency.unwrap().max_secs;
        assert_eq!((max(all), max(full), max(drained)), (60.0, 2.0, 60.0));
    }

    #[test]
    fn a_batch_is_delivered_when_its_last_part_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let batch = directory.path().join("b");
        assert!(delivered_at(&batch).unwrap().is_empty());
        std::fs::create_dir(&batch).unwrap();
        std::fs::write(batch.join(".0.jsonl.1.tmp"), "").unwrap();
        assert!(delivered_at(&batch).unwrap().is_empty());
        // The clock with which the kernel stamps files may be a tick behind.
        let before = SystemTime::now() - Duration::from_millis(20);
        std::fs::hard_link(batch.join(".0.jsonl.1.tmp"), batch.join("0.jsonl")).unwrap();
        let [at] = *delivered_at(&batch).unwrap() else {
            panic!("there is one part");
        };
        assert!(at >= before && at <= SystemTime::now());
    }
}
