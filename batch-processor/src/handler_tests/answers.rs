//! Answers of the consumer.

use std::collections::BTreeMap;

use protocol::answer::{AnswerState, BatchAnswers};
use shared::ports::NamedItems;
use sinks::{AnswerName, AnswerPlace};

use crate::answers::AnswersRead;

use super::rejects::check_rejected_tombstone;
use super::*;

const SET: [(&str, &str); 3] = [
    ("ANSWERS_FROM", "file:///answers"),
    ("ANSWERS_WITHIN", "3600"),
    (
        "QUARANTINE_SQS_URL",
        "https://sqs.eu-west-1.amazonaws.com/1/quarantine",
    ),
];

/// A place with these answers by name.
#[derive(Default)]
struct TestPlace(Mutex<BTreeMap<String, String>>);

#[async_trait]
impl AnswerPlace for TestPlace {
    async fn list(&self, _: Timestamp) -> Result<Vec<AnswerName>, SinkError> {
        let answers = self.0.lock().unwrap();
        let name = |(name, text): (&String, &String)| AnswerName {
            name: name.clone(),
            tag: text.len().to_string(),
        };
        Ok(answers.iter().map(name).collect())
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SinkError> {
        let answers = self.0.lock().unwrap();
        Ok(answers.get(name).map(|text| text.clone().into_bytes()))
    }
}

struct Answering {
    processor: Processor,
    place: Arc<TestPlace>,
}

impl Answering {
    fn new() -> Answering {
        Answering::with(&[])
    }

    fn with(set: &[(&str, &str)]) -> Answering {
        let config = crate::config::tests::read(&[set, &SET[..]].concat()).unwrap();
        let (fakes, sink) = (Fakes::at(START), Arc::new(TestSink::default()));
        let place = Arc::new(TestPlace::default());
        let handler = Handler::new(config, fakes.ports(), sink.clone());
        Answering {
            processor: Processor {
                handler: handler.with_answers(place.clone()),
                fakes,
                sink,
            },
            place,
        }
    }

    fn answer(&self, name: &str, lines: &[&str]) {
        let lines = [&["part,record,event,result,reason"], lines]
            .concat()
            .join("\n");
        self.place.0.lock().unwrap().insert(name.to_owned(), lines);
    }

    async fn sweep(&self) -> AnswersRead {
        let swept = super::sweep::sweep(&self.processor).await;
        swept.answers.expect("the handler has answers")
    }

    async fn state(&self) -> BatchAnswers {
        let items: &dyn NamedItems = &*self.processor.fakes.named_items;
        items.get::<BatchAnswers>(&batch()).await.unwrap().value
    }

    fn quarantined(&self) -> Vec<(String, String)> {
        let messages = self.processor.fakes.quarantine_queue.take().into_iter();
        let of = |message: Quarantined| (message.body.to_string(), message.reason);
        messages.map(of).collect()
    }

