//! Tests of one queue. The tests set the time.

mod handles;
mod random;
mod receives;
mod retention;

use std::collections::BTreeSet;

use super::super::attributes::Redrive;
use super::super::message::Outgoing;
use super::*;

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

pub(in crate::sqs) fn queue(attributes: QueueAttributes) -> Queue {
    Queue::new("queue", 1, attributes, 0)
}

fn content(id: &str) -> Content {
    content_of(id, format!("body of {id}"))
}

fn content_of(id: &str, body: String) -> Content {
    let outgoing = Outgoing {
        body,
        ..Outgoing::default()
    };
    outgoing.into_content(id.to_owned()).unwrap()
}

/// Returns the attributes of a queue with the dead-letter queue `dead`.
fn with_redrive(receives_max: u32) -> QueueAttributes {
    let redrive = Redrive {
        dead_letter_queue: "dead".into(),
        receives_max,
    };
    QueueAttributes {
        redrive: Some(redrive),
        ..QueueAttributes::default()
    }
}

pub(in crate::sqs) fn send(queue: &mut Queue, now_ms: u64, id: &str) {
    queue.send(now_ms, content(id), None).unwrap();
}

fn up_to(max: usize) -> ReceiveOptions {
    ReceiveOptions {
        max,
        visibility_ms: None,
        redrivable: true,
        long_poll: true,
    }
}

fn invisible_for(visibility_ms: u64) -> ReceiveOptions {
    ReceiveOptions {
        visibility_ms: Some(visibility_ms),
        ..up_to(10)
    }
}

fn receive(queue: &mut Queue, now_ms: u64) -> Vec<Message> {
    let taken = queue.receive(now_ms, up_to(10)).unwrap();
    assert!(taken.dead.is_empty());
    check_invariants(queue);
    taken.messages
}

pub(in crate::sqs) fn receive_one(queue: &mut Queue, now_ms: u64) -> Message {
    let mut messages = receive(queue, now_ms);
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

fn depth(visible: usize, in_flight: usize, delayed: usize) -> Depth {
    Depth {
        visible,
        in_flight,
        delayed,
    }
}

/// Checks the invariants of a queue:
///
/// - INV-1: each message is in the set of its state, and in no other set of states.
/// - INV-2: each message is in the set of ages.
/// - INV-3: each key in a set belongs to a message.
/// - INV-4: at most 120,000 messages are in flight.
fn check_invariants(queue: &Queue) {
    let keys: BTreeSet<u64> = queue.entries.keys().copied().collect();
    let sets = [&queue.visible, &queue.delayed, &queue.in_flight];
    for key in &keys {
        let entry = &queue.entries[key];
        let at = (entry.state.since_or_until_ms(), *key);
        let expected = match entry.state {
            MessageState::Visible { .. } => [true, false, false],
            MessageState::Delayed { .. } => [false, true, false],
            MessageState::InFlight { .. } => [false, false, true],
        };
        assert_eq!(sets.map(|set| set.contains(&at)), expected, "INV-1");
        assert!(queue.by_age.contains(&(entry.sent_ms, *key)), "INV-2");
    }
    let in_sets: usize = sets.iter().map(|set| set.len()).sum();
    assert_eq!(in_sets, keys.len(), "INV-3");
    assert_eq!(queue.by_age.len(), keys.len(), "INV-3 ages");
    assert!(queue.in_flight.len() <= limits::IN_FLIGHT_MAX, "INV-4");
}
