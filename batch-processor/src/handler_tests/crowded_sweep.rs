//! The sweep where many batches are overdue, or services are slow.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use protocol::batch::Listing;
use protocol::limits::{NOTICE_TICKETS_MAX, SWEEP_TICKETS_MIN};
use shared::memory::MemoryNoticeTarget;
use shared::ports::{BatchQueue, ListPage, ListPosition, ListShard, PortError, Ports, QueueDepth};

use super::notices::noticing;
use super::sweep::sweep;
use super::*;

/// Returns the id of batch `number`, which was opened long before [`START`].
fn batch_of(number: u64) -> BatchId {
    let id = format!("00000000-03e8-7000-8000-{number:012x}");
    id.parse().unwrap()
}

/// Returns the record of batch `number`, in a list of the sweep, and due at a time.
fn record_of(number: u64, status: Option<Status>, due_at: Timestamp) -> BatchRecord {
    let source = "arn:q".parse().unwrap();
    let opened_at = batch_of(number).opened_at();
    let record = BatchRecord::open(batch_of(number), source, None, 1, opened_at, opened_at);
    let notice = protocol::batch::Notice::of_completion(&record, due_at);
    BatchRecord {
        status,
        due_at,
        completed_at: status.is_none().then_some(due_at),
        notices: status.is_none().then_some(notice).into_iter().collect(),
        ..record
    }
}

/// The tables and queues of a service whose every request takes a while, and the clock of this while.
struct Slow {
    fakes: Fakes,
    request: Duration,
    /// A list that cannot be read.
    unread: Option<ListShard>,
    passed: Mutex<Passed>,
}

/// Time and requests so far.
#[derive(Default)]
struct Passed {
    time: Duration,
    requests: u64,
    /// The sleeping tasks, and until when they sleep.
    sleepers: Vec<(Duration, Waker)>,
}

impl Slow {
    fn over(fakes: &Fakes, request: Duration) -> Arc<Slow> {
        Arc::new(Slow {
            fakes: fakes.clone(),
            request,
            unread: None,
            passed: Mutex::default(),
        })
    }

    fn ports(self: &Arc<Slow>) -> Ports {
        Ports {
            batch_store: self.clone(),
            batch_queue: self.clone(),
            clock: self.clone(),
            ..self.fakes.ports()
        }
    }

    fn time(&self) -> Duration {
        self.passed.lock().unwrap().time
    }

    async fn request(&self) {
        self.passed.lock().unwrap().requests += 1;
        self.sleep(self.request).await;
    }

    /// Runs a future. Time passes only while all of it waits.
    fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            let passed = &mut *self.passed.lock().unwrap();
            let next = passed.sleepers.iter().map(|(until, _)| *until).min();
            passed.time = next.expect("nobody waits for anything else");
            let wakes = |sleeper: &mut (Duration, Waker)| sleeper.0 <= passed.time;
            let woken = passed.sleepers.extract_if(.., wakes);
            woken.for_each(|(_, waker)| waker.wake());
        }
    }

    /// Runs one sweep with a timeout of the function.
    fn sweep(self: &Arc<Slow>, timeout: Duration) -> crate::sweep::Swept {
        match self.try_sweep(timeout).unwrap() {
            Response::Swept(swept) => swept,
            Response::Tickets(_) => panic!("not a sweep"),
        }
    }

    fn try_sweep(self: &Arc<Slow>, timeout: Duration) -> Result<Response, HandlerError> {
        let handler = Handler::new(config(), self.ports(), Arc::new(TestSink::default()));
        let invocation = Invocation {
            function: "batch-processor".to_owned(),
            request_id: "sweep".to_owned(),
            deadline: self.now() + timeout,
        };
        self.run(handler.handle(Event::Sweep, &invocation))
    }
}

