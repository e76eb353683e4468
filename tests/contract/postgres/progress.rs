//! Attempts that are interrupted, and the attempts after them.

use local::postgres::{Proxy, TABLES};
use sinks::{Sink, SinkError};

use super::{COLUMNS, REJECTS_MAX, Rig, delivered, part, permanent};

const ROWS: usize = 20_000;
/// The columns of another deployment.
const OTHER: &str = r#"[{"name":"id","json":"id"},{"name":"note","field":"eventId"}]"#;

/// Returns some megabytes of orders, which are sent in several chunks.
fn orders() -> Vec<String> {
    let note = "n".repeat(200);
    let order = |row| format!(r#"{{"id":{row},"note":"{note}{row}"}}"#);
    (0..ROWS).map(order).collect()
}

/// Returns the bytes that a delivery sends through a proxy.
async fn bytes_of(proxy: &Proxy, delivery: impl Future<Output = ()>) -> u64 {
    let before = proxy.sent().bytes;
    delivery.await;
    proxy.sent().bytes - before
}

#[tokio::test]
async fn an_attempt_continues_where_the_killed_attempt_ended() {
    let rig = Rig::with_orders().await;
    let proxy = rig.proxy().await;
    let sink = rig.sink_at(&proxy.url(), Some(COLUMNS), REJECTS_MAX);
    let part = part(&orders());
    let all = bytes_of(&proxy, async { drop(delivered(&sink, &part).await) }).await;
    rig.run("TRUNCATE events, events_parts").await;

    let mut left = all;
    for _ in 0..3 {
        proxy.break_after(left / 2);
        let killed = bytes_of(&proxy, async {
            let error = sink.deliver(&part).await.expect_err("its connection broke");
            assert!(matches!(error, SinkError::Retryable { .. }), "{error}");
        });
        assert!(killed.await <= left / 2 + all / 10);
        for table in ["events", "events_parts"] {
            assert_eq!(rig.count(table).await, 0, "{table}");
        }
        assert!(rig.count("events_staging").await > 0);
        left -= left / 2;
    }
    let last = bytes_of(&proxy, async { drop(delivered(&sink, &part).await) }).await;
    // Each killed attempt loses one chunk.
    assert!(last < all / 2, "the last sent {last} B of {all} B");
    assert_eq!(rig.count("events").await, ROWS as u64);
    assert_eq!(rig.count("events_staging").await, 0);
}

#[tokio::test]
async fn staged_rows_are_used_only_if_all_of_them_match_the_part() {
    for damage in [
        "DELETE FROM events_staging WHERE seq % 1000 = 8",
        "TRUNCATE events_staging",
        "UPDATE events_staging SET chunk = '\\x00' WHERE seq < 10",
        // A row for the record that is rejected below, as another deployment with other columns would have
        // staged it.
        "INSERT INTO events_staging SELECT batch_id, part, 7, '\\x00', ARRAY['-7'::bytea, fields[2], NULL] \
         FROM events_staging WHERE seq = 0",
        // Rows that another sink staged for the same part have no effect.
        "INSERT INTO events_staging SELECT batch_id, 7, seq, chunk, fields FROM events_staging",
    ] {
        let rig = Rig::with_orders().await;
        let proxy = rig.proxy().await;
        let sink = rig.sink_at(&proxy.url(), Some(COLUMNS), REJECTS_MAX);
        let mut bodies = orders();
        bodies[7] = "no JSON".to_owned();
        let part = part(&bodies);
        proxy.break_after(3_000_000);
        sink.deliver(&part).await.expect_err("its connection broke");
        rig.run(damage).await;
        assert_eq!(delivered(&sink, &part).await.rejected.len(), 1);
        let sums = "SELECT concat_ws(' ', count(*), count(DISTINCT id), sum(id), count(DISTINCT note)) FROM events";
        let (rows, sum) = (ROWS - 1, ROWS * (ROWS - 1) / 2 - 7);
        let expected = format!("{rows} {rows} {sum} {rows}");
        assert_eq!(rig.texts(sums).await, [expected], "{damage}");
        let staged = rig.count("events_staging WHERE part = 0").await;
        assert_eq!(staged, 0, "{damage}");
    }
}

#[tokio::test]
async fn rows_that_were_staged_with_other_columns_are_sent_anew() {
    let rig = Rig::with_orders().await;
    let proxy = rig.proxy().await;
    let part = part(&orders());
    proxy.break_after(3_000_000);
    let sink = rig.sink_at(&proxy.url(), Some(COLUMNS), REJECTS_MAX);
    sink.deliver(&part).await.expect_err("its connection broke");
    delivered(&rig.sink(Some(OTHER)), &part).await;
    let others = rig.count("events WHERE note = 'e' || id").await;
    assert_eq!(others, ROWS as u64);
    assert_eq!(rig.count("events_staging").await, 0);
}

#[tokio::test]
async fn two_processors_with_one_part_deliver_it_once() {
    let rig = Rig::with_orders().await;
    let proxy = rig.proxy().await;
    let part = part(&orders());
    let [one, other] = [(); 2].map(|()| rig.sink(Some(COLUMNS)));
    let killed = rig.sink_at(&proxy.url(), Some(COLUMNS), REJECTS_MAX);
    proxy.break_after(3_000_000);
    // The second processor delivers or finds the part.
    let (first, second, third) = tokio::join!(
        delivered(&one, &part),
        delivered(&other, &part),
        killed.deliver(&part)
    );
    assert_eq!(first, second);
    if let Ok(third) = third {
        assert_eq!(first, third);
    }
    let sums =
        "SELECT concat_ws(' ', count(*), count(DISTINCT id), count(DISTINCT note)) FROM events";
    assert_eq!(rig.texts(sums).await, [format!("{ROWS} {ROWS} {ROWS}")]);
    assert_eq!(rig.count("events_parts").await, 1);
    assert_eq!(rig.count("events_staging").await, 0);
}

#[tokio::test]
async fn processors_of_two_deployments_never_mix_their_rows() {
    let rig = Rig::with_orders().await;
    for number in 0..4 {
        let mut part = part(&orders());
        part.part_index = number;
        let [one, other] = [COLUMNS, OTHER].map(|columns| rig.sink(Some(columns)));
        let (first, second) = tokio::join!(one.deliver(&part), other.deliver(&part));
        for result in [first, second] {
            // Each processor may have taken rows of the other.
            let is_fine = matches!(result, Ok(_) | Err(SinkError::Retryable { .. }));
            assert!(is_fine, "{result:?}");
        }
        delivered(&one, &part).await;
        let others = rig.count("events WHERE note = 'e' || id").await;
        assert!(others == 0 || others == ROWS as u64, "{others} are others");
        assert_eq!(rig.count("events").await, ROWS as u64);
        assert_eq!(rig.count("events_staging").await, 0);
        rig.run("TRUNCATE events").await;
    }
}

#[tokio::test]
async fn the_error_of_a_missing_staging_table_names_its_definition() {
    let rig = Rig::start(&format!("{TABLES} DROP TABLE events_staging")).await;
    let reason = permanent(&rig.sink(None), &part(&["a"])).await;
    for words in ["events_staging", "infra/postgres.sql"] {
        assert!(reason.contains(words), "{words} in {reason}");
    }
    let staging = TABLES.find("CREATE TABLE events_staging");
    let (_, staging) = TABLES.split_at(staging.expect("the file defines the staging table"));
    rig.run(staging).await;
    delivered(&rig.sink(None), &part(&["a"])).await;
}
