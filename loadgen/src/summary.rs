//! The summary of a burst through a stack, as text, as JSON, and as a record.

use std::fmt;

use planner::{
    BatchSpan, LatencySummary, Outcome, Record, RecordKind, SAMPLES_MAX, Sample, Setting,
};
use protocol::text::counted;
use serde::Serialize;

use crate::audit::{AuditReport, DuplicateRule};
use crate::send::SendReport;

/// How many batch sizes the text names.
const SIZES_SHOWN: usize = 8;

/// The lines that say what was sent, and what an audit found. Each line has its line break.
pub struct AuditLines<'a> {
    pub sent: &'a SendReport,
    pub audit: &'a AuditReport,
    /// Lines about the sink.
    pub sink: &'a dyn fmt::Display,
}

impl fmt::Display for AuditLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AuditLines { sent, audit, sink } = self;
        f.write_str(&sent_line(sent))?;
        writeln!(
            f,
            "delivered   {} in {}, {}",
            audit.delivered,
            counted(audit.batches.count, "batch"),
            counted(audit.batches.parts, "part")
        )?;
        if audit.rejected > 0 {
            writeln!(f, "rejected    {}", audit.rejected)?;
        }
        let sizes = audit.batches.sizes.iter().rev().take(SIZES_SHOWN);
        let sizes: Vec<String> = sizes
            .map(|(size, count)| format!("{count} x {size}"))
            .collect();
        writeln!(f, "sizes       {}", sizes.join(", "))?;
        write!(f, "{sink}")?;
        writeln!(f, "lost        {}", audit.lost)?;
        writeln!(f, "repeated    {}", audit.repeated)?;
        if audit.foreign + audit.corrupt + audit.mixed > 0 {
            writeln!(
                f,
                "unsound     {} foreign, {} corrupt, {} mixed",
                audit.foreign, audit.corrupt, audit.mixed
            )?;
        }
        Ok(())
    }
}

/// The verdict on a burst, for people: OK, or FAILED with the reasons.
pub struct Verdict<'a>(pub &'a [String]);

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("OK: nothing lost, nothing repeated"),
            reasons => write!(f, "FAILED: {}", reasons.join("; ")),
        }
    }
}

/// A summary as JSON, with its verdict.
#[derive(Debug, Serialize)]
pub struct Judged<'a, S> {
    ok: bool,
    reasons: Vec<String>,
    #[serde(flatten)]
    summary: &'a S,
}

impl<'a, S> Judged<'a, S> {
    /// Returns a summary that is good if there are no `reasons` against it.
    pub fn new(reasons: Vec<String>, summary: &'a S) -> Judged<'a, S> {
        Judged {
            ok: reasons.is_empty(),
            reasons,
            summary,
        }
    }
}

/// Returns the line that says what was sent.
fn sent_line(report: &SendReport) -> String {
    format!(
        "sent        {}, {} unique, {}\n",
        counted(report.sent, "message"),
        report.unique,
        counted(report.duplicates, "duplicate")
    )
}

/// What became of a burst through a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BurstSummary {
    pub stack: String,
    pub sent: SendReport,
    /// What the audit found; absent if the sink cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditReport>,
    /// Where the delivered parts are, or why there was no audit.
    pub sink: String,
    /// Deliveries that the stack must have made: distinct events, or messages with `ON_DUPLICATE=requeue`.
    pub expected: u64,
    /// Batches with events of the burst.
    pub batches: u64,
    /// Events in delivered parts, by the batch records.
    pub delivered_by_records: u64,
    pub in_error: u64,
    /// Messages that were set aside during the burst.
    pub set_aside: u64,
    /// When the last message was sent, in seconds from the start, as the two below.
    pub sent_after_secs: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_after_secs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drained_after_secs: Option<f64>,
    /// From send to delivery; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_latency: Option<LatencySummary>,
    /// Why the burst was not watched to its end, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
}

