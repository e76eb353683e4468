//! Delays, sizes, retention, dead letters and the limit of messages in flight.

use super::*;

#[test]
fn the_delay_of_a_message_replaces_the_delay_of_its_queue() {
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
    let mut delayed = |secs| queue.send(0, content("a"), Some(secs * SECOND));
    assert_eq!(delayed(900), Ok(()));
    let error = SqsError::out_of_range("DelaySeconds", 901, 0..=900);
    assert_eq!(delayed(901), Err(error));
}

#[test]
fn a_message_over_the_queues_limit_is_refused() {
    let mut queue = queue(QueueAttributes {
        message_size_max_bytes: 1024,
        ..QueueAttributes::default()
    });
    let mut send = |bytes| queue.send(0, content_of("id", "x".repeat(bytes)), None);
    assert_eq!(send(1024), Ok(()));
    let (bytes, bytes_max) = (1025, 1024);
    let too_long = SqsError::MessageTooLong { bytes, bytes_max };
    assert_eq!(send(1025), Err(too_long));
}

#[test]
fn a_receive_over_the_maximum_moves_the_message_and_keeps_its_id_age_and_receives() {
    let mut source = queue(with_redrive(2));
    let mut dead = Queue::new("dead", 2, QueueAttributes::default(), 0);
    send(&mut source, 7, "poison");
    receive_one(&mut source, 10);
    let last = receive_one(&mut source, 10 + 30 * SECOND);
    assert_eq!(last.receive_count, 2);

    let now_ms = 10 + 60 * SECOND;
    let without_dead_letter_queue = ReceiveOptions {
        redrivable: false,
        ..invisible_for(0)
    };
    let delivered = source.receive(now_ms, without_dead_letter_queue).unwrap();
    assert_eq!(delivered.messages.len(), 1);

    let taken = source.receive(now_ms, up_to(10)).unwrap();
    assert_eq!((taken.messages.len(), taken.dead.len()), (0, 1));
    check_invariants(&source);
    for letter in taken.dead {
        dead.accept(now_ms, letter);
    }
    let moved = receive_one(&mut dead, now_ms);
    assert_eq!((&*moved.message_id, moved.sent_ms), ("poison", 7));
    assert_eq!((moved.receive_count, moved.first_receive_ms), (4, 10));
    let source_arn = Some("arn:aws:sqs:us-east-1:000000000000:queue");
    assert_eq!(moved.dead_letter_source_arn.as_deref(), source_arn);
    assert_eq!(source.depth(now_ms), depth(0, 0, 0));
    let deleted = source.delete(now_ms, &last.receipt_handle);
    deleted.expect("deleting with a handle of a moved message succeeds");
    assert_eq!(dead.depth(now_ms), depth(0, 1, 0));
}

#[test]
fn the_dead_letters_before_a_good_message_do_not_shorten_the_receive() {
    let mut source = queue(with_redrive(1));
    for n in 0..10 {
        send(&mut source, 0, &n.to_string());
    }
    assert_eq!(receive(&mut source, 0).len(), 10);
    send(&mut source, 30 * SECOND, "good");
    let taken = source.receive(30 * SECOND, up_to(10)).unwrap();
    assert_eq!((taken.messages.len(), taken.dead.len()), (1, 10));
}

#[test]
fn retention_counts_from_the_sending_of_the_message() {
    let retention = Duration::from_secs(60);
    let mut source = queue(QueueAttributes {
        retention,
        ..QueueAttributes::default()
    });
    let delayed = source.send(0, content("delayed"), Some(900 * SECOND));
    delayed.unwrap();
    send(&mut source, 0, "in flight");
    receive_one(&mut source, 0);
    send(&mut source, 1, "visible");
    let before = source.depth(60 * SECOND - 1);
    assert_eq!(before.in_flight + before.visible, 2);
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
        let mut taken = queue.receive(0, up_to(10)).unwrap();
        assert_eq!(taken.messages.len(), 10);
        handle = taken.messages.remove(0).receipt_handle;
    }
    assert_eq!(receive(&mut queue, 0), []);
    let short_poll = ReceiveOptions {
        long_poll: false,
        ..up_to(10)
    };
    let over_limit = SqsError::OverLimit {
        queue: "queue".into(),
        in_flight_max: 120_000,
    };
    assert_eq!(queue.receive(0, short_poll).unwrap_err(), over_limit);
    queue.delete(0, &handle).unwrap();
    assert_eq!(receive(&mut queue, 0).len(), 1, "only up to the limit");
    assert_eq!(queue.depth(0), depth(4, 120_000, 0));
}

#[test]
fn a_purge_deletes_every_message_and_its_handles_still_delete_without_error() {
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
