//! Sends a burst through a stack, watches it to its end, and audits it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ::stack::watch::{Seen, SentSoFar, WatchOptions, watch};
use ::stack::{Connection, WatchError};
use planner::{LatencySummary, Record};

use crate::audit::{AuditError, AuditReport, Manifests, audit_watched};
use crate::delivery_times::DeliveryTimes;
use crate::send::{Halt, SendError, SendOptions, SendState, Sent, send_until};
use crate::sent_times::SentTimes;
use crate::summary::BurstSummary;
use crate::workload::Workload;

use super::description::Stack;
use super::parts::{Parts, PartsError, fetch_parts, is_database};

/// A burst through a stack.
#[derive(Debug)]
pub struct Run<'a> {
    pub connection: &'a Connection,
    pub stack: &'a Stack,
    pub workload: &'a Workload,
    pub send: SendOptions,
    /// When the burst began, in milliseconds of Unix time.
    pub began_at_ms: u64,
    /// Time between two looks at the stack.
    pub every: Duration,
    /// See [`WatchOptions::quiet`].
    pub quiet: Duration,
    /// See [`WatchOptions::patience`].
    pub patience: Duration,
    /// The place of the parts, in place of what the stack says.
    pub sink: Option<String>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub summary: BurstSummary,
    pub record: Record,
    /// Where a later run can continue, if the burst was stopped.
    pub rest: Option<SendState>,
}