impl BurstSummary {
    /// Returns the deliveries that a stack with this rule must make.
    pub fn expected(sent: &SendReport, rule: DuplicateRule) -> u64 {
        match rule {
            DuplicateRule::Drop => sent.unique,
            DuplicateRule::Requeue => sent.messages,
        }
    }

    /// Returns whether everything was sent and delivered, nothing was repeated, set aside or left in error. Without an audit,
    /// the counts in the batch records must be right.
    pub fn ok(&self) -> bool {
        self.reasons().is_empty()
    }

    /// Returns why the burst is not [`ok`](Self::ok), a phrase each.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::from_iter(self.ended_early.clone());
        if !self.sent.complete {
            reasons.push("not everything was sent".to_owned());
        }
        match &self.audit {
            Some(audit) => reasons.extend(audit.reasons().iter().cloned()),
            None if self.delivered_by_records != self.expected => reasons.push(format!(
                "{} delivered by the batch records, {} expected",
                self.delivered_by_records, self.expected
            )),
            None => {}
        }
        let counts = [
            (self.set_aside, "message", "set aside"),
            (self.in_error, "batch", "in error"),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        reasons
            .extend(counts.map(|(count, noun, what)| format!("{} {what}", counted(count, noun))));
        reasons
    }

    /// Returns the latency from send to delivery, if it is known, and those of sending.
    fn latencies(&self) -> impl Iterator<Item = &LatencySummary> {
        self.delivery_latency.iter().chain(&self.sent.latencies)
    }

    /// Returns the record of the burst, with what was seen on the way.
    pub fn record(
        &self,
        began_at_ms: u64,
        settings: Vec<Setting>,
        samples: &[Sample],
        batches: Vec<BatchSpan>,
    ) -> Record {
        let mut notes = vec![
            "Counts of the queue are approximate, and those of the batches are from their records. The stack had no other \
             traffic, or the figures include it."
                .to_owned(),
        ];
        let audit = self.audit.as_ref();
        if audit.is_none() {
            notes.push(format!("Not audited: {}.", self.sink));
        }
        let messages = counted(self.sent.messages, "message");
        let title = format!("{messages} through {}", self.stack);
        Record {
            began_at_ms: Some(began_at_ms),
            settings,
            outcome: Outcome {
                ok: Some(self.ok()),
                reasons: self.reasons(),
                sent: self.sent.sent,
                unique: self.sent.unique,
                duplicates: self.sent.duplicates,
                delivered: audit.map(|audit| audit.delivered),
                lost: audit.map(|audit| audit.lost),
                repeated: audit.map(|audit| audit.repeated),
                set_aside: Some(self.set_aside),
                sent_after_secs: Some(self.sent_after_secs),
                claimed_after_secs: self.claimed_after_secs,
                drained_after_secs: self.drained_after_secs,
                send_retries: Some(self.sent.retries),
            },
            samples: thinned(samples),
            batches,
            latencies: self.latencies().cloned().collect(),
            notes,
            ..Record::bare(RecordKind::Burst, title)
        }
    }
}

/// Returns at most [`SAMPLES_MAX`] samples at equal distances, the last one included.
fn thinned(samples: &[Sample]) -> Vec<Sample> {
    let step = samples.len().div_ceil(SAMPLES_MAX).max(1);
    let mut thin: Vec<Sample> = samples.iter().rev().step_by(step).cloned().collect();
    thin.reverse();
    thin
}

