//! One ticket: the lease on its batch, and the run of the batch under that lease.

use std::sync::Arc;

use protocol::batch::{BatchRecord, OperatorDecision, nothing_to_deliver};
use protocol::ids::LeaseOwner;
use protocol::pause::paused_until;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::ports::{BatchStore, PauseStore, Ports};
use shared::retry::{BulkWriter, RequestPermits};
use shared::traces::names::BATCH_ID;
use shared::traces::span;
use shared::wire::Ticket;
use sinks::Sink;
use tracing::{error, info};

use crate::batch_run::{BatchRun, Components};
use crate::body_source::BodySource;
use crate::chunk_reader::ChunkReader;
use crate::collector::Collector;
use crate::completion::Completion;
use crate::config::Config;
use crate::delivery::Delivery;
use crate::invocation::{Budgets, Report};
use crate::lease::{LeaseReply, LeasedBatch, lease};
use crate::metrics::BatchProcessorMetrics;
use crate::notices::{AskedBy, Notices};
use crate::outcome::{Done, RetryTicket};
use crate::overflow_bodies::OverflowBodies;
use crate::part_rules::PartRules;
use crate::quarantine::Quarantine;
use crate::release::Releaser;
use crate::sequences::Sequences;
use crate::turns::Turns;

/// Processes the tickets of one environment.
pub(crate) struct TicketProcessor {
    batch_store: Arc<dyn BatchStore>,
    pause_store: Arc<dyn PauseStore>,
    components: Components,
}

fn asked_by(ticket: &Ticket) -> AskedBy {
    match ticket.operator() {
        Some(_) => AskedBy::Operator,
        None => AskedBy::Service,
    }
}

impl TicketProcessor {
    pub(crate) fn new(config: &Config, ports: &Ports, sink: Arc<dyn Sink>) -> TicketProcessor {
        let concurrency = config.common.write_concurrency;
        let permits = Arc::new(RequestPermits::new(concurrency));
        let bulk = BulkWriter::new(permits.clone(), concurrency);
        let bodies = Arc::new(OverflowBodies::new(ports, permits.clone()));
        let window = config.common.dedup_window;
        TicketProcessor {
            batch_store: ports.batch_store.clone(),
            pause_store: ports.pause_store.clone(),
            components: Components {
                body_source: BodySource {
                    chunk_reader: ChunkReader::new(ports, permits.clone()),
                    collector: Collector::new(ports, permits, concurrency),
                },
                delivery: Delivery::new(sink, bodies.clone()),
                releaser: Releaser::new(ports, bulk, bodies.clone(), window),
                quarantine: Quarantine::new(ports, bodies, concurrency),
                completion: Completion {
                    batch_queue: ports.batch_queue.clone(),
                    verify_delay: config.verify_delay,
                    batch_items_max: config.batch_items_max,
                },
                part_rules: PartRules {
                    bytes_max: config.part_bytes_max,
                    count_max: config.parts_max,
                },
                notices: Notices::new(ports),
                sequences: Sequences::new(ports),
                turns: Turns {
                    hours: config.delivery_hours.clone(),
                    events_per_second: config.events_per_second,
                    turn_store: ports.turn_store.clone(),
                },
            },
        }
    }

    /// Processes one ticket.
    ///
    /// # Errors
    /// [`RetryTicket`] when the ticket must come back.
    pub(crate) async fn process(
        &self,
        ticket: &Ticket,
        owner: LeaseOwner,
        budgets: &Budgets<'_>,
        report: &mut Report,
    ) -> Result<Done, RetryTicket> {
        let batch = ticket.batch_id;
        let mut operator = ticket.operator();
        if operator == Some(OperatorDecision::Quarantine) && !self.components.quarantine.exists() {
            error!(batch_id = %batch, "batch cannot be set aside: `QUARANTINE_SQS_URL` is not set");
            return Ok(Done::InError);
        }
        let leased = loop {
            let has_notices = self.components.notices.are_on();
            let leased = lease(
                &*self.batch_store,
                batch,
                &owner,
                operator,
                has_notices,
                budgets,
            );
            match span("lease").text(BATCH_ID, batch).run(leased).await? {
                LeaseReply::Leased(leased) => break *leased,
                LeaseReply::Done(done, record) => {
                    // The invocation that has the lease sends them itself.
                    if matches!(done, Done::Complete | Done::InError) {
                        let metrics = report.metrics_of(&record.source);
                        self.send_left_notices(&record, ticket, budgets, metrics)
                            .await;
                    }
                    return Ok(done);
                }
                LeaseReply::NoRecord => return Ok(Done::Expired),
                LeaseReply::DecisionInForce => operator = None,
            }
        };
        let record = leased.record();
        info!(batch_id = %batch, source = %record.source, attempt = record.attempts, confirmed_count = record.confirmed, reason = ?ticket.reason, "batch leased");
        if record.bodies.in_chunks() && !self.components.quarantine.exists() {
            error!(batch_id = %batch, "`QUARANTINE_SQS_URL` is not set: a batch with chunks that is not complete after 10 days cannot end");
        }
        let metrics = report.metrics_of(&record.source);
        if record.sealed_at.is_none() && record.attempts == 1 {
            metrics.flushed_window.add(1);
        }
        let mut run = BatchRun::new(&self.components, budgets, leased, metrics);
        // Before a pause: the decision holds for this ticket alone, and is kept once it is in the record.
        if operator == Some(OperatorDecision::AcceptSink) {
            run.accept_sink().await?;
        }
        // Before the delivery, so that there is room for a notice of it.
        if !planted(Bug::NoticeSentOnlyOnce) {
            run.send_notices(asked_by(ticket)).await;
        }
        let overlooks = planted(Bug::PauseOverlooked) && run.batch().record().attempts > 1;
        let paused_until = match overlooks {
            true => None,
            false => self.paused_until(run.batch(), budgets).await?,
        };
        if nothing_to_deliver(run.batch().record()) {
            run.pause_deliveries(paused_until);
        } else if let Some(until) = paused_until {
            return run.pause(until).await;
        } else if let Some(done) = run.wait_for_hours().await? {
            return Ok(done);
        }
        run.run().await
    }

    /// Sends the notices of a batch that another invocation completed or put in error, and that died before it sent them.
    async fn send_left_notices(
        &self,
        record: &BatchRecord,
        ticket: &Ticket,
        budgets: &Budgets<'_>,
        metrics: &mut BatchProcessorMetrics,
    ) {
        if !planted(Bug::NoticeSentOnlyOnce) {
            let notices = &self.components.notices;
            notices
                .send_waiting(record, asked_by(ticket), budgets, metrics)
                .await;
        }
    }

    /// Returns until when deliveries of a batch are paused. The pauses are read for every ticket and with strong consistency, so
    /// that no ticket that comes after a pause was made overlooks it.
    async fn paused_until(
        &self,
        leased: &LeasedBatch<'_>,
        budgets: &Budgets<'_>,
    ) -> Result<Option<Timestamp>, RetryTicket> {
        let read = || self.pause_store.read();
        match budgets.work.call(RetryPolicy::CONTROL, read).await {
            Ok(pauses) => {
                let now = budgets.work.clock.now();
                Ok(paused_until(&pauses.pauses, leased.record(), now))
            }
            Err(source) => {
                let batch = leased.id();
                let reason = RetryTicket::Service { batch, source };
                leased.give_up(&reason).await;
                Err(reason)
            }
        }
    }
}
