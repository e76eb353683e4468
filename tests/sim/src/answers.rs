//! Histories of answers: batches are delivered, a consumer answers about their events in whatever way, and sweeps read the answers while
//! requests fail, replies are lost and environments die. Two sweeps may run at once.
//!
//! They are apart from the other histories, because an answer comes after all that those are about. The real handlers run over the fakes.

mod consumer;
mod faulty;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aggregator::current_batches::CurrentBatches;
use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use batch_processor::{Event, Response};
use futures::executor::block_on;
use futures::future::join;
use protocol::answer::BatchAnswers;
use protocol::batch::BatchRecord;
use protocol::invariants::{Broken, Check};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::memory::{Fakes, MemorySourceQueues};
use shared::ports::{Clock, NamedItems, Ports, Quarantined};

use consumer::{Consumer, Deliveries};
use faulty::{Faults, Faulty};

const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);
const WITHIN: Duration = Duration::from_secs(600);
const SOURCE: &str = "arn:aws:sqs:eu-west-1:1:input";
const TIMEOUT: Duration = Duration::from_secs(60);
/// Sweeps while there are faults.
const ROUNDS: usize = 6;
/// Sweeps after that, in which everything must end.
const CALM_ROUNDS: usize = 6;

/// Runs the history of a seed; returns the promise that it breaks.
pub fn run(seed: u64) -> Option<Broken> {
    block_on(World::new(seed).history()).err()
}

