//! Receives and visibility timeouts.

use super::*;

#[test]
fn a_received_message_is_invisible_until_its_timeout_ends_and_counts_its_receives() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 5, "a");
    let first = receive_one(&mut queue, 10);
    assert_eq!((first.receive_count, first.sent_ms), (1, 5));
    assert_eq!(first.first_receive_ms, 10);
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
        let taken = queue.receive(0, invisible_for(0)).unwrap();
        assert_eq!(taken.messages.len(), 1);
        assert_eq!(taken.messages[0].receive_count, expected_count);
    }
    let refused = queue.receive(0, invisible_for(43_201 * SECOND));
    let error = SqsError::out_of_range("VisibilityTimeout", 43_201, 0..=43_200);
    assert_eq!(refused.unwrap_err(), error);
}

#[test]
fn a_receive_takes_one_to_ten_messages() {
    let mut queue = queue(QueueAttributes::default());
    for n in 0..12 {
        send(&mut queue, n, &n.to_string());
    }
    for max in [0, 11] {
        let error = SqsError::out_of_range("MaxNumberOfMessages", max, 1..=10);
        assert_eq!(queue.receive(20, up_to(max)).unwrap_err(), error);
    }
    let first = queue.receive(20, up_to(1)).unwrap();
    assert_eq!(first.messages[0].message_id, "0");
    assert_eq!(receive(&mut queue, 20).len(), 10);
    assert_eq!(receive(&mut queue, 20).len(), 1);
}

#[test]
fn a_returned_message_is_received_after_messages_that_were_visible_before() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "poison");
    let poison = receive_one(&mut queue, 0);
    send(&mut queue, 1, "good");
    let handle = &poison.receipt_handle;
    queue.change_visibility(2, handle, 0).unwrap();
    let received = receive(&mut queue, 3).into_iter();
    let ids = Vec::from_iter(received.map(|message| message.message_id));
    assert_eq!(ids, ["good", "poison"]);
}

#[test]
fn a_changed_visibility_counts_from_its_change_and_not_for_the_next_receive() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let handle = receive_one(&mut queue, 0).receipt_handle;
    let changed = queue.change_visibility(1, &handle, 60 * SECOND);
    changed.unwrap();
    assert_eq!(queue.depth(60 * SECOND), depth(0, 1, 0));
    receive_one(&mut queue, 60 * SECOND + 1);
    assert_eq!(queue.next_due_ms(), Some(90 * SECOND + 1));
}

#[test]
fn twelve_hours_from_the_receive_cannot_be_extended() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let taken = queue.receive(0, invisible_for(12 * HOUR)).unwrap();
    let handle = &taken.messages[0].receipt_handle;
    let mut change = |timeout_ms| queue.change_visibility(2 * HOUR, handle, timeout_ms);
    let (value_secs, left_secs) = (36_001, 36_000);
    let beyond = SqsError::VisibilityBeyondLimit {
        value_secs,
        left_secs,
    };
    assert_eq!(change(10 * HOUR + SECOND), Err(beyond));
    assert_eq!(change(10 * HOUR), Ok(()));
    let error = SqsError::out_of_range("VisibilityTimeout", 43_201, 0..=43_200);
    assert_eq!(change(43_201 * SECOND), Err(error));
}
