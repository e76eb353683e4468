//! Claims about one queue, at times that the tests choose.

use std::collections::{BTreeMap, BTreeSet};

use super::super::attributes::Redrive;
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

fn take(max: usize) -> Take {
    Take {
        max,
        visibility_ms: None,
        redrivable: true,
        long_poll: true,
    }
}

fn receive(queue: &mut Queue, now_ms: u64) -> Vec<Message> {
    let taken = queue.receive(now_ms, take(10)).unwrap();
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

/// INV-1: every message is in exactly the one set that its place says. INV-2: and in the set of ages.
/// INV-3: no set has a key without a message. INV-4: no more messages are in flight than allowed.
fn check_invariants(queue: &Queue) {
    let keys: BTreeSet<u64> = queue.entries.keys().copied().collect();
    for key in &keys {
        let entry = &queue.entries[key];
        let at = (entry.place.since_or_until_ms(), *key);
        assert_eq!(
            queue.visible.contains(&at),
            matches!(entry.place, Place::Visible { .. }),
            "INV-1 visible"
        );
        assert_eq!(
            queue.delayed.contains(&at),
            matches!(entry.place, Place::Delayed { .. }),
            "INV-1 delayed"
        );
        assert_eq!(
            queue.in_flight.contains(&at),
            matches!(entry.place, Place::InFlight { .. }),
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

#[test]
fn a_received_message_is_invisible_until_its_timeout_ends_and_counts_its_receives() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 5, "a");
    let first = receive_one(&mut queue, 10);
    assert_eq!(
        (first.receive_count, first.sent_ms, first.first_receive_ms),
        (1, 5, 10)
    );
    assert_eq!(receive(&mut queue, 10 + 30 * SECOND - 1), []);
    let second = receive_one(&mut queue, 10 + 30 * SECOND);
    assert_eq!((second.receive_count, second.first_receive_ms), (2, 10));
    assert_eq!(second.message_id, first.message_id);
    assert_ne!(second.receipt_handle, first.receipt_handle);
}

#[test]
fn a_receive_may_choose_its_own_visibility_timeout_even_zero() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    for expected_count in 1..=3 {
        let taken = queue
            .receive(
                0,
                Take {
                    visibility_ms: Some(0),
                    ..take(10)
                },
            )
            .unwrap();
        assert_eq!(taken.messages.len(), 1);
        assert_eq!(taken.messages[0].receive_count, expected_count);
    }
    let error = queue
        .receive(
            0,
            Take {
                visibility_ms: Some(43_201 * SECOND),
                ..take(10)
            },
        )
        .unwrap_err();
    assert!(
        matches!(
            error,
            SqsError::OutOfRange {
                parameter: "VisibilityTimeout",
                max: 43_200,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_receive_takes_one_to_ten_messages() {
    let mut queue = queue(QueueAttributes::default());
    for n in 0..12 {
        send(&mut queue, n, &n.to_string());
    }
    for max in [0, 11] {
        let error = queue.receive(20, take(max)).unwrap_err();
        assert!(
            matches!(
                error,
                SqsError::OutOfRange {
                    parameter: "MaxNumberOfMessages",
                    ..
                }
            ),
            "{error}"
        );
    }
    assert_eq!(
        queue.receive(20, take(1)).unwrap().messages[0].message_id,
        "0"
    );
    assert_eq!(receive(&mut queue, 20).len(), 10);
    assert_eq!(receive(&mut queue, 20).len(), 1);
}

#[test]
fn a_message_returned_waits_behind_those_visible_before() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "poison");
    let poison = receive_one(&mut queue, 0);
    send(&mut queue, 1, "good");
    queue
        .change_visibility(2, &poison.receipt_handle, 0)
        .unwrap();
    let ids: Vec<_> = receive(&mut queue, 3)
        .into_iter()
        .map(|message| message.message_id)
        .collect();
    assert_eq!(ids, ["good", "poison"]);
}

#[test]
fn the_newest_handle_deletes_even_when_the_message_is_visible_again() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let message = receive_one(&mut queue, 0);
    queue.delete(31 * SECOND, &message.receipt_handle).unwrap();
    assert_eq!(queue.depth(31 * SECOND), depth(0, 0, 0));
    queue
        .delete(31 * SECOND, &message.receipt_handle)
        .expect("deleting again succeeds");
    check_invariants(&queue);
}

#[test]
fn an_outdated_handle_deletes_nothing_and_answers_success() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let old = receive_one(&mut queue, 0);
    let new = receive_one(&mut queue, 30 * SECOND);
    queue.delete(31 * SECOND, &old.receipt_handle).unwrap();
    assert_eq!(queue.depth(31 * SECOND), depth(0, 1, 0));
    queue.delete(31 * SECOND, &new.receipt_handle).unwrap();
    assert_eq!(queue.depth(31 * SECOND), depth(0, 0, 0));
}

#[test]
fn handles_that_were_never_given_out_are_invalid() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let good = Receipt::from_handle(&receive_one(&mut queue, 0).receipt_handle).unwrap();
    let bad = [
        "garbage".to_owned(),
        Receipt { queue: 2, ..good }.to_handle(),
        Receipt {
            key: good.key + 1,
            ..good
        }
        .to_handle(),
        Receipt { receive: 2, ..good }.to_handle(),
        Receipt { receive: 0, ..good }.to_handle(),
    ];
    for handle in bad {
        let error = SqsError::ReceiptHandleIsInvalid {
            handle: handle.clone(),
        };
        assert_eq!(queue.delete(1, &handle), Err(error.clone()));
        assert_eq!(queue.change_visibility(1, &handle, 0), Err(error));
    }
}

