//! Tests of one queue. The tests set the time.

mod handles;
mod random;
mod receives;
mod retention;

use std::collections::BTreeSet;

use super::super::message::Outgoing;
use super::*;

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

fn queue(attributes: QueueAttributes) -> Queue {
    Queue::new("queue", 1, attributes, 0)
}

fn content(id: &str) -> Content {
    Outgoing {
        body: format!("body of {id}"),
        ..Outgoing::default()
    }
    .into_content(id.to_owned())
    .unwrap()
}

fn send(queue: &mut Queue, now_ms: u64, id: &str) {
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

fn receive(queue: &mut Queue, now_ms: u64) -> Vec<Message> {
    let taken = queue.receive(now_ms, up_to(10)).unwrap();
    assert!(taken.dead.is_empty());
    check_invariants(queue);
    taken.messages
}

fn receive_one(queue: &mut Queue, now_ms: u64) -> Message {
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
    for key in &keys {
        let entry = &queue.entries[key];
        let at = (entry.state.since_or_until_ms(), *key);
        assert_eq!(
            queue.visible.contains(&at),
            matches!(entry.state, MessageState::Visible { .. }),
            "INV-1 visible"
        );
        assert_eq!(
            queue.delayed.contains(&at),
            matches!(entry.state, MessageState::Delayed { .. }),
            "INV-1 delayed"
        );
        assert_eq!(
            queue.in_flight.contains(&at),
            matches!(entry.state, MessageState::InFlight { .. }),
            "INV-1 in flight"
        );
        assert!(queue.by_age.contains(&(entry.sent_ms, *key)), "INV-2");
    }
    assert_eq!(
        queue.visible.len() + queue.delayed.len() + queue.in_flight.len(),
        keys.len(),
        "INV-3"
    );
    assert_eq!(queue.by_age.len(), keys.len(), "INV-3 ages");
    assert!(queue.in_flight.len() <= limits::IN_FLIGHT_MAX, "INV-4");
}