/// Why a run has no summary.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("watch the stack: {0}")]
    Watch(#[from] WatchError),
    #[error("fetch the parts: {0}")]
    Parts(#[from] PartsError),
    #[error(transparent)]
    Audit(#[from] AuditError),
}

/// Progress of a run, for people.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunProgress {
    pub sent: u64,
    pub retries: u64,
    pub claimed: u64,
}

impl Run<'_> {
    /// Runs the burst. `halt` ends it early: while messages are sent, the rest is not sent; after that, the stack is not watched
    /// any longer.
    ///
    /// # Errors
    /// A message cannot be sent, the stack cannot be watched, or the parts cannot be read.
    pub async fn run(
        self,
        halt: &Halt,
        progress: &(dyn Fn(RunProgress) + Send + Sync),
    ) -> Result<Ended, RunError> {
        let started = Instant::now();
        let times = SentTimes::new(started);
        let state = Mutex::new((RunProgress::default(), false));
        let update = |change: &dyn Fn(&mut (RunProgress, bool))| {
            let mut state = state.lock().expect("no holder of the lock panics");
            change(&mut state);
            progress(state.0);
        };
        let sending = async {
            let done = |done: crate::send::SendProgress| {
                times.acknowledged(done.acknowledged);
                update(&|state| {
                    (state.0.sent, state.0.retries) = (done.acknowledged, done.retries);
                });
            };
            let sent =
                send_until(&self.connection.sqs, self.workload, &self.send, halt, &done).await;
            update(&|state| state.1 = true);
            sent.map(|sent| (sent, started.elapsed().as_secs_f64()))
        };
        let so_far = || {
            let state = state.lock().expect("no holder of the lock panics");
            SentSoFar {
                messages: state.0.sent,
                ended: state.1,
            }
        };
        let look = |sample: &planner::Sample| {
            let claimed = sample.claimed.unwrap_or_default();
            update(&|state| state.0.claimed = claimed);
        };
        let options = WatchOptions {
            began_at_ms: self.began_at_ms,
            unique: self.workload.unique(),
            every: self.every,
            quiet: self.quiet,
            patience: self.patience,
        };
        let watching = watch(
            self.connection,
            &self.stack.watched,
            options,
            halt.stopped(),
            &so_far,
            &look,
        );
        let (sent, seen) = tokio::join!(sending, watching);
        let ((sent, sent_after_secs), seen) = (sent?, seen?);
        self.finish(sent, sent_after_secs, seen, &times, halt).await
    }

    async fn finish(
        self,
        sent: Sent,
        sent_after_secs: f64,
        mut seen: Seen,
        times: &SentTimes,
        halt: &Halt,
    ) -> Result<Ended, RunError> {
        let sent_times = times.of_events(self.workload, &self.send.schedule);
        let mut deliveries = DeliveryTimes::new(seen.parts.iter().cloned(), sent_times);
        // A burst that was stopped earlier is audited all the same, unless that is stopped too.
        let was_stopped = halt.is_stopped();
        let stopped = async {
            match was_stopped {
                true => halt.aborted().await,
                false => halt.stopped().await,
            }
        };
        let (audit, sink) = tokio::select! {
            audited = self.audit(&seen, &mut deliveries) => audited?,
            () = stopped => {
                let early = seen.ended_early.take();
                seen.ended_early = early.or(Some("stopped before the audit".to_owned()));
                (None, "not read: stopped before the audit".to_owned())
            }
        };
        let latency = self.latency(audit.is_some(), &sent, &deliveries);
        let batches = seen.batches.iter();
        let delivered = batches.filter(|batch| batch.delivered_secs.is_some());
        let summary = BurstSummary {
            stack: self.stack.name.clone(),
            expected: BurstSummary::expected(&sent.report, self.stack.on_duplicate),
            audit,
            sink,
            batches: seen.batches.len() as u64,
            delivered_by_records: delivered.map(|batch| batch.events).sum(),
            in_error: seen.in_error,
            set_aside: seen.set_aside,
            sent_after_secs,
            claimed_after_secs: seen.claimed_after_secs,
            drained_after_secs: seen.drained_after_secs,
            ended_early: seen.ended_early,
            delivery_latency: latency.as_ref().ok().cloned(),
            sent: sent.report,
        };
        let settings = self.stack.settings.clone();
        let mut record = summary.record(self.began_at_ms, settings, &seen.samples, seen.batches);
        let note = latency.err().flatten();
        record.notes.extend(note.map(str::to_owned));
        Ok(Ended {
            summary,
            record,
            rest: sent.rest,
        })
    }

    /// Returns the latency from send to delivery; or a note that says why it is not known, if the record does not say so anyway.
    fn latency(
        &self,
        audited: bool,
        sent: &Sent,
        deliveries: &DeliveryTimes,
    ) -> Result<LatencySummary, Option<&'static str>> {
        if !audited {
            return Err(None);
        }
        if sent.report.sent_earlier > 0 {
            return Err(Some(
                "The burst was continued: there is no latency from send to delivery.",
            ));
        }
        let paced = self.send.schedule.is_paced();
        let latency = deliveries.latency(self.stack.on_duplicate, paced);
        latency.map_err(Some)
    }

    /// Returns what an audit found, if the sink can be read, and a line about the sink. Tells `deliveries` of each delivered
    /// event.
    async fn audit(
        &self,
        seen: &Seen,
        deliveries: &mut DeliveryTimes,
    ) -> Result<(Option<AuditReport>, String), RunError> {
        let batch_ids: BTreeSet<&str> = seen.batches.iter().map(|batch| &*batch.batch_id).collect();
        let sink = self.sink.as_deref().or(self.stack.sink.as_deref());
        let table = self.stack.sink_table.as_deref();
        let mut settings = self.stack.settings.iter();
        let is_path = |name: &str| ["SINK_PATH", "SinkPath"].contains(&name);
        if settings.any(|each| is_path(&each.name) && !each.value.is_empty()) {
            // The parts are beside those of other bursts, and only the manifests of this burst say which they are.
            let why =
                "not read: `SINK_PATH` is set: copy the sink's objects, and run `loadgen audit`";
            return Ok((None, why.to_owned()));
        }
        match fetch_parts(self.connection, sink, table, &batch_ids).await? {
            Parts::In(directory) => {
                let sink = sink.unwrap_or_default();
                // An export of another sink may have none.
                let manifests = match self.sink.is_some() || is_database(sink) {
                    true => Manifests::Optional,
                    false => Manifests::Required,
                };
                let rule = self.stack.on_duplicate;
                let delivered = &mut |batch_id: &str, part, number| {
                    deliveries.delivered(batch_id, part, number);
                };
                let report =
                    audit_watched(directory.path(), self.workload, rule, manifests, delivered)?;
                Ok((Some(report), sink.to_owned()))
            }
            Parts::Unreadable(why) => Ok((None, format!("not read: {why}"))),
        }
    }
}