#[test]
fn delay_of_the_message_takes_the_place_of_the_queues() {
    let mut queue = queue(QueueAttributes {
        delay: Duration::from_secs(10),
        ..QueueAttributes::default()
    });
    send(&mut queue, 0, "queue's");
    queue.send(0, content("own"), Some(5 * SECOND)).unwrap();
    queue.send(0, content("none"), Some(0)).unwrap();
    assert_eq!(queue.depth(0), depth(1, 0, 2));
    assert_eq!(queue.next_due_ms(), Some(5 * SECOND));
    assert_eq!(queue.depth(5 * SECOND), depth(2, 0, 1));
    assert_eq!(queue.depth(10 * SECOND), depth(3, 0, 0));
    queue
        .send(0, content("longest"), Some(900 * SECOND))
        .unwrap();
    let error = queue
        .send(0, content("longer"), Some(901 * SECOND))
        .unwrap_err();
    assert_eq!(
        error,
        SqsError::OutOfRange {
            parameter: "DelaySeconds",
            value: "901".into(),
            min: 0,
            max: 900
        }
    );
}

#[test]
fn a_message_over_the_queues_limit_is_refused() {
    let mut queue = queue(QueueAttributes {
        message_size_max_bytes: 1024,
        ..QueueAttributes::default()
    });
    let sized = |bytes| {
        Outgoing {
            body: "x".repeat(bytes),
            ..Outgoing::default()
        }
        .into_content("id".into())
        .unwrap()
    };
    queue.send(0, sized(1024), None).unwrap();
    let error = queue.send(0, sized(1025), None).unwrap_err();
    assert_eq!(
        error,
        SqsError::MessageTooLong {
            bytes: 1025,
            bytes_max: 1024
        }
    );
}

#[test]
fn visibility_can_be_changed_only_in_flight_and_with_the_newest_handle() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let old = receive_one(&mut queue, 0);
    queue
        .change_visibility(1, &old.receipt_handle, 60 * SECOND)
        .unwrap();
    assert_eq!(queue.depth(60 * SECOND), depth(0, 1, 0));
    assert_eq!(queue.depth(60 * SECOND + 1), depth(1, 0, 0));
    let error = queue
        .change_visibility(61 * SECOND, &old.receipt_handle, 0)
        .unwrap_err();
    assert!(
        matches!(error, SqsError::MessageNotInflight { .. }),
        "{error}"
    );

    let new = receive_one(&mut queue, 61 * SECOND);
    let error = queue
        .change_visibility(61 * SECOND, &old.receipt_handle, 0)
        .unwrap_err();
    assert!(
        matches!(error, SqsError::MessageUnavailable { .. }),
        "{error}"
    );
    queue.delete(61 * SECOND, &new.receipt_handle).unwrap();
    let error = queue
        .change_visibility(61 * SECOND, &new.receipt_handle, 0)
        .unwrap_err();
    assert!(
        matches!(error, SqsError::MessageUnavailable { .. }),
        "{error}"
    );
}