#[async_trait]
impl Clock for Slow {
    fn now(&self) -> Timestamp {
        START + self.time()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.time() + duration;
        std::future::poll_fn(|context| {
            let passed = &mut *self.passed.lock().unwrap();
            if until <= passed.time {
                return Poll::Ready(());
            }
            passed.sleepers.push((until, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

#[async_trait]
impl BatchStore for Slow {
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError> {
        self.fakes.batch_store.create(record).await
    }

    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        self.request().await;
        self.fakes.batch_store.read(batch).await
    }

    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        self.request().await;
        self.fakes.batch_store.write(batch, write).await
    }

    async fn overdue(
        &self,
        list: ListShard,
        due_before: Timestamp,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, PortError> {
        self.request().await;
        if self.unread == Some(list) {
            return Err(PortError::DeadlineReached);
        }
        let store = &self.fakes.batch_store;
        store.overdue(list, due_before, after).await
    }
}

#[async_trait]
impl BatchQueue for Slow {
    async fn send(&self, ticket: &Ticket, delay: Duration) -> Result<(), PortError> {
        self.request().await;
        self.fakes.batch_queue.send(ticket, delay).await
    }

    async fn send_all(&self, tickets: &[(Ticket, Duration)]) -> Vec<Result<(), PortError>> {
        self.request().await;
        self.fakes.batch_queue.send_all(tickets).await
    }

    async fn depth(&self) -> Result<QueueDepth, PortError> {
        self.request().await;
        self.fakes.batch_queue.depth().await
    }

    async fn retry_after(&self, receipt: &str, delay: Duration) -> Result<(), PortError> {
        self.fakes.batch_queue.retry_after(receipt, delay).await
    }
}

/// Creates overdue batches with every status but `error`; the one with the highest number is the oldest.
fn overdue_batches(fakes: &Fakes, count: u64) {
    for number in 0..count {
        let status = Status::ALL[number as usize % 3];
        let due_at = START.saturating_sub(Duration::from_secs(1 + number));
        let record = record_of(number, Some(status), due_at);
        let created = fakes.batch_store.create(&record).now_or_never();
        created.expect("fakes return at once").unwrap();
    }
}

/// In simulated time: each request takes 50 ms, and `WRITE_CONCURRENCY` requests are in flight. The function has the shortest
/// timeout of the template.
#[test]
fn sixty_thousand_waiting_batches_are_woken_within_a_quarter_of_an_hour() {
    const BATCHES: u64 = 60_000;
    let fakes = Fakes::at(START);
    overdue_batches(&fakes, BATCHES);
    let slow = Slow::over(&fakes, Duration::from_millis(50));
    let mut woken = BTreeSet::new();
    let mut sweeps = 0;
    while woken.len() < BATCHES as usize {
        let starts_at = Duration::from_secs(300 * sweeps);
        slow.run(slow.sleep(starts_at.saturating_sub(slow.time())));
        let swept = slow.sweep(Duration::from_secs(60));
        sweeps += 1;
        let sent = fakes.batch_queue.take();
        assert_eq!(swept.tickets_sent, sent.len());
        assert_eq!(swept.cut_short, swept.tickets_left > 0, "{swept:?}");
        for (ticket, _) in sent {
            assert!(woken.insert(ticket.batch_id), "a second ticket");
        }
        let took = slow.time();
        assert!(took < Duration::from_secs(900), "{swept:?} after {took:?}");
    }
    assert!(woken.into_iter().eq((0..BATCHES).map(batch_of)));
    let requests = slow.passed.lock().unwrap().requests;
    // A write for each batch, a tenth of a request for each ticket, and some hundred for the lists.
    let most = BATCHES + BATCHES / 10 + 500;
    assert!(requests < most, "{requests} requests");
}

#[test]
fn a_sweep_that_comes_to_its_deadline_says_so_and_has_woken_the_oldest() {
    let fakes = Fakes::at(START);
    let count = 3 * SWEEP_TICKETS_MIN as u64;
    overdue_batches(&fakes, count);
    let slow = Slow::over(&fakes, Duration::from_millis(300));
    let swept = slow.sweep(Duration::from_secs(6));
    assert!(swept.cut_short && swept.tickets_sent > 0, "{swept:?}");
    assert_eq!(swept.overdue, count as usize, "all are counted");
    assert_eq!(swept.tickets_sent + swept.tickets_left, swept.overdue);
    let sent = fakes.batch_queue.take();
    let sent: BTreeSet<BatchId> = sent.iter().map(|(ticket, _)| ticket.batch_id).collect();
    let oldest = (0..count).rev().map(batch_of).take(swept.tickets_sent);
    assert_eq!(sent, oldest.collect());
}

#[test]
fn a_list_that_is_not_read_keeps_no_batch_of_another_from_its_ticket() {
    let fakes = Fakes::at(START);
    overdue_batches(&fakes, 100);
    let whole = Slow::over(&fakes, Duration::ZERO);
    let unread = ListShard {
        listing: Listing::Status(Status::Sealed),
        shard: 0,
    };
    let hidden = whole.run(whole.overdue(unread, Timestamp::FAR_FUTURE, None));
    let hidden = hidden.unwrap().batches.len();
    assert!(hidden > 0);
    let slow = Arc::new(Slow {
        unread: Some(unread),
        ..Arc::into_inner(whole).unwrap()
    });
    slow.try_sweep(Duration::from_secs(60)).unwrap_err();
    assert_eq!(fakes.batch_queue.take().len(), 100 - hidden);
}

#[tokio::test]
async fn a_long_queue_gets_only_tickets_for_the_oldest() {
    let processor = a_processor();
    let count = 3 * SWEEP_TICKETS_MIN as u64;
    overdue_batches(&processor.fakes, count);
    assert_eq!(sweep(&processor).await.tickets_sent, count as usize);
    // Nobody takes the tickets.
    processor.fakes.clock.advance(TICKET_RESEND_AFTER * 2);
    let swept = sweep(&processor).await;
    let left = count as usize - SWEEP_TICKETS_MIN;
    assert_eq!((swept.overdue, swept.cut_short), (count as usize, false));
    let tickets = (swept.tickets_sent, swept.tickets_left);
    assert_eq!(tickets, (SWEEP_TICKETS_MIN, left));
    processor.fakes.batch_queue.take();
    let swept = sweep(&processor).await;
    assert_eq!((swept.tickets_sent, swept.tickets_left), (left, 0));
}

#[tokio::test]
async fn old_batches_in_error_and_notices_get_their_tickets_beside_many_others() {
    let processor = noticing(a_processor(), &Arc::new(MemoryNoticeTarget::default()));
    let others = 2 * SWEEP_TICKETS_MIN as u64;
    let notices = 2 * NOTICE_TICKETS_MAX as u64;
    let lists = [
        (others, Some(Status::Processing)),
        (10, Some(Status::Error)),
        (notices, None),
    ];
    let mut number = 0;
    for (count, status) in lists {
        for _ in 0..count {
            number += 1;
            let due_at = START.saturating_sub(Duration::from_secs(number));
            let record = record_of(number, status, due_at);
            processor.fakes.batch_store.create(&record).await.unwrap();
        }
    }
    let swept = sweep(&processor).await;
    assert_eq!((swept.processing, swept.in_error), (others as usize, 10));
    assert_eq!(swept.notices_waiting, Some(notices as usize));
    let sent = processor.fakes.batch_queue.take();
    let sent = sent.iter().map(|(ticket, _)| ticket.reason);
    let count = |reason| sent.clone().filter(|of| *of == Some(reason)).count();
    assert_eq!(count(TicketReason::Quarantine), 10);
    let of_sweep = others as usize + NOTICE_TICKETS_MAX;
    assert_eq!(count(TicketReason::Sweep), of_sweep);
    let again = sweep(&processor).await;
    assert_eq!(again.tickets_sent, NOTICE_TICKETS_MAX, "the other notices");
    let left = processor.fakes.batch_store.records().into_iter();
    let left = left.filter(|record| record.listing() == Some(Listing::Notices));
    assert!(left.into_iter().all(|record| record.due_at > START));
}
