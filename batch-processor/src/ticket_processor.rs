//! One ticket: the lease on its batch, and the run of the batch under that lease.

use std::sync::Arc;

use protocol::batch::OperatorDecision;
use protocol::ids::LeaseOwner;
use shared::ports::{BatchStore, Ports};
use shared::retry::{BulkWriter, RequestPermits};
use shared::traces::names::BATCH_ID;
use shared::traces::span;
use shared::wire::Ticket;
use sinks::Sink;
use tracing::{error, info};

use crate::answers::AnsweredParts;
use crate::batch_run::{BatchRun, Components, Losers};
use crate::body_source::BodySource;
use crate::collector::Collector;
use crate::completion::Completion;
use crate::config::Config;
use crate::delivery::Delivery;
use crate::invocation::{Budgets, Report};
use crate::lease::{NotLeased, lease};
use crate::log_index::LogIndex;
use crate::notices::Notices;
use crate::object_reader::ObjectReader;
use crate::overflow_bodies::OverflowBodies;
use crate::part_rules::PartRules;
use crate::quarantine::Quarantine;
use crate::rate::Rate;
use crate::release::Releaser;
use crate::sequences::Sequences;
use crate::ticket_end::TicketEnd;

/// Processes the tickets of one environment.
pub(crate) struct TicketProcessor {
    batch_store: Arc<dyn BatchStore>,
    components: Components,
}

impl TicketProcessor {
    pub(crate) fn new(
        config: &Config,
        ports: &Ports,
        sink: Arc<dyn Sink>,
        answered_parts: Option<Arc<AnsweredParts>>,
    ) -> TicketProcessor {
        let concurrency = config.common.write_concurrency;
        let permits = Arc::new(RequestPermits::new(concurrency));
        let bulk = BulkWriter::new(permits.clone(), concurrency);
        let bodies = Arc::new(OverflowBodies::new(ports, permits.clone()));
        let window = config.common.dedup_window;
        let sequences = Sequences::new(ports, sink.needs_link());
        TicketProcessor {
            batch_store: ports.batch_store.clone(),
            components: Components {
                body_source: BodySource {
                    object_reader: ObjectReader::new(ports, permits.clone()),
                    collector: Collector::new(ports, permits.clone(), concurrency),
                },
                log_index: LogIndex::new(ports, permits.clone(), config.index_bytes_kept),
                losers: Losers {
                    quarantine: ports.quarantine_queue.clone(),
                    duplicates: ports.duplicates_queue.clone(),
                    concurrency,
                },
                delivery: Delivery::new(sink, bodies.clone()),
                answered_parts,
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
                    approve_above: config.approve_above,
                },
                notices: Notices::new(ports),
                sequences,
                named_items: ports.named_items.clone(),
                hours: config.delivery_hours.clone(),
                rate: config.events_per_second.map(|events_per_second| Rate {
                    events_per_second,
                    named_items: ports.named_items.clone(),
                }),
            },
        }
    }

    /// Processes one ticket; returns how it ends.
    pub(crate) async fn process(
        &self,
        ticket: &Ticket,
        owner: LeaseOwner,
        budgets: &Budgets<'_>,
        report: &mut Report,
    ) -> TicketEnd {
        let batch = ticket.batch_id;
        let operator = ticket.operator();
        let Components {
            quarantine,
            notices,
            ..
        } = &self.components;
        if operator == Some(OperatorDecision::Quarantine) && !quarantine.exists() {
            error!(batch_id = %batch, "batch cannot be set aside: `QUARANTINE_SQS_URL` is not set");
            return TicketEnd::Done("in error");
        }
        let store = &*self.batch_store;
        let leased = lease(store, batch, &owner, operator, notices.are_on(), budgets);
        let leased = match span("lease").text(BATCH_ID, batch).run(leased).await {
            Ok(leased) => leased,
            Err(NotLeased::Missing(_)) if ticket.is_ahead => return TicketEnd::Done("no record"),
            Err(NotLeased::Missing(end)) => return end,
            Err(NotLeased::Refused { end, record }) => {
                // The invocation that completed the batch, or put it in error, may have died before it sent the notices.
                if let Some(record) = record {
                    let metrics = report.metrics_of(&record.source);
                    notices
                        .send_waiting(&record, operator, budgets, metrics)
                        .await;
                }
                return end;
            }
        };
        let record = leased.record();
        info!(batch_id = %batch, source = %record.source, attempt = record.attempts, confirmed_count = record.confirmed, reason = ?ticket.reason, "batch leased");
        if record.bodies.is_log() && !quarantine.exists() {
            error!(batch_id = %batch, "`QUARANTINE_SQS_URL` is not set: a batch of the log that is not complete after 10 days cannot end");
        }
        let metrics = report.metrics_of(&record.source);
        if record.sealed_at.is_none() && record.attempts == 1 {
            metrics.flushed_window.add(1);
        }
        let run = BatchRun::new(&self.components, budgets, leased, metrics);
        run.run(operator).await
    }
}
