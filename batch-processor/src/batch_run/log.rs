//! Closes a batch of the log, decides about its lines, and reports conflicts and duplicates.

use protocol::batch::LogResolution;
use protocol::limits::COMMITS_REFUSED_MAX;
use protocol::log::{Decided, Frame};
use protocol::seqs::SeqSet;
use shared::ports::{Quarantined, StoredEvent};
use shared::retry::send_to_quarantine;
use shared::traces::names::ITEMS_COUNT;
use tracing::{error, info, warn};

use super::BatchRun;
use crate::chunk_reader::UnreadChunks;
use crate::log_index::{Attempt, Message};
use crate::reading::{HandOverError, ReadLimits};
use crate::ticket_end::TicketEnd;

impl BatchRun<'_> {
    /// Decides about the lines of a batch of the log, unless that is done, and reports what does not win. Nothing of the batch is frozen,
    /// set aside or proven before.
    pub(super) async fn resolve(&mut self) -> Result<(), TicketEnd> {
        if !self.batch.record().is_resolved() {
            self.decide().await?;
        }
        if !self.batch.record().is_reported() {
            self.report_losers().await?;
        }
        Ok(())
    }

    async fn decide(&mut self) -> Result<(), TicketEnd> {
        let reader = &self.components.body_source.chunk_reader;
        let frames = reader
            .frames(self.batch.record(), &self.budgets.work)
            .await?;
        let frames = frames.unwrap_or_default();
        let all = all_seqs(&frames);
        let decided = match self.read_messages(&all, &frames).await {
            Ok(messages) => self.commit(&messages).await,
            Err(error) => Err(error),
        };
        let (winners, resolution) = match decided {
            Ok(None) => return Ok(()),
            Ok(Some(decided)) => {
                info!(
                    batch_id = %self.id(),
                    items_count = decided.winners.len(),
                    redelivered_count = decided.redelivered.len(),
                    duplicates_count = decided.duplicates.len(),
                    conflicts_count = decided.conflicts.len(),
                    "batch resolved"
                );
                let is_reported = decided.duplicates.is_empty() && decided.conflicts.is_empty();
                let resolution = LogResolution {
                    duplicates: decided.duplicates,
                    conflicts: decided.conflicts,
                    is_reported,
                };
                (decided.winners, resolution)
            }
            // Nothing is decided about its lines: all of them go to the quarantine.
            Err(HandOverError::Permanent(error)) if self.batch.record().quarantine.is_some() => {
                warn!(batch_id = %self.id(), error, items_count = all.len(), "an unresolved batch is set aside");
                let resolution = LogResolution {
                    is_reported: true,
                    ..LogResolution::default()
                };
                (all, resolution)
            }
            Err(error) => return Err(self.hand_over_failed(error).await),
        };
        self.batch.resolve(winners, resolution).await
    }

    /// Commits what is decided about the messages. `None` if another lease has written the decisions.
    async fn commit(&mut self, messages: &[Message]) -> Result<Option<Decided>, HandOverError> {
        if messages.is_empty() {
            return Ok(Some(Decided::default()));
        }
        let index = &self.components.log_index;
        let work = self.budgets.work;
        let mut refused = 0;
        loop {
            let bodies = self.batch.record().bodies.clone();
            let (manifest, secret) = index.manifest(&bodies, &work).await?;
            // After the manifest: a run is merged only once its batch's record has the decisions.
            if let Err(end) = self.batch.refresh().await {
                return Err(HandOverError::Lease(end));
            }
            let record = self.batch.record();
            let attempt = index.commit(&manifest, secret, record, messages, &work);
            let span = self.span("resolve").count(ITEMS_COUNT, messages.len());
            match span.run(attempt).await? {
                Attempt::Committed(decided) => return Ok(Some(decided)),
                Attempt::Resolved => return Ok(None),
                Attempt::Refused => {}
            }
            // Beyond a few, the others of this moment go first.
            let pauses = 1 + refused / COMMITS_REFUSED_MAX;
            for _ in 0..pauses {
                work.next_attempt(&mut refused).await?;
            }
        }
    }

    /// Reads the messages of these seqs.
    async fn read_messages(
        &self,
        seqs: &SeqSet,
        frames: &[Frame],
    ) -> Result<Vec<Message>, HandOverError> {
        let stored_at = |event: &StoredEvent| {
            let after = frames.partition_point(|frame| frame.first_seq <= event.seq);
            frames[after.saturating_sub(1)].stored_at
        };
        let events = self.read_lines(seqs, frames).await?.into_iter();
        let messages = events.map(|event| Message {
            stored_at: stored_at(&event),
            event,
        });
        Ok(messages.collect())
    }

    async fn read_lines(
        &self,
        seqs: &SeqSet,
        frames: &[Frame],
    ) -> Result<Vec<StoredEvent>, HandOverError> {
        let reader = &self.components.body_source.chunk_reader;
        let record = self.batch.record();
        let mut unread = UnreadChunks::of_log(seqs.clone(), frames.into());
        let (limits, work) = (ReadLimits::NONE, &self.budgets.work);
        let read = reader.read(record, &mut unread, limits, work).await;
        if let Some(lost) = read.lost.first() {
            error!(batch_id = %self.id(), error = lost.problem, "lines are lost");
            return Err(HandOverError::Permanent(format!("unresolved: {lost}")));
        }
        match read.failed {
            Some(error) => Err(error),
            None => Ok(read.events),
        }
    }

    /// Sends the conflicts to the quarantine and the reports of duplicates to their queue, and notes that.
    async fn report_losers(&mut self) -> Result<(), TicketEnd> {
        let record = self.batch.record();
        let resolution = record.log.as_ref().and_then(|log| log.resolution.clone());
        let LogResolution {
            duplicates,
            conflicts,
            ..
        } = resolution.unwrap_or_default();
        let ports = &self.components.losers;
        let mut seqs = conflicts.clone();
        if ports.duplicates.is_some() {
            seqs.extend_from(&duplicates);
        }
        let reader = &self.components.body_source.chunk_reader;
        let frames = reader.frames(record, &self.budgets.work).await?;
        let events = match self.read_lines(&seqs, &frames.unwrap_or_default()).await {
            Ok(events) => events,
            Err(error) => return Err(self.hand_over_failed(error).await),
        };
        let (conflicts, duplicates): (Vec<_>, Vec<_>) = events
            .iter()
            .partition(|event| conflicts.contains(event.seq));
        let conflicts: Vec<Quarantined> = conflicts.into_iter().map(conflict).collect();
        let now = self.budgets.work.clock.now();
        let reports = duplicates
            .into_iter()
            .map(|event| shared::duplicate_report::report(event, None, now));
        let reports: Vec<Quarantined> = reports.collect();
        for (queue, messages, what) in [
            (&ports.conflicts, conflicts, "`QUARANTINE_SQS_URL`"),
            (&ports.duplicates, reports, "`DUPLICATES_SQS_URL`"),
        ] {
            let Some(queue) = queue.as_deref().filter(|_| !messages.is_empty()) else {
                if messages.is_empty() {
                    continue;
                }
                let error = format!("conflicts: no queue for them: set {what}");
                return Err(self.batch.fail(error).await);
            };
            let concurrency = ports.concurrency;
            let sent = send_to_quarantine(queue, &messages, concurrency, &self.budgets.work);
            let unsent = sent.await.into_iter().filter(Result::is_err).count();
            if unsent > 0 {
                return Err(TicketEnd::retry(format!("{unsent} reports are not sent")));
            }
        }
        self.batch.reported().await
    }
}

/// Returns the message to the quarantine about a conflict.
fn conflict(event: &StoredEvent) -> Quarantined {
    Quarantined {
        sqs_message_id: event.sqs_message_id.clone(),
        event_id: Some(event.event_id.clone()),
        source: event.source.clone(),
        reason: shared::quarantine_attributes::CONFLICT.to_owned(),
        body: event.body.clone(),
        attributes: event.attributes.clone(),
    }
}

fn all_seqs(frames: &[Frame]) -> SeqSet {
    let seqs = frames
        .iter()
        .flat_map(|frame| (frame.first_seq..).take(frame.lines.len()));
    seqs.collect()
}
