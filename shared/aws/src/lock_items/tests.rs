use protocol::ids::BodyHash;

use super::*;

#[test]
fn an_item_of_a_later_version_is_refused_by_every_reader() {
    let item = item_of([(MESSAGE_ID, s("e1")), ("formatVersion", n(3))]);
    let errors = [
        read_lock_item("lock-table", item.clone()).map(drop),
        read_event("lock-table", item, &mut None).map(drop),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(
            error.to_string(),
            "table `lock-table`, item ‹e1›, attribute `formatVersion`: written by a later version of the service: \
             got `3`, expected at most `2`; deploy the later version again"
        );
    }
    assert!(LOCK_ITEM_PROJECTION.contains("formatVersion"));
    assert!(EVENT_PROJECTION.contains("formatVersion"));
}

/// Returns the item with another value of an attribute, or without it.
fn edited(mut item: Item, attribute: &str, value: Option<AttributeValue>) -> Item {
    match value {
        Some(value) => item.insert(attribute.to_owned(), value),
        None => item.remove(attribute),
    };
    item
}

fn assert_names(attribute: &str, error: &MalformedItem) {
    let words = format!("table `lock-table`, item ‹the-event›, attribute `{attribute}`: ");
    assert!(error.to_string().starts_with(&words), "{error}");
}

#[test]
fn an_edited_live_claim_is_refused_with_its_id_and_attribute() {
    let live = item_of([
        (MESSAGE_ID, s("the-event")),
        (SQS_MESSAGE_ID, s("the-message")),
        (BODY_HASH, b(BodyHash::of(b"body").as_bytes())),
        (BATCH_ID, s("0190163d-8694-739b-aea5-966c26f8ad91#3")),
        (SEQ, n(4)),
        (MESSAGE, s("body")),
        (SOURCE, s("arn:q")),
        (SENT_AT, n(17)),
    ]);
    for (attribute, value) in [
        (SQS_MESSAGE_ID, Some(s(""))),
        (SQS_MESSAGE_ID, None),
        (BODY_HASH, Some(s("text"))),
        (BATCH_ID, Some(s("no shard"))),
        (SEQ, Some(n(-1))),
        (SEQ, None),
        (PAST_DELIVERIES, Some(s("none"))),
        (MESSAGE, Some(n(1))),
        (MESSAGE, None),
        (SOURCE, None),
        (SENT_AT, Some(n(1.5))),
    ] {
        let item = edited(live.clone(), attribute, value);
        // Only the event needs the first three, and only the lock item the past deliveries.
        let lock_item = read_lock_item("lock-table", item.clone());
        match [MESSAGE, SOURCE, SENT_AT].contains(&attribute) {
            true => assert!(lock_item.is_ok(), "{attribute}"),
            false => assert_names(attribute, &lock_item.unwrap_err()),
        }
        let event = read_event("lock-table", item, &mut None);
        match attribute == PAST_DELIVERIES {
            true => assert!(event.is_ok()),
            false => assert_names(attribute, &event.unwrap_err()),
        }
    }
}

#[test]
fn a_chunk_claim_of_a_former_version_is_refused_with_its_id_and_attribute() {
    // As version 0.2.0 wrote it.
    let in_chunk = item_of([
        (MESSAGE_ID, s("the-event")),
        (SQS_MESSAGE_ID, s("the-message")),
        (BODY_HASH, b(BodyHash::of(b"body").as_bytes())),
        (BATCH, s("0190163d-8694-739b-aea5-966c26f8ad91")),
        (SEQ, n(4)),
        ("chunk", n(1)),
        (EXPIRES_AT, n(1_701_000_000)),
    ]);
    for (attribute, value) in [
        (BATCH, Some(n(1))),
        (BATCH_ID, Some(s("0190163d-8694-739b-aea5-966c26f8ad91#3"))),
        (SEQ, None),
        ("chunk", None),
        (EXPIRES_AT, None),
        (SQS_MESSAGE_ID, None),
    ] {
        let item = edited(in_chunk.clone(), attribute, value);
        for item in [in_chunk.clone(), item] {
            let refused = read_lock_item("lock-table", item).unwrap_err().to_string();
            assert_eq!(
                refused,
                "table `lock-table`, item ‹the-event›, attribute `batch`: the claim of a former version (chunk claims, up to 0.2), \
                 which this version does not read",
                "{attribute}"
            );
        }
    }
    assert!(LOCK_ITEM_PROJECTION.contains(LOCK_ITEM_NAME.0));
}