    /// Delivers a batch of three events.
    async fn delivered(&self) {
        sealed(&self.processor, 3).await;
        assert!(!ticket(&self.processor).await);
        assert_eq!(record(&self.processor).status, None);
    }
}

fn line(rest: &str) -> String {
    format!("{}/0,{rest}", batch())
}

fn seats(seats: &[u32]) -> SeqSet {
    seats.iter().copied().collect()
}

#[tokio::test]
async fn rejected_events_go_to_the_quarantine_and_may_be_claimed_again() {
    let answering = Answering::new();
    answering.delivered().await;
    assert_eq!(answering.state().await.awaited(), seats(&[0, 1, 2]));
    assert_eq!(answering.sweep().await, AnswersRead::default());
    answering.answer(
        "a.csv",
        &[&line("2,,rejected,no account"), &line(",,accepted,")],
    );
    let read = answering.sweep().await;
    assert_eq!((read.read, read.accepted, read.rejected), (1, 2, 1));
    let reason = "rejected by the answer `a.csv`: no account".to_owned();
    assert_eq!(answering.quarantined(), [("body 1".to_owned(), reason)]);
    check_rejected_tombstone(&answering.processor);
    let state = answering.state().await;
    assert_eq!(state.state_of(&seats(&[0, 1, 2])), AnswerState::Partly);
    assert!(!state.is_listed());
    // Neither is it read again, nor does another of the same content change anything.
    assert_eq!(answering.sweep().await, AnswersRead::default());
    answering.answer(
        "b.csv",
        &[&line(",e1,rejected,again"), &line("1,,rejected,no")],
    );
    let read = answering.sweep().await;
    assert_eq!((read.rejected, read.contradicted), (0, 1));
    assert_eq!(answering.quarantined(), []);
}

#[tokio::test]
async fn a_rejected_event_of_the_log_is_in_no_ones_way() {
    let answering = Answering::new();
    let processor = &answering.processor;
    super::log::brought(processor, 0, &[&[("m1", "e1", "a"), ("m2", "e2", "b")]]).await;
    super::log::ticket_of(processor, 0).await;
    answering.answer("a.csv", &[&line("1,,rejected,no"), &line("2,,accepted,")]);
    assert_eq!(answering.sweep().await.rejected, 1);
    assert_eq!(answering.quarantined().len(), 1);
    assert_eq!(record(processor).rejected(), seats(&[0]));
    delivered(processor);
    super::log::brought(processor, 1, &[&[("m3", "e1", "a"), ("m4", "e2", "b")]]).await;
    super::log::ticket_of(processor, 1).await;
    assert_eq!(super::log::given(processor), ["e1"]);
}

#[tokio::test]
async fn what_is_not_answered_in_time_is_silent_and_a_late_answer_counts() {
    let answering = Answering::new();
    answering.delivered().await;
    answering.answer("a.csv", &[&line("1,,accepted,")]);
    answering.sweep().await;
    answering
        .processor
        .fakes
        .clock
        .advance(Duration::from_secs(3_601));
    assert_eq!(answering.sweep().await.silent, 2);
    assert_eq!(answering.state().await.silent, seats(&[1, 2]));
    assert_eq!(answering.sweep().await.silent, 0);
    answering.answer(
        "late.csv",
        &[&line("2,,rejected,no"), &line("3,,accepted,")],
    );
    let read = answering.sweep().await;
    assert_eq!((read.accepted, read.rejected), (1, 1));
    assert_eq!(answering.quarantined().len(), 1);
}

#[tokio::test]
async fn an_answer_waits_until_its_batch_is_complete() {
    let answering = Answering::new();
    answering.answer("early.csv", &[&line(",,accepted,")]);
    sealed(&answering.processor, 3).await;
    answering.processor.sink.fail(1);
    assert_eq!(answering.sweep().await.waiting, 1);
    while ticket(&answering.processor).await {
        answering.processor.fakes.clock.advance(TICKET_BACKOFF_MAX);
    }
    let read = answering.sweep().await;
    assert_eq!((read.waiting, read.accepted), (0, 3));
}

#[tokio::test]
async fn an_answer_about_an_unknown_part_is_a_problem_once_the_time_is_over() {
    let answering = Answering::new();
    answering.answer(
        "x.csv",
        &[
            "0190163d-8694-739b-aea5-966c26f8ad00/0,1,,accepted,",
            "?,1,,accepted,",
        ],
    );
    let read = answering.sweep().await;
    assert_eq!((read.waiting, read.problems), (1, 0));
    answering
        .processor
        .fakes
        .clock
        .advance(Duration::from_secs(3_601));
    let read = answering.sweep().await;
    assert_eq!((read.waiting, read.read, read.problems), (0, 1, 2));
}

#[tokio::test]
async fn records_rejected_by_the_form_are_not_counted_among_the_records() {
    let answering = Answering::new();
    *answering.processor.sink.rejects.lock().unwrap() = vec![0];
    answering.delivered().await;
    answering.answer(
        "a.csv",
        &[
            &line("1,,rejected,no"),
            &line("3,,rejected,no"),
            &line(",,accepted,"),
        ],
    );
    let read = answering.sweep().await;
    // The third record is not there, so nothing is said about the rest.
    assert_eq!((read.rejected, read.accepted, read.problems), (1, 0, 1));
    assert_eq!(answering.state().await.rejected, seats(&[1]));
}

#[tokio::test]
async fn what_another_left_pending_is_done_by_the_next() {
    let answering = Answering::with(&[("ANSWERS_WITHIN", "60")]);
    answering.delivered().await;
    let items: &dyn NamedItems = &*answering.processor.fakes.named_items;
    let read = items.get::<BatchAnswers>(&batch()).await.unwrap();
    let mut next = read.value.clone();
    let said = protocol::answer::Said {
        rejected: seats(&[1]),
        ..Default::default()
    };
    next.take(batch(), "gone.csv", &said);
    assert!(items.replace(&batch(), &read, &next).await.unwrap());
    answering
        .processor
        .fakes
        .clock
        .advance(Duration::from_secs(61));
    let read = answering.sweep().await;
    assert_eq!(read.silent, 2);
    let reason = "rejected by the answer `gone.csv`: no reason given".to_owned();
    assert_eq!(answering.quarantined(), [("body 1".to_owned(), reason)]);
    check_rejected_tombstone(&answering.processor);
}

#[test]
fn answers_need_a_quarantine() {
    let error = crate::config::tests::read(&SET[..2])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`QUARANTINE_SQS_URL`: not set: `ANSWERS_FROM` needs it"),
        "{error}"
    );
    let without = crate::config::tests::read(&[SET[2], ("ANSWERS_FROM", "sftp:/in")]);
    let error = without.unwrap_err().to_string();
    assert!(error.contains("`SINK` is no server of SFTP"), "{error}");
}
