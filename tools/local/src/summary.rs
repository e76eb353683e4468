//! The summary of a burst, as text and as JSON.

use std::fmt;
use std::time::Duration;

use emulators::lambda::FunctionStats;
use emulators::sqs::Depth;
use loadgen::{AuditLines, AuditReport, SendReport, Verdict};
use planner::ReportFiles;
use protocol::text::counted;
use serde::Serialize;

use crate::faults::FaultReport;
use crate::given_back::GivenBack;
use crate::latency::{Claims, Latencies};
use crate::ledger::Ledger;
use crate::notices::NoticeReport;
use crate::recovery::OutageReport;
use crate::sink::SinkReport;

/// The summary of a burst.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub sent: SendReport,
    /// How the delivered events differ from the sent ones.
    pub audit: AuditReport,
    pub sink: SinkReport,
    pub time: TimeSplit,
    pub claims: Claims,
    pub latency: Latencies,
    pub cost: Ledger,
    pub aggregator: Usage,
    pub batch_processor: Usage,
    pub set_aside: SetAside,
    /// The number of batches in `error`.
    pub batches_in_error: usize,
    pub tickets_given_back: GivenBack,
    /// The outages of the sink that began during the burst.
    pub sink_outages: Vec<OutageReport>,
    /// `None` if no fault was on.
    pub faults: Option<FaultReport>,
    /// `None` without `--completion`.
    pub notices: Option<NoticeReport>,
    /// The record of the burst and its report; `None` if they were not written.
    pub report: Option<ReportFiles>,
    /// What to look at first if the burst failed.
    pub next: Option<String>,
}

/// The summary as text, for people.
pub struct SummaryText<'a> {
    pub summary: &'a Summary,
    /// Whether to show units and prices.
    pub cost: bool,
}

/// When the phases of a burst ended, in seconds from the first send.
#[derive(Debug, Serialize)]
pub struct TimeSplit {
    /// The last message was sent.
    pub sent_secs: f64,
    /// The input queue was empty.
    pub claimed_secs: f64,
    /// The last batch was complete.
    pub drained_secs: f64,
    /// The duration of the audit alone, not a time from the first send.
    pub audit_secs: f64,
}

/// The resources that one function used.
#[derive(Debug, Serialize)]
pub struct Usage {
    /// Environments started.
    pub cold_starts: u64,
    /// Mean time from the start of a process to its first poll, in milliseconds.
    pub cold_start_ms: f64,
    pub invocations: u64,
    /// Invocations that ended by a timeout or a crash.
    pub killed: u64,
    /// Sum of the durations of all invocations, of all environments.
    pub invoke_secs: f64,
    /// CPU time of all processes, cold starts included.
    pub cpu_secs: f64,
    /// CPU time per message sent, in microseconds.
    pub cpu_micros_per_message: f64,
    /// Largest resident set of one process, in MiB.
    pub peak_mb: f64,
}

impl Usage {
    /// Returns the resources that a function used for `messages` sent messages.
    pub fn of(stats: &FunctionStats, messages: u64) -> Usage {
        let cpu = stats.cpu.total();
        Usage {
            cold_starts: stats.cold_starts,
            cold_start_ms: per(stats.init_time, stats.cold_starts - stats.init_failures) / 1e3,
            invocations: stats.invocations,
            killed: stats.timeouts + stats.crashes,
            invoke_secs: stats.invoke_time.as_secs_f64(),
            cpu_secs: cpu.as_secs_f64(),
            cpu_micros_per_message: per(cpu, messages),
            peak_mb: stats.peak_rss_bytes_max as f64 / f64::from(1 << 20),
        }
    }
}

/// Returns a time divided by a count, in microseconds.
fn per(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e6 / count.max(1) as f64
}

/// Messages that went to the quarantine or became dead letters.
#[derive(Debug, Serialize)]
pub struct SetAside {
    /// Messages in the quarantine.
    pub quarantined: usize,
    /// Messages of the input queue that were received too often.
    pub dead_letters: usize,
    /// Tickets that were received too often.
    pub dead_tickets: usize,
}

