//! Decides about the lines of a batch of the log, and reports those that did not win.

use protocol::batch::Resolution;
use protocol::limits::{COMMIT_ATTEMPTS_MAX, ENTRY_RETENTION};
use protocol::log::{Decided, IndexSecret, Line};
use protocol::retry::RetryPolicy;
use shared::index::line_of;
use shared::metrics::Level;
use shared::ports::{Quarantined, StoredEvent};
use shared::quarantine_attributes::{CONFLICT, beyond_quota};
use shared::retry::{Unsent, send_to_quarantine};
use shared::traces::names::ITEMS_COUNT;
use tracing::{error, info, warn};

use super::BatchRun;
use crate::log_index::{Attempt, Undecided};
use crate::object_reader::{Closed, UnreadObjects};
use crate::reading::{HandOverError, Lost, ReadEvents};
use crate::ticket_end::TicketEnd;

impl BatchRun<'_> {
    /// Decides about the lines of a batch of the log, unless that is done, and reports what does not win.
    pub(super) async fn resolve(&mut self) -> Result<(), TicketEnd> {
        if !self.batch.record().is_resolved() {
            self.decide().await?;
            // Whatever holds back the delivery, each batch adds a run.
            self.merge().await;
        }
        if !self.batch.record().is_reported() {
            self.report_losers().await?;
        }
        Ok(())
    }

    async fn decide(&mut self) -> Result<(), TicketEnd> {
        let closed = self.close().await?;
        let clock = self.budgets.work.clock;
        let began = clock.now();
        let decided = match &closed.lost {
            None => self.commit(&closed).await,
            Some(lost) => Err(HandOverError::Permanent(lost.to_string())),
        };
        let decided = decided.map_err(|error| self.at_last(error));
        if matches!(decided, Ok(Some(_))) {
            self.metrics.holes.add(closed.holes);
            self.metrics.resolve_ms.measured(began.until(clock.now()));
        }
        let (winners, resolution) = match decided {
            Ok(None) => return Ok(()),
            Ok(Some(decided)) => {
                info!(
                    batch_id = %self.id(),
                    items_count = decided.winners.len(),
                    redelivered_count = decided.redelivered.len(),
                    duplicates_count = decided.duplicates.len(),
                    conflicts_count = decided.conflicts.len(),
                    beyond_quota_count = decided.beyond_quota.len(),
                    "batch resolved"
                );
                let mut resolution = Resolution {
                    duplicates: decided.duplicates,
                    conflicts: decided.conflicts,
                    beyond_quota: decided.beyond_quota,
                    is_reported: false,
                };
                resolution.is_reported =
                    resolution.duplicates.is_empty() && resolution.quarantined().is_empty();
                (decided.winners, resolution)
            }
            // Nothing is decided about its lines: all of them go to the quarantine.
            Err(HandOverError::Permanent(error)) if self.batch.record().quarantine.is_some() => {
                let all = closed.seqs();
                warn!(batch_id = %self.id(), error, items_count = all.len(), "an unresolved batch is set aside");
                self.report_lost(closed.lost.iter().cloned().collect())
                    .await?;
                let resolution = Resolution {
                    is_reported: true,
                    ..Resolution::default()
                };
                (all, resolution)
            }
            Err(HandOverError::Permanent(error)) => {
                // The list may be too long for another run.
                self.merge().await;
                let error = HandOverError::Permanent(format!("unresolved: {error}"));
                return Err(self.hand_over_failed(error).await);
            }
            Err(error) => return Err(self.hand_over_failed(error).await),
        };
        let duplicates = resolution.duplicates.len();
        let conflicts = resolution.conflicts.len();
        let beyond_quota = resolution.beyond_quota.len();
        self.batch.resolve(winners, resolution).await?;
        self.metrics.duplicates.add(duplicates);
        self.metrics.conflicts.add(conflicts);
        self.metrics.beyond_quota.add(beyond_quota);
        Ok(())
    }

    /// Returns the error of a batch whose lines cannot be decided. A batch that is set aside and stays undecided for a day is set aside
    /// unresolved, because its loads are not kept for ever.
    fn at_last(&self, error: HandOverError) -> HandOverError {
        let record = self.batch.record();
        let now = self.budgets.work.clock.now();
        let is_last = record.quarantine.is_some() && record.created_at + ENTRY_RETENTION <= now;
        match error {
            HandOverError::Service(error) if is_last => HandOverError::Permanent(error.to_string()),
            error => error,
        }
    }

    /// Merges runs of the index, if there are many, in a quarter of the time: nothing of the batch is delivered before.
    async fn merge(&self) {
        let record = self.batch.record();
        let budget = self.budgets.work.half().half();
        let merge = self.components.log_index.merge(&record.bodies, &budget);
        // The next batch tries again. Until then, batches read more runs.
        match merge.await {
            Ok(()) => {}
            Err(HandOverError::Permanent(error)) => error!(error, "runs cannot be merged"),
            Err(HandOverError::Service(error)) => warn!(%error, "runs not merged"),
            Err(HandOverError::Lease(_)) => {}
        }
    }

    /// Commits what is decided about the lines. `None` if another lease has written the decisions.
    async fn commit(&mut self, closed: &Closed) -> Result<Option<Decided>, HandOverError> {
        if closed.frames.is_empty() {
            return Ok(Some(Decided::default()));
        }
        let log_index = &self.components.log_index;
        let (work, batch) = (self.budgets.work, self.id());
        let mut undecided: Option<(IndexSecret, Undecided)> = None;
        // Commits that were refused, and looks that found the turn of another batch.
        let mut attempts = 0;
        loop {
            let bodies = &self.batch.record().bodies;
            let index = log_index.open(bodies, &work).await?;
            let (manifest, secret) = (&index.manifest.value, index.secret);
            // Before its turn: others wait for all that it does then.
            let (_, undecided) = match undecided.take().filter(|(of, _)| *of == secret) {
                Some(known) => undecided.insert(known),
                None => {
                    let lines = self.read_lines(secret, closed).await?;
                    undecided.insert((secret, Undecided::new(lines)))
                }
            };
            // A turn ends with the commit, long before its time. Each look costs read units.
            if manifest.is_turn_of_another(batch, work.clock.now()) {
                work.next_attempt_by(RetryPolicy::INDEX, &mut attempts)
                    .await?;
                continue;
            }
            // A turn that has run out stands until a batch commits. Another turn would refuse the commit of its batch, which may only be
            // slow.
            if attempts >= COMMIT_ATTEMPTS_MAX && manifest.turn.is_none() {
                if !log_index.take_turn(&index, batch, &work).await? {
                    work.next_attempt(&mut attempts).await?;
                }
                continue;
            }
            // After the manifest: a run is merged only once its batch's record has the decisions.
            if let Err(end) = self.batch.refresh().await {
                return Err(HandOverError::Lease(end));
            }
            let record = self.batch.record();
            let span = self.span("resolve");
            let span = span.count(ITEMS_COUNT, undecided.lines_count());
            let attempt = log_index.commit(&index, record, undecided, &work);
            match span.run(attempt).await? {
                Attempt::Committed(decided, size) => {
                    self.metrics.index_entries = Some(Level(size.entries));
                    self.metrics.index_runs = Some(Level(size.runs));
                    return Ok(Some(decided));
                }
                Attempt::Resolved => return Ok(None),
                Attempt::Refused => {
                    self.metrics.commit_conflicts.add(1);
                    work.next_attempt(&mut attempts).await?;
                }
            }
        }
    }

    /// Reads all lines of a batch. Their bodies are not kept.
    async fn read_lines(
        &self,
        secret: IndexSecret,
        closed: &Closed,
    ) -> Result<Vec<Line>, HandOverError> {
        let mut unread = UnreadObjects::of(closed.seqs(), closed.frames.clone());
        let mut lines = Vec::with_capacity(unread.len());
        while !unread.is_empty() {
            let mut read = self.read_some(&mut unread).await;
            if let Some(error) = read.failed.take() {
                return Err(error);
            }
            if let Some(lost) = read.lost.first() {
                error!(batch_id = %self.id(), object = %lost.object, error = lost.problem, "object is lost");
                return Err(HandOverError::Permanent(lost.to_string()));
            }
            let read = read.events.iter();
            lines.extend(read.map(|event| line_of(secret, event, closed.stored_at(event.seq))));
        }
        Ok(lines)
    }

    async fn read_some(&self, unread: &mut UnreadObjects) -> ReadEvents {
        let reader = &self.components.body_source.object_reader;
        let limits = self.components.part_rules.without_part();
        let (record, work) = (self.batch.record(), &self.budgets.work);
        reader.read(record, unread, limits, work).await
    }

    /// Sends conflicts and lines beyond a quota to the quarantine and the reports of duplicates to their queue, and notes that.
    async fn report_losers(&mut self) -> Result<(), TicketEnd> {
        let record = self.batch.record();
        let reservations = record.reservations.as_ref();
        let resolution = reservations.and_then(|one| one.resolution.clone());
        let resolution = resolution.unwrap_or_default();
        let mut seqs = resolution.quarantined();
        if self.components.losers.duplicates.is_some() {
            seqs.extend_from(&resolution.duplicates);
        }
        let frames = self.close().await?.frames.clone();
        let mut unread = UnreadObjects::of(seqs, frames);
        while !unread.is_empty() {
            let read = self.read_some(&mut unread).await;
            let ReadEvents {
                events,
                lost,
                failed,
            } = read;
            if let Some(first) = lost.first() {
                error!(batch_id = %self.id(), error = first.problem, "lines that did not win are lost");
                if self.batch.record().quarantine.is_none() {
                    return Err(self.batch.fail(first.to_string()).await);
                }
                self.report_lost(lost).await?;
            }
            self.report(&events, &resolution).await?;
            match failed {
                None => {}
                // Events that won go to the quarantine meanwhile.
                Some(error) if self.batch.record().quarantine.is_some() => {
                    self.unreported = Some(error);
                    return Ok(());
                }
                Some(error) => return Err(self.hand_over_failed(error).await),
            }
        }
        self.batch.reported().await
    }

    /// Reports lines that did not win: duplicates to their queue, the others to the quarantine.
    async fn report(
        &mut self,
        events: &[StoredEvent],
        resolution: &Resolution,
    ) -> Result<(), TicketEnd> {
        let ports = &self.components.losers;
        let now = self.budgets.work.clock.now();
        let (duplicates, others): (Vec<_>, Vec<_>) = events
            .iter()
            .partition(|event| resolution.duplicates.contains(event.seq));
        let quarantined = others.into_iter().map(|event| {
            let quota = event.quota.as_deref();
            let quota = quota.filter(|_| resolution.beyond_quota.contains(event.seq));
            quarantined(
                event,
                quota.map_or_else(|| CONFLICT.to_owned(), beyond_quota),
            )
        });
        let quarantined: Vec<Quarantined> = quarantined.collect();
        let reports = duplicates
            .into_iter()
            .map(|event| shared::duplicate_report::report(event, None, now));
        let reports: Vec<Quarantined> = reports.collect();
        // Of a duplicate, another copy is delivered. Of the others, this is the only copy.
        let may_drop_reports = self.batch.record().quarantine.is_some();
        for (queue, messages, what, may_drop) in [
            (
                &ports.quarantine,
                quarantined,
                "`QUARANTINE_SQS_URL`",
                false,
            ),
            (
                &ports.duplicates,
                reports,
                "`DUPLICATES_SQS_URL`",
                may_drop_reports,
            ),
        ] {
            if messages.is_empty() {
                continue;
            }
            let Some(queue) = queue.as_deref() else {
                let error = format!("lines that did not win: no queue for them: set {what}");
                return Err(self.batch.fail(error).await);
            };
            let concurrency = ports.concurrency;
            let sent = send_to_quarantine(queue, &messages, concurrency, &self.budgets.work);
            let unsent: Vec<Unsent> = sent.await.into_iter().filter_map(Result::err).collect();
            let refused: Vec<String> = unsent
                .iter()
                .filter_map(|unsent| match unsent {
                    Unsent::Refused(error) => Some(format!("reports: queue of {what}: {error}")),
                    Unsent::OutOfTime => None,
                })
                .collect();
            if let Some(error) = refused.first() {
                if !may_drop {
                    return Err(self.batch.fail(error.clone()).await);
                }
                let items_count = refused.len();
                error!(batch_id = %self.id(), error, items_count, "reports of duplicates are lost");
            }
            let count = unsent.len() - refused.len();
            if count > 0 {
                return Err(TicketEnd::retry(format!("{count} reports are not sent")));
            }
        }
        Ok(())
    }

    /// Sends a message about each lost object to the quarantine.
    async fn report_lost(&mut self, lost: Vec<Lost>) -> Result<(), TicketEnd> {
        if lost.is_empty() {
            return Ok(());
        }
        let read = ReadEvents {
            lost,
            ..ReadEvents::default()
        };
        let (record, work) = (self.batch.record(), &self.budgets.work);
        match self.components.quarantine.send(read, record, work).await {
            Ok(sent) => match (sent.refused, sent.unsent_count) {
                (Some(error), _) => Err(self.batch.fail(error).await),
                (None, 0) => Ok(()),
                (None, count) => {
                    let why = format!("{count} messages may not have reached the quarantine");
                    Err(TicketEnd::retry(why))
                }
            },
            Err(error) => Err(self.hand_over_failed(error).await),
        }
    }
}

/// Returns the message to the quarantine about a line that did not win.
fn quarantined(event: &StoredEvent, reason: String) -> Quarantined {
    Quarantined {
        sqs_message_id: event.sqs_message_id.clone(),
        event_id: Some(event.event_id.clone()),
        source: event.source.clone(),
        reason,
        body: event.body.clone(),
        attributes: event.attributes.clone(),
    }
}