/// Lines for people.
impl fmt::Display for BurstSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.reasons(), &self.audit) {
            ([], None) => f.write_str("OK by the batch records; the sink was not audited")?,
            (reasons, _) => write!(f, "{}", Verdict(reasons))?,
        }
        writeln!(f)?;
        let sink = format!("sink        {}\n", self.sink);
        match &self.audit {
            Some(audit) => {
                let (sent, sink) = (&self.sent, &sink);
                write!(f, "{}", AuditLines { sent, audit, sink })?;
            }
            None => {
                f.write_str(&sent_line(&self.sent))?;
                writeln!(
                    f,
                    "delivered   {} in {} by the batch records, {} expected",
                    self.delivered_by_records,
                    counted(self.batches, "batch"),
                    self.expected
                )?;
                write!(f, "{sink}")?;
            }
        }
        writeln!(
            f,
            "set aside   {}, {} in error",
            counted(self.set_aside, "message"),
            counted(self.in_error, "batch")
        )?;
        write!(f, "time        sent after {:.1} s", self.sent_after_secs)?;
        for (what, at) in [
            ("claimed", self.claimed_after_secs),
            ("drained", self.drained_after_secs),
        ] {
            if let Some(at) = at {
                write!(f, ", {what} after {at:.1} s")?;
            }
        }
        for LatencySummary {
            name,
            p50_secs,
            p99_secs,
            max_secs,
            ..
        } in self.latencies()
        {
            write!(
                f,
                "\nlatency     {name}: median {p50_secs:.3} s, p99 {p99_secs:.3} s, max {max_secs:.3} s"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(complete: bool) -> SendReport {
        SendReport {
            complete,
            messages: 10,
            sent: 10,
            unique: 9,
            duplicates: 1,
            ..SendReport::default()
        }
    }

    fn summary() -> BurstSummary {
        BurstSummary {
            sent: sent(true),
            expected: 9,
            delivered_by_records: 9,
            ..BurstSummary::default()
        }
    }

    #[test]
    fn without_an_audit_the_counts_of_the_records_decide() {
        assert!(summary().ok());
        let verdict = "OK by the batch records; the sink was not audited\n";
        assert!(summary().to_string().starts_with(verdict));
        for delivered_by_records in [8, 10] {
            let other = BurstSummary {
                delivered_by_records,
                ..summary()
            };
            let text = other.to_string();
            let what = "delivered by the batch records, 9 expected";
            let verdict = format!("FAILED: {delivered_by_records} {what}\n");
            assert!(!other.ok() && text.starts_with(&verdict), "{text}");
            // No count is beyond its total.
            assert!(!text.contains("10 of 9"), "{text}");
        }
    }

    #[test]
    fn what_was_set_aside_left_or_not_sent_fails_the_burst() {
        let wrong = BurstSummary {
            sent: sent(false),
            set_aside: 1,
            in_error: 2,
            ended_early: Some("stopped".to_owned()),
            ..summary()
        };
        let reasons = [
            "stopped",
            "not everything was sent",
            "1 message set aside",
            "2 batches in error",
        ];
        assert_eq!(wrong.reasons(), reasons);
        assert!(!wrong.ok());
        let verdict =
            "FAILED: stopped; not everything was sent; 1 message set aside; 2 batches in error\n";
        assert!(wrong.to_string().starts_with(verdict), "{wrong}");
        let record = wrong.record(0, Vec::new(), &[], Vec::new());
        assert_eq!(record.outcome.ok, Some(false));
        assert_eq!(record.outcome.reasons, reasons);
    }

    #[test]
    fn with_requeue_every_message_must_be_delivered() {
        assert_eq!(BurstSummary::expected(&sent(true), DuplicateRule::Drop), 9);
        let expected = BurstSummary::expected(&sent(true), DuplicateRule::Requeue);
        assert_eq!(expected, 10);
    }

    #[test]
    fn a_record_keeps_the_last_of_too_many_samples() {
        let at = |second: usize| Sample {
            at_secs: second as f64,
            ..Sample::default()
        };
        let samples: Vec<Sample> = (0..SAMPLES_MAX * 3 + 1).map(at).collect();
        let record = summary().record(0, Vec::new(), &samples, Vec::new());
        assert!(record.samples.len() <= SAMPLES_MAX);
        assert_eq!(record.samples.last(), samples.last());
        let mut notes = record.notes.iter();
        assert!(notes.any(|note| note.starts_with("Not audited: ")));
    }
}
