use std::collections::BTreeSet;

use protocol::batch::{BatchRecord, Notice, Rejects};

use super::*;

const AT: Timestamp = Timestamp::from_ms(10_000);

fn owner() -> LeaseOwner {
    "f/1".parse().unwrap()
}

fn counts() -> Vec<BatchWrite> {
    let counts = BatchCounts {
        confirmed: 1,
        uncertain: 0,
        settled: [1].into_iter().collect(),
        version: 1,
    };
    let witness = |chunks| BatchWrite::Witness {
        witnessed: [1].into_iter().collect(),
        witnesses: 3,
        chunks,
    };
    vec![
        BatchWrite::Count(counts.clone()),
        BatchWrite::Count(BatchCounts {
            settled: SeqSet::new(),
            ..counts.clone()
        }),
        BatchWrite::Seal {
            counts: counts.clone(),
            at: AT,
            due_at: None,
        },
        BatchWrite::Seal {
            counts,
            at: AT,
            due_at: Some(AT),
        },
        witness(SeqSet::new()),
        witness([0].into_iter().collect()),
    ]
}

fn leases() -> Vec<BatchWrite> {
    let lease = |operator| BatchWrite::Lease {
        lease: Lease {
            owner: owner(),
            until: AT,
        },
        at: AT,
        operator,
    };
    let give_up = |verify_at| BatchWrite::GiveUp {
        owner: owner(),
        due_at: AT,
        verify_at,
        turn_at: None,
        failure: None,
    };
    vec![
        lease(None),
        lease(Some(OperatorDecision::Retry)),
        lease(Some(OperatorDecision::AcceptSink)),
        lease(Some(OperatorDecision::Quarantine)),
        give_up(None),
        give_up(Some(AT)),
        BatchWrite::TicketResent {
            was_due_at: AT,
            due_at: AT,
        },
    ]
}

fn parts() -> Vec<BatchWrite> {
    let freeze = |index| BatchWrite::Freeze {
        owner: owner(),
        index,
        part: PartRecord::frozen([1].into_iter().collect(), [7; 32], None),
    };
    let delivered = |delivered, set_asides: Option<u64>| BatchWrite::Delivered {
        owner: owner(),
        index: 3,
        receipt: "r".to_owned(),
        delivered,
        at: Timestamp::EPOCH,
        rejects: set_asides.map(|set_asides| Rejects {
            count: 2,
            set_aside: [1, 2].into_iter().collect(),
            set_asides,
        }),
    };
    let set_aside = |part, set_asides| BatchWrite::SetAside {
        owner: owner(),
        part,
        set_aside: [1].into_iter().collect(),
        set_asides,
    };
    vec![
        freeze(0),
        freeze(2),
        BatchWrite::AcceptSink {
            owner: owner(),
            index: 1,
            sink: "log:".to_owned(),
        },
        BatchWrite::Number {
            owner: owner(),
            index: 1,
            number: 7,
        },
        delivered(None, None),
        delivered(Some(SeqSet::new()), Some(0)),
        delivered(None, Some(2)),
        set_aside(None, 0),
        set_aside(Some(1), 2),
    ]
}

fn ends() -> Vec<BatchWrite> {
    let complete = |parts, notice| BatchWrite::Complete {
        owner: owner(),
        counts_version: 1,
        witnesses: 2,
        parts,
        at: AT,
        expires_at: Timestamp::EPOCH,
        notice,
    };
    let record = BatchRecord::open(
        BatchId::new(uuid::Uuid::from_u128(1)),
        "arn:q".parse().unwrap(),
        None,
        1,
        AT,
        AT,
    );
    let fail = |notice| BatchWrite::Fail {
        owner: owner(),
        error: "no".to_owned(),
        notice,
    };
    let sent = |status, count| BatchWrite::NoticesSent {
        status,
        count,
        last: 1,
        due_at: AT,
    };
    vec![
        fail(None),
        fail(Some(Notice::of_error(&record, "no", AT))),
        complete(0, None),
        complete(3, None),
        complete(3, Some(Notice::of_completion(&record, AT))),
        sent(None, 1),
        sent(Some(Status::Error), 0),
        sent(Some(Status::Error), 2),
        sent(Some(Status::Processing), 1),
        note(Some(Status::Error), 0),
        note(None, 3),
    ]
}

fn note(status: Option<Status>, notes_count: u64) -> BatchWrite {
    BatchWrite::Note {
        status,
        attempts: 2,
        notes_count,
        notes: vec![OperatorNote::new(AT, "me", "retry", "why")],
    }
}

#[test]
fn an_expression_has_exactly_the_names_and_values_that_are_passed_with_it() {
    let batch = BatchId::new(uuid::Uuid::from_u128(1));
    for write in [counts(), leases(), parts(), ends()].concat() {
        let update = update(batch, &write);
        let text = format!("{} {}", update.condition, update.expression);
        assert_eq!(
            placeholders(&text, '#'),
            sorted(update.names.keys()),
            "{text}"
        );
        assert_eq!(
            placeholders(&text, ':'),
            sorted(update.values.keys()),
            "{text}"
        );
    }
}

#[test]
fn no_write_changes_a_record_of_a_later_version() {
    let batch = BatchId::new(uuid::Uuid::from_u128(1));
    for write in [counts(), leases(), parts(), ends()].concat() {
        let update = update(batch, &write);
        // In parentheses, because conditions have `OR`.
        let readable = format!("({READABLE}) AND (");
        assert!(update.condition.starts_with(&readable), "{update:?}");
        assert!(update.condition.ends_with(')'), "{update:?}");
        assert_eq!(update.values[":formatVersion"], n(FORMAT_VERSION));
    }
}

/// Returns the placeholders of an expression that begin with `sign`, without the sign.
fn placeholders(text: &str, sign: char) -> BTreeSet<String> {
    let name = |rest: &str| -> String {
        rest.chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect()
    };
    text.split(sign).skip(1).map(name).collect()
}

fn sorted<'a>(keys: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    keys.map(|key| key[1..].to_owned()).collect()
}
