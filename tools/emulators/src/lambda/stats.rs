//! Statistics of functions, environments and mappings: counts and times of invocations, CPU time and memory of processes.
//!
//! CPU time and memory are sampled from `/proc` while a process lives, and the last sample is kept. The CPU time that a
//! process uses between its last sample and its end is not counted.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

use super::partial_batch_response::OutcomeReason;
use crate::sqs::RequestCount;

/// CPU time of all threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// Returns the sum of user and system time.
    pub fn total(&self) -> Duration {
        self.user + self.system
    }
}

/// The state of an execution environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentState {
    /// The process runs and has not polled the Runtime API yet.
    Starting,
    /// Initialised, without an invocation.
    Idle,
    /// Initialised, with invocations.
    Busy {
        /// Number of invocations assigned.
        invocations: u32,
    },
    /// Killed or exiting: takes no more invocations, and is not reaped yet.
    Ending,
    /// The process is reaped.
    Ended {
        /// Exit status of the process; `None` if it never started.
        exit: Option<ExitStatus>,
    },
}

/// State and resources of one execution environment, running or ended.
#[derive(Clone, Debug)]
pub struct EnvironmentStatus {
    /// Number within the function, from 1, in order of start.
    pub number: u32,
    /// Process id; `None` if the process never started.
    pub pid: Option<u32>,
    /// Current state.
    pub state: EnvironmentState,
    /// Time from the start of the process to its first poll; `None` until then.
    pub init_time: Option<Duration>,
    /// CPU time at the last sample.
    pub cpu: CpuTime,
    /// Peak resident set in bytes at the last sample.
    pub peak_rss_bytes: u64,
}

/// Totals of a function over all its environments, running and ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionStats {
    /// Environments started.
    pub cold_starts: u64,
    /// Environments that failed to initialise.
    pub init_failures: u64,
    /// Sum of the init times of environments that initialised.
    pub init_time: Duration,
    /// Invocations that ended, whatever their outcome. Invocations refused for their size or after shutdown are not counted.
    pub invocations: u64,
    /// Invocations that returned a function error.
    pub function_errors: u64,
    /// Invocations killed at their deadline.
    pub timeouts: u64,
    /// Invocations whose process exited.
    pub crashes: u64,
    /// Sum of the durations of invocations, from assignment to outcome, without init.
    pub invoke_time: Duration,
    /// Maximum number of invocations that ran at one time.
    pub concurrency_max: u32,
    /// CPU time of all environments.
    pub cpu: CpuTime,
    /// Highest peak resident set of any one environment, in bytes.
    pub peak_rss_bytes_max: u64,
}

/// Totals of an event source mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingStats {
    /// Invocations that ended, one per batch.
    pub invocations: u64,
    /// Records in those batches.
    pub records: u64,
    /// Records deleted from the queue. Those neither deleted nor returned could not be deleted, for instance because the queue
    /// no longer exists.
    pub deleted: u64,
    /// Records left in the queue, which become visible again after the visibility timeout.
    pub returned: u64,
    /// `returned` by reason.
    pub returned_by: BTreeMap<OutcomeReason, u64>,
    /// Records in the largest batch.
    pub batch_records_max: u64,
    /// Bytes of the largest event.
    pub batch_bytes_max: u64,
}

/// Number of requests of an event source mapping to its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingRequests {
    /// `ReceiveMessage`.
    pub receives: RequestCount,
    /// `DeleteMessageBatch`.
    pub deletes: RequestCount,
}

/// Samples of the process of one environment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EnvironmentUsage {
    pub(super) cpu: CpuTime,
    pub(super) peak_rss_bytes: u64,
}

impl EnvironmentUsage {
    /// Samples CPU time and memory of a process; keeps the last sample if the process is gone.
    pub(super) fn sample(&mut self, pid: u32) {
        let read = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        if let Some(cpu) = read("stat").as_deref().and_then(cpu_of_stat) {
            self.cpu = cpu;
        }
        // The status of a zombie has no VmHWM line.
        if let Some(bytes) = read("status").as_deref().and_then(peak_rss_of_status) {
            self.peak_rss_bytes = self.peak_rss_bytes.max(bytes);
        }
    }
}

/// Reads `utime` and `stime`, fields 14 and 15 of `/proc/<pid>/stat`.
/// Source: <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>
fn cpu_of_stat(stat: &str) -> Option<CpuTime> {
    // The kernel counts in ticks of 1/USER_HZ seconds. USER_HZ is 100 on x86-64 and arm64.
    const TICK: Duration = Duration::from_millis(10);
    // The second field is the name of the program in parentheses; the name may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut time = || Some(TICK * fields.next()?.parse::<u32>().ok()?);
    Some(CpuTime {
        user: time()?,
        system: time()?,
    })
}

/// Reads `VmHWM` of `/proc/<pid>/status`; returns bytes.
fn peak_rss_of_status(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_read_behind_a_program_name_with_spaces_and_parentheses() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 1 0 99 1 1";
        let cpu = cpu_of_stat(stat).unwrap();
        let ms = Duration::from_millis;
        let (user, system) = (ms(1500), ms(250));
        assert_eq!(cpu, CpuTime { user, system });
        assert_eq!(cpu.total(), ms(1750));
        assert_eq!(cpu_of_stat("42 (short) S 1"), None);
    }

    #[test]
    fn peak_memory_is_the_high_water_mark_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 100 kB\n";
        assert_eq!(peak_rss_of_status(status), Some(2 << 20));
        assert_eq!(peak_rss_of_status("Name:\tzombie\n"), None);
    }

    #[test]
    fn a_sample_of_this_process_sees_memory_and_a_missing_process_changes_nothing() {
        let mut usage = EnvironmentUsage::default();
        usage.sample(std::process::id());
        let seen = usage.peak_rss_bytes;
        assert!(seen > 0);
        usage.sample(u32::MAX);
        assert_eq!(usage.peak_rss_bytes, seen);
    }
}