struct World {
    fakes: Fakes,
    faults: Arc<Faults>,
    deliveries: Arc<Deliveries>,
    consumer: Arc<Consumer>,
    is_log: bool,
    /// Everything that was ever in the quarantine.
    quarantined: Vec<Quarantined>,
    /// Messages that were sent so far.
    sent: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = fastrand::Rng::with_seed(seed);
        let fakes = Fakes::at(START);
        World {
            deliveries: Arc::new(Deliveries::new(rng.u32(0..4))),
            consumer: Arc::default(),
            is_log: rng.bool(),
            faults: Arc::new(Faults::new(rng)),
            fakes,
            quarantined: Vec::new(),
            sent: 0,
        }
    }

    fn lookup(&self, name: &str) -> Option<String> {
        let value = match name {
            "DDB_LOCK_TABLE" => "lock-table",
            "DDB_BATCH_TABLE" => "batch-table",
            "BATCH_QUEUE_URL" => "https://sqs.eu-west-1.amazonaws.com/1/batches",
            "QUARANTINE_SQS_URL" => "https://sqs.eu-west-1.amazonaws.com/1/quarantine",
            "EVENT_ID" => "json:id",
            "DEDUP_WINDOW" => "864000",
            "MAX_SECONDARY_BATCHING_WINDOW" => "60",
            "VERIFY_DELAY" => "1",
            "BODIES" if self.is_log => "log:table",
            "SINK" => "log:",
            "ANSWERS_FROM" => "file:///answers",
            "ANSWERS_WITHIN" => "600",
            _ => return None,
        };
        Some(value.to_owned())
    }

    /// Returns the ports of an environment, which fail while there are faults.
    fn ports(&self) -> Ports {
        let ports = self.fakes.ports();
        let faulty = Arc::new(Faulty {
            ports: ports.clone(),
            faults: self.faults.clone(),
        });
        Ports {
            named_items: faulty.clone(),
            lock_store: faulty.clone(),
            batch_store: faulty.clone(),
            object_store: faulty.clone(),
            quarantine_queue: Some(faulty),
            ..ports
        }
    }

    /// Makes an environment of the batch-processor.
    fn processor(&self) -> batch_processor::Handler {
        let config = batch_processor::Config::read(&|name: &str| self.lookup(name));
        let config = config.expect("the variables are allowed");
        let sink = self.deliveries.clone();
        batch_processor::Handler::new(config, self.ports(), sink)
            .with_answers(self.consumer.clone())
    }

    async fn history(mut self) -> Check {
        let count = self.faults.draw(1..12);
        self.bring(count, None).await;
        self.deliver().await;
        self.consumer
            .answer_about(&self.deliveries, &self.fakes, &self.faults);
        for _ in 0..ROUNDS {
            self.sweeps().await;
            if self.faults.draw(0..3) == 0 {
                self.fakes.clock.advance(WITHIN);
            }
            self.consumer.publish_next();
        }
        self.faults.stop();
        self.consumer.publish_all();
        for _ in 0..CALM_ROUNDS {
            self.sweeps().await;
            self.fakes.clock.advance(WITHIN / 2);
        }
        self.quarantined.extend(self.fakes.quarantine_queue.take());
        for record in self.fakes.batch_store.records() {
            let answers = self.answers(&record).await;
            self.check_batch(&record, &answers)?;
        }
        self.check_claims().await
    }

    async fn answers(&self, record: &BatchRecord) -> BatchAnswers {
        let items: &dyn NamedItems = &*self.fakes.named_items;
        let read = items.get::<BatchAnswers>(&record.batch_id).await;
        read.expect("the fake never fails").value
    }

    /// Sends `count` messages with events from the first on, or further messages of these events; returns when they are acknowledged.
    async fn bring(&mut self, count: u32, events: Option<&[String]>) {
        let all = Vec::from_iter((0..count).map(|number| format!("e{number}")));
        let messages = events.unwrap_or(&all).iter().map(|event| {
            self.sent += 1;
            (format!("m{}", self.sent), event.clone())
        });
        let messages = messages.collect();
        self.receive(messages).await;
    }

    async fn receive(&self, messages: Vec<(String, String)>) {
        let config = aggregator::Config::read(&|name: &str| self.lookup(name));
        let config = config.expect("the variables are allowed");
        let (queues, current) = (MemorySourceQueues::new(), CurrentBatches::default());
        let handler = aggregator::Handler::new(
            config,
            self.fakes.ports(),
            Arc::new(queues),
            Arc::new(current),
        );
        let mut event = SqsEvent::default();
        event.records =
            Vec::from_iter(messages.into_iter().map(|(id, event)| message(&id, &event)));
        let invocation = aggregator::Invocation {
            function: "aggregator".to_owned(),
            deadline: self.fakes.clock.now() + TIMEOUT,
        };
        let event = serde_json::to_string(&event).expect("texts make JSON");
        let event = serde_json::from_str(&event).expect("the value is an event");
        let handled = handler.handle(event, &invocation).await;
        let failures = handled.expect("nothing fails").batch_item_failures;
        assert!(failures.is_empty(), "{failures:?}");
    }

    /// Has every batch delivered. Environments may die meanwhile.
    async fn deliver(&self) {
        self.fakes.clock.advance(Duration::from_secs(90));
        loop {
            let tickets = self.fakes.batch_queue.take();
            let open = self.fakes.batch_store.records().into_iter();
            let mut open = open.filter(|record| record.status.is_some()).peekable();
            if open.peek().is_none() {
                return;
            }
            drop(tickets);
            for record in open {
                let mut message = SqsMessage::default();
                message.message_id = Some(format!("t{}", self.faults.draw(0..u32::MAX)));
                message.body = Some(format!(r#"{{"batchId":"{}"}}"#, record.batch_id));
                let mut event = SqsEvent::default();
                event.records.push(message);
                self.invoke(Event::Tickets(event)).await;
            }
            self.fakes.clock.advance(TIMEOUT * 2);
        }
    }

    /// Runs a sweep, or two at once.
    async fn sweeps(&mut self) {
        match self.faults.draw(0..2) {
            0 => self.invoke(Event::Sweep).await,
            _ => drop(join(self.invoke(Event::Sweep), self.invoke(Event::Sweep)).await),
        }
        self.quarantined.extend(self.fakes.quarantine_queue.take());
    }

    /// Invokes an environment, which may die at any step.
    async fn invoke(&self, event: Event) {
        let handler = self.processor();
        let invocation = batch_processor::Invocation {
            function: "batch-processor".to_owned(),
            request_id: "r".to_owned(),
            deadline: self.fakes.clock.now() + TIMEOUT,
        };
        let handled = self
            .faults
            .until_killed(handler.handle(event, &invocation))
            .await;
        if let Some(Ok(Response::Swept(swept))) = handled {
            assert!(swept.answers.is_some());
        }
    }

    /// P14: every event that the sink has is accepted, rejected or silent, exactly one, as the answers say; the rejected ones are in the
    /// quarantine, and the others are not.
    fn check_batch(&self, record: &BatchRecord, answers: &BatchAnswers) -> Check {
        let batch = record.batch_id;
        let taken = self.deliveries.taken(batch);
        let seats: SeqSet = taken.keys().copied().collect();
        check(
            "P14 the_events_of_the_sink_are_awaited",
            seats == answers.delivered,
            || {
                format!(
                    "batch {batch}: the sink has {seats:?}, awaited were {:?}",
                    answers.delivered
                )
            },
        )?;
        check(
            "P14 answers_end",
            answers.pending.is_none() && answers.awaited().is_empty(),
            || format!("batch {batch}: {answers:?}"),
        )?;
        let rejected = self.deliveries.rejected(batch).union(&answers.rejected);
        check(
            "P14 the_record_has_what_was_rejected",
            record.rejected() == rejected,
            || {
                format!(
                    "batch {batch}: {:?}, expected {rejected:?}",
                    record.rejected()
                )
            },
        )?;
        for (seq, event) in &taken {
            let said = self.consumer.said(batch, *seq);
            let sets = [&answers.accepted, &answers.rejected, &answers.silent];
            let found = sets.map(|set| set.contains(*seq));
            let allowed = match (said.contains(&true), said.contains(&false)) {
                (false, false) => found == [false, false, true],
                (accepts, rejects) => {
                    found == [true, false, false] && accepts
                        || found == [false, true, false] && rejects
                }
            };
            check("P14 an_event_ends_as_an_answer_says", allowed, || {
                format!(
                    "{event}: answers said {said:?}, it is accepted, rejected, silent: {found:?}"
                )
            })?;
            let aside = self.is_quarantined(event);
            check(
                "P14 rejected_events_are_in_the_quarantine",
                aside == found[1],
                || format!("{event}: in the quarantine {aside}, rejected {}", found[1]),
            )?;
        }
        Ok(())
    }

    fn is_quarantined(&self, event: &str) -> bool {
        let mut ids = self
            .quarantined
            .iter()
            .filter_map(|one| one.event_id.as_ref());
        ids.any(|id| id.as_str() == event)
    }

    /// Another message may claim an event exactly if it was rejected, and a redelivery of the first may not.
    async fn check_claims(mut self) -> Check {
        let first: BTreeSet<String> = self.deliveries.events();
        let was_rejected: BTreeSet<String> = self
            .deliveries
            .batches()
            .into_iter()
            .flat_map(|batch| {
                let record = self.fakes.batch_store.get(batch);
                let rejected = record.map(|record| record.rejected()).unwrap_or_default();
                let all = self.deliveries.all(batch);
                all.into_iter()
                    .filter(move |(seq, _)| rejected.contains(*seq))
                    .map(|(_, event)| event)
            })
            .collect();
        self.deliveries.forget();
        let redelivered =
            (1..=self.sent).map(|number| (format!("m{number}"), format!("e{}", number - 1)));
        self.receive(redelivered.collect()).await;
        self.deliver().await;
        let again = self.deliveries.events();
        check("P3 a_message_is_delivered_once", again.is_empty(), || {
            format!("again: {again:?}")
        })?;
        let all = Vec::from_iter(first);
        self.bring(0, Some(&all)).await;
        self.deliver().await;
        let again = self.deliveries.events();
        check(
            "P14 exactly_rejected_events_may_be_claimed_again",
            again == was_rejected,
            || format!("again: {again:?}, rejected: {was_rejected:?}"),
        )
    }
}

fn check(name: &'static str, holds: bool, found: impl FnOnce() -> String) -> Check {
    match holds {
        true => Ok(()),
        false => Err(Broken {
            name,
            found: found(),
        }),
    }
}

fn message(id: &str, event: &str) -> SqsMessage {
    let mut message = SqsMessage::default();
    message.message_id = Some(id.to_owned());
    message.body = Some(format!(r#"{{"id":"{event}"}}"#));
    message.event_source_arn = Some(SOURCE.to_owned());
    let sent_at = START.as_ms().to_string();
    message
        .attributes
        .insert("SentTimestamp".to_owned(), sent_at);
    message
}
