//! Rows that the database refuses.

use local::postgres::{Sent, TABLES};
use sinks::Sink as _;

use super::{COLUMNS, ORDERS, REJECTS_MAX, Rig, connected, delivered, part, permanent, texts};

/// The rows of a large part. An unoptimised build on a busy machine renders so many of them within the 10 s for which a
/// transaction of the sink may be idle.
const ROWS: usize = 15_000;
/// The maximum of round trips for such a part, for any number of refused rows: some for each chunk, and some for the part.
const REQUESTS_MAX: u64 = 80;

/// Returns orders, of which `refused` have an id that is not a number, evenly spread.
fn orders(rows: usize, refused: usize) -> Vec<String> {
    let is_refused = |row: usize| row * refused / rows != (row + 1) * refused / rows;
    let order = |row: usize| match is_refused(row) {
        true => format!(r#"{{"id":"no number {row}","note":"{row}"}}"#),
        false => format!(r#"{{"id":{row},"note":"a note of some length {row}"}}"#),
    };
    (0..rows).map(order).collect()
}

#[tokio::test]
async fn a_large_part_is_sent_once_for_any_share_of_refused_rows() {
    let rig = Rig::with_orders().await;
    let proxy = rig.proxy().await;
    let mut clean = Sent::default();
    for refused in [0, 20, 600, 7_500] {
        let truncate = "TRUNCATE events, events_parts, events_rejects";
        rig.run(truncate).await;
        // Each case has its own connection, so that all its bytes are counted.
        let sink = rig.sink_at(&proxy.url(), Some(COLUMNS), ROWS as u64);
        let before = proxy.sent();
        let receipt = delivered(&sink, &part(&orders(ROWS, refused))).await;
        let sent = Sent {
            requests: proxy.sent().requests - before.requests,
            bytes: proxy.sent().bytes - before.bytes,
        };
        assert_eq!(receipt.rejected.len(), refused as u64);
        assert_eq!(rig.count("events").await, (ROWS - refused) as u64);
        assert_eq!(rig.count("events_rejects").await, refused as u64);
        assert_eq!(rig.count("events_staging").await, 0);
        assert!(sent.requests <= REQUESTS_MAX, "{refused} refused: {sent:?}");
        if refused == 0 {
            clean = sent;
        }
        // Refused rows are sent a second time, as envelopes for the reject list.
        let envelopes = refused as u64 * 500;
        assert!(
            sent.bytes <= clean.bytes + envelopes,
            "{refused} refused: {sent:?}, and {clean:?} with none"
        );
    }
}

#[tokio::test]
async fn more_rejects_than_allowed_refuse_the_whole_part() {
    let rig = Rig::with_orders().await;
    let url = rig.server.url();
    let mut bodies = orders(9_000, 29);
    // Records that the columns reject count like rows that the database refuses.
    bodies[8_999] = "no json".to_owned();
    let part = part(&bodies);
    let sink = rig.sink_at(&url, Some(COLUMNS), 28);
    let reason = permanent(&sink, &part).await;
    for words in [
        "`29` of `9000` records",
        "expected at most `28` (`SINK_REJECTS_MAX`)",
        "event ‹e310› (seq 310): «the database refuses it: 22P02 invalid input syntax for type integer: \"no number 310\"»",
    ] {
        assert!(reason.contains(words), "{words} in {reason}");
    }
    for table in ["events", "events_parts", "events_rejects", "events_staging"] {
        assert_eq!(rig.count(table).await, 0, "{table}");
    }
    let none = rig.sink_at(&url, Some(COLUMNS), 0);
    let reason = permanent(&none, &part).await;
    assert!(reason.contains("at most `0`"), "{reason}");
    let more = rig.sink_at(&url, Some(COLUMNS), 29);
    assert_eq!(delivered(&more, &part).await.rejected.len(), 29);
    assert_eq!(rig.count("events").await, 8_971);
}

#[tokio::test]
async fn a_character_that_the_database_cannot_store_rejects_its_record_only() {
    let rig = Rig::start(TABLES).await;
    let sink = rig.sink(None);
    let mut part = part(&["a", "nul \0 in the body", "c", "d"]);
    part.batch_key = Some("k\0ey".parse().expect("the value is a key"));
    part.items[2].event_id = "e\0".parse().expect("the value is an id");
    let receipt = delivered(&sink, &part).await;
    assert_eq!(receipt.rejected.len(), 2);
    assert_eq!(rig.texts("SELECT body FROM events").await, ["a", "d"]);
    let keys = rig.texts("SELECT batch_key FROM events_parts").await;
    assert_eq!(keys, ["k\\u0000ey"]);
    let rejects = r#"SELECT seq || ': ' || reason || '; ' || substring(record FROM '"seq":([0-9]+)') FROM events_rejects ORDER BY seq"#;
    for (reject, seq) in rig.texts(rejects).await.iter().zip([1, 2]) {
        assert!(reject.starts_with(&format!("{seq}: ")), "{reject}");
        assert!(reject.ends_with(&format!("; {seq}")), "{reject}");
        assert!(reject.contains("22021 invalid byte sequence"), "{reject}");
    }
    // The second delivery is recognised by its key.
    assert_eq!(delivered(&sink, &part).await, receipt);
}

#[tokio::test]
async fn a_database_with_another_encoding_rejects_characters_that_it_cannot_store() {
    let rig = Rig::start("").await;
    let create =
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    rig.run(create).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/latin", rig.server.port());
    let latin = connected(&url).await;
    let made = latin.batch_execute(TABLES).await;
    made.expect("the server makes the tables");
    let sink = rig.sink_at(&url, None, REJECTS_MAX);
    let mut part = part(&["Zo\u{eb}", "\u{1f980}", "plain"]);
    part.batch_key = Some("\u{1f980}".parse().expect("the value is a key"));
    let receipt = delivered(&sink, &part).await;
    assert_eq!(receipt.rejected.len(), 1);
    let bodies = texts(&latin, "SELECT body FROM events ORDER BY seq").await;
    assert_eq!(bodies, ["Zo\u{eb}", "plain"]);
    let reject = "SELECT reason || ' ' || record FROM events_rejects";
    let reject = texts(&latin, reject).await;
    assert!(reject[0].contains("22P05"), "{reject:?}");
    assert!(reject[0].contains(r#""body":"\ud83e\udd80""#), "{reject:?}");
    let keys = texts(&latin, "SELECT batch_key FROM events_parts").await;
    assert_eq!(keys, [r"\ud83e\udd80"]);
}

#[tokio::test]
async fn constraints_of_every_kind_reject_rows_and_not_the_part() {
    let rig = Rig::start(&format!(
        "{TABLES} DROP TABLE events;
         CREATE TABLE customers (name text PRIMARY KEY);
         INSERT INTO customers VALUES ('known');
         CREATE TABLE events (
            id bigint PRIMARY KEY DEFERRABLE INITIALLY DEFERRED,
            amount bigint CHECK (amount > 0),
            customer text REFERENCES customers DEFERRABLE INITIALLY DEFERRED,
            note text
         );
         CREATE INDEX ON events (note)"
    ))
    .await;
    let sink = rig.sink(Some(
        r#"[{"name":"id","json":"id"},{"name":"amount","json":"amount"},{"name":"customer","json":"customer"},
            {"name":"note","json":"note"}]"#,
    ));
    // Longer than an index entry may be, even compressed.
    let scattered = (0..4_000).map(|number| scattered(number).to_string());
    let long: String = scattered.collect();
    let part = part(&[
        r#"{"id":1,"amount":1,"customer":"known"}"#.to_owned(),
        r#"{"id":1,"amount":1,"customer":"known"}"#.to_owned(),
        r#"{"id":2,"amount":0,"customer":"known"}"#.to_owned(),
        r#"{"id":3,"amount":1,"customer":"unknown"}"#.to_owned(),
        format!(r#"{{"id":4,"amount":1,"note":"{long}"}}"#),
        r#"{"id":5,"amount":1}"#.to_owned(),
    ]);
    assert_eq!(delivered(&sink, &part).await.rejected.len(), 4);
    let ids = rig.texts("SELECT id::text FROM events ORDER BY id").await;
    assert_eq!(ids, ["1", "5"]);
    let reasons =
        "SELECT seq || ' ' || split_part(reason, ' ', 5) FROM events_rejects ORDER BY seq";
    let reasons = rig.texts(reasons).await;
    assert_eq!(reasons, ["1 23505", "2 23514", "3 23503", "4 54000"]);
}

#[tokio::test]
async fn the_grants_that_the_tables_file_names_are_enough() {
    let rig = Rig::start(&format!(
        "{TABLES} {ORDERS}; CREATE USER granted;
         GRANT INSERT ON events, events_rejects TO granted;
         GRANT SELECT (batch_id, part, seq) ON events_rejects TO granted;
         GRANT SELECT, INSERT, UPDATE ON events_parts TO granted;
         GRANT SELECT, INSERT, UPDATE, DELETE ON events_staging TO granted"
    ))
    .await;
    let url = rig.server.url().replace("postgres@", "granted@");
    let sink = rig.sink_at(&url, Some(COLUMNS), REJECTS_MAX);
    sink.dry_run().await.expect("the grants are enough");
    let part = part(&orders(5_000, 5));
    let receipt = delivered(&sink, &part).await;
    assert_eq!(receipt.rejected.len(), 5);
    assert_eq!(delivered(&sink, &part).await, receipt);
    rig.run("REVOKE INSERT ON events FROM granted").await;
    let error = sink.dry_run().await.unwrap_err().to_string();
    assert!(error.contains("may not insert into \"events\""), "{error}");
}

/// Returns a number that does not compress, unlike consecutive numbers.
fn scattered(number: u32) -> u32 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9);
    mixed ^= mixed >> 15;
    mixed.wrapping_mul(0x85eb_ca6b) ^ (mixed >> 13)
}