impl SetAside {
    /// Returns the number of all of them.
    pub fn total(&self) -> u64 {
        (self.quarantined + self.dead_letters + self.dead_tickets) as u64
    }

    /// Returns the counts from the depths of the three queues.
    pub fn of(quarantine: Depth, dead_letters: Depth, dead_tickets: Depth) -> SetAside {
        let all = |depth: Depth| depth.visible + depth.in_flight + depth.delayed;
        SetAside {
            quarantined: all(quarantine),
            dead_letters: all(dead_letters),
            dead_tickets: all(dead_tickets),
        }
    }
}

impl Summary {
    /// Returns whether nothing was lost, repeated, changed between attempts, set aside, or left in error.
    pub fn ok(&self) -> bool {
        self.reasons().is_empty()
    }

    /// Returns why the burst is not [`ok`](Self::ok), a phrase each.
    pub fn reasons(&self) -> Vec<String> {
        let SetAside {
            quarantined,
            dead_letters,
            dead_tickets,
        } = self.set_aside;
        let mut reasons = self.audit.reasons().to_vec();
        reasons.extend(self.sink.problems());
        let counts = [
            (quarantined, "message", " in quarantine"),
            (dead_letters, "dead letter", ""),
            (dead_tickets, "dead ticket", ""),
            (self.batches_in_error, "batch", " in error"),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        reasons.extend(counts.map(|(count, noun, what)| counted(count, noun) + what));
        let notices = self.notices.as_ref();
        reasons.extend(notices.and_then(|notices| notices.problem(self.audit.delivered)));
        reasons
    }
}

impl fmt::Display for SummaryText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SummaryText { summary, cost } = *self;
        let Summary {
            sent, audit, sink, ..
        } = summary;
        writeln!(f, "{}", Verdict(&summary.reasons()))?;
        if let Some(next) = &summary.next {
            writeln!(f, "look at     {next}")?;
        }
        write!(f, "{}", AuditLines { sent, audit, sink })?;
        if let Some(notices) = &summary.notices {
            write!(f, "{notices}")?;
        }
        summary.fmt_set_aside(f)?;
        summary.fmt_usage(f)?;
        write!(f, "{}{}", summary.latency, summary.tickets_given_back)?;
        for outage in &summary.sink_outages {
            write!(f, "{outage}")?;
        }
        if cost {
            write!(f, "{}", summary.cost)?;
        }
        if let Some(faults) = &summary.faults {
            write!(f, "{faults}")?;
        }
        if let Some(ReportFiles { record, report }) = &summary.report {
            writeln!(f, "record      {}", record.display())?;
            writeln!(f, "report      {}", report.display())?;
        }
        Ok(())
    }
}

impl Summary {
    fn fmt_set_aside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set_aside = &self.set_aside;
        if set_aside.total() == 0 && self.batches_in_error == 0 && self.faults.is_none() {
            return Ok(());
        }
        writeln!(
            f,
            "set aside   {} quarantined, {}, {}, {} in error",
            set_aside.quarantined,
            counted(set_aside.dead_letters, "dead letter"),
            counted(set_aside.dead_tickets, "dead ticket"),
            counted(self.batches_in_error, "batch")
        )
    }

    fn fmt_usage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = &self.time;
        writeln!(
            f,
            "time        sent after {:.1} s, claimed after {:.1} s, drained after {:.1} s; audit {:.1} s",
            time.sent_secs, time.claimed_secs, time.drained_secs, time.audit_secs
        )?;
        write!(f, "{}", self.claims)?;
        for (name, usage) in [
            ("aggregator", &self.aggregator),
            ("processor", &self.batch_processor),
        ] {
            writeln!(
                f,
                "{name:<11} {} in {} ({} killed; cold start {:.0} ms), {:.1} s, CPU {:.1} s = {:.1} µs a message, peak {:.0} MB",
                counted(usage.invocations, "invocation"),
                counted(usage.cold_starts, "environment"),
                usage.killed,
                usage.cold_start_ms,
                usage.invoke_secs,
                usage.cpu_secs,
                usage.cpu_micros_per_message,
                usage.peak_mb
            )?;
        }
        Ok(())
    }
}