#[test]
fn a_changed_visibility_is_not_remembered_at_the_next_receive() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let message = receive_one(&mut queue, 0);
    queue
        .change_visibility(0, &message.receipt_handle, SECOND)
        .unwrap();
    receive_one(&mut queue, SECOND);
    assert_eq!(queue.next_due_ms(), Some(31 * SECOND));
}

#[test]
fn twelve_hours_from_the_receive_cannot_be_extended() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let taken = queue
        .receive(
            0,
            Take {
                visibility_ms: Some(12 * HOUR),
                ..take(1)
            },
        )
        .unwrap();
    let handle = &taken.messages[0].receipt_handle;
    let error = queue
        .change_visibility(2 * HOUR, handle, 10 * HOUR + SECOND)
        .unwrap_err();
    assert_eq!(
        error,
        SqsError::VisibilityBeyondLimit {
            value_secs: 36_001,
            left_secs: 36_000
        }
    );
    queue
        .change_visibility(2 * HOUR, handle, 10 * HOUR)
        .unwrap();
    let error = queue
        .change_visibility(2 * HOUR, handle, 43_201 * SECOND)
        .unwrap_err();
    assert!(
        matches!(
            error,
            SqsError::OutOfRange {
                parameter: "VisibilityTimeout",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_receive_over_the_maximum_moves_the_message_and_keeps_its_id_and_age() {
    let redrive = Some(Redrive {
        dead_letter_queue: "dead".into(),
        receives_max: 2,
    });
    let mut source = queue(QueueAttributes {
        redrive,
        ..QueueAttributes::default()
    });
    let mut dead = Queue::new("dead", 2, QueueAttributes::default(), 0);
    send(&mut source, 7, "poison");
    receive_one(&mut source, 10);
    let last = receive_one(&mut source, 10 + 30 * SECOND);
    assert_eq!(last.receive_count, 2);

    let now_ms = 10 + 60 * SECOND;
    let undeliverable = source
        .receive(
            now_ms,
            Take {
                redrivable: false,
                visibility_ms: Some(0),
                ..take(10)
            },
        )
        .unwrap();
    assert_eq!(
        undeliverable.messages.len(),
        1,
        "without its dead-letter queue the message stays"
    );

    let taken = source.receive(now_ms, take(10)).unwrap();
    assert_eq!((taken.messages.len(), taken.dead.len()), (0, 1));
    check_invariants(&source);
    for letter in taken.dead {
        dead.accept(now_ms, letter);
    }
    let moved = receive_one(&mut dead, now_ms);
    assert_eq!(
        (
            moved.message_id.as_str(),
            moved.sent_ms,
            moved.receive_count
        ),
        ("poison", 7, 1)
    );
    assert_eq!(source.depth(now_ms), depth(0, 0, 0));
    source
        .delete(now_ms, &last.receipt_handle)
        .expect("a handle of a moved message succeeds");
    assert_eq!(dead.depth(now_ms), depth(0, 1, 0));
}

#[test]
fn the_dead_letters_before_a_good_message_do_not_shorten_the_receive() {
    let redrive = Some(Redrive {
        dead_letter_queue: "dead".into(),
        receives_max: 1,
    });
    let mut source = queue(QueueAttributes {
        redrive,
        ..QueueAttributes::default()
    });
    for n in 0..10 {
        send(&mut source, 0, &n.to_string());
    }
    assert_eq!(receive(&mut source, 0).len(), 10);
    send(&mut source, 30 * SECOND, "good");
    let taken = source.receive(30 * SECOND, take(10)).unwrap();
    assert_eq!((taken.messages.len(), taken.dead.len()), (1, 10));
}

#[test]
fn retention_counts_from_when_the_message_was_sent_wherever_it_is() {
    let retention = Duration::from_secs(60);
    let mut source = queue(QueueAttributes {
        retention,
        ..QueueAttributes::default()
    });
    source
        .send(0, content("delayed"), Some(900 * SECOND))
        .unwrap();
    send(&mut source, 0, "in flight");
    receive_one(&mut source, 0);
    send(&mut source, 1, "visible");
    assert_eq!(
        source.depth(60 * SECOND - 1).in_flight + source.depth(60 * SECOND - 1).visible,
        2
    );
    assert_eq!(source.depth(60 * SECOND), depth(1, 0, 0));
    assert_eq!(source.depth(60 * SECOND + 1), depth(0, 0, 0));
    check_invariants(&source);
}

#[test]
fn a_full_queue_refuses_short_polls_and_leaves_long_polls_empty() {
    let mut queue = queue(QueueAttributes::default());
    for n in 0..limits::IN_FLIGHT_MAX + 5 {
        send(&mut queue, 0, &n.to_string());
    }
    let mut handle = String::new();
    for _ in 0..limits::IN_FLIGHT_MAX / 10 {
        let mut taken = queue.receive(0, take(10)).unwrap();
        assert_eq!(taken.messages.len(), 10);
        handle = taken.messages.remove(0).receipt_handle;
    }
    assert_eq!(receive(&mut queue, 0), []);
    let error = queue
        .receive(
            0,
            Take {
                long_poll: false,
                ..take(10)
            },
        )
        .unwrap_err();
    assert_eq!(
        error,
        SqsError::OverLimit {
            queue: "queue".into(),
            in_flight_max: 120_000
        }
    );
    queue.delete(0, &handle).unwrap();
    assert_eq!(receive(&mut queue, 0).len(), 1, "only up to the limit");
    assert_eq!(queue.depth(0), depth(4, 120_000, 0));
}

#[test]
fn a_purge_takes_everything_and_leaves_handles_harmless() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let message = receive_one(&mut queue, 0);
    send(&mut queue, 0, "b");
    queue.send(0, content("c"), Some(SECOND)).unwrap();
    queue.purge();
    check_invariants(&queue);
    assert_eq!(queue.depth(HOUR), depth(0, 0, 0));
    queue.delete(0, &message.receipt_handle).unwrap();
}

/// Random operations against a model that knows only which messages exist: nothing is lost, nothing comes back.
#[test]
fn no_message_is_lost_or_comes_back_under_random_operations() {
    for seed in 1..=20 {
        let mut random = Random(seed);
        let mut queue = queue(QueueAttributes::default());
        let mut model: BTreeSet<String> = BTreeSet::new();
        let mut newest: BTreeMap<String, String> = BTreeMap::new();
        let mut now_ms = 0;
        for step in 0..2_000 {
            now_ms += random.below(3 * SECOND);
            match random.below(6) {
                0 | 1 => {
                    let id = format!("{step}");
                    let delay_ms = (random.below(2) == 0).then(|| random.below(20 * SECOND));
                    queue.send(now_ms, content(&id), delay_ms).unwrap();
                    model.insert(id);
                }
                2 | 3 => {
                    let visibility_ms = Some(random.below(40 * SECOND));
                    let max = 1 + random.below(10) as usize;
                    for message in queue
                        .receive(
                            now_ms,
                            Take {
                                visibility_ms,
                                ..take(max)
                            },
                        )
                        .unwrap()
                        .messages
                    {
                        assert!(
                            model.contains(&message.message_id),
                            "seed {seed}: a deleted message came back"
                        );
                        newest.insert(message.message_id, message.receipt_handle);
                    }
                }
                4 => {
                    if let Some((id, handle)) = newest.pop_first() {
                        queue.delete(now_ms, &handle).unwrap();
                        model.remove(&id);
                    }
                }
                _ => {
                    if let Some(handle) = newest.values().next() {
                        let timeout_ms = random.below(40 * SECOND);
                        match queue.change_visibility(now_ms, handle, timeout_ms) {
                            Ok(()) | Err(SqsError::MessageNotInflight { .. }) => {}
                            Err(error) => panic!("seed {seed}: {error}"),
                        }
                    }
                }
            }
            check_invariants(&queue);
        }
        let ids: BTreeSet<String> = queue
            .entries
            .values()
            .map(|entry| entry.content.message_id.clone())
            .collect();
        assert_eq!(ids, model, "seed {seed}");
    }
}

/// SplitMix64, so that a seed means the same run for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
