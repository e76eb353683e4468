//! Connections of frozen environments: they must not keep locks that other environments wait for.

use std::time::Duration;

use local::postgres::TABLES;
use sinks::PostgresSink;
use sinks::{Sink, SinkError};

use super::{REJECTS_MAX, Rig, database, delivered, part};

#[tokio::test]
async fn a_frozen_environment_does_not_hold_a_part_for_longer_than_an_attempt() {
    const SHORT: Duration = Duration::from_secs(2);
    let rig = Rig::start(TABLES).await;
    let proxy = rig.proxy().await;
    let part = part(&["a"]);
    // The commit gets no reply.
    proxy.freeze_at_commit();
    let frozen = PostgresSink::new(&proxy.url(), &database(None, REJECTS_MAX), SHORT)
        .expect("the URL names a database");
    let error = frozen.deliver(&part).await.unwrap_err();
    assert!(matches!(error, SinkError::Retryable { .. }), "{error}");
    delivered(&rig.sink(None), &part).await;
    assert_eq!(rig.texts("SELECT body FROM events").await, ["a"]);
}

#[tokio::test]
async fn a_transaction_ends_with_its_attempt_and_a_dead_peer_is_noticed() {
    let rig = Rig::start(&format!(
        "{TABLES} CREATE TABLE settings (name text, value text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO settings SELECT name, setting FROM pg_settings; RETURN NEW; END $$;
         CREATE TRIGGER note BEFORE INSERT ON events_parts FOR EACH ROW EXECUTE FUNCTION note()"
    ))
    .await;
    delivered(&rig.sink(None), &part(&["a"])).await;
    let number = async |name: &str| -> u64 {
        let query = format!("SELECT value FROM settings WHERE name = '{name}'");
        let value = rig.texts(&query).await.remove(0);
        value.parse().expect("the value is a number")
    };
    let timeout_ms = super::TIMEOUT.as_millis() as u64;
    for name in [
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
    ] {
        let value = number(name).await;
        assert!((1..=timeout_ms).contains(&value), "{name} is {value} ms");
    }
    let idle = number("tcp_keepalives_idle").await;
    let interval = number("tcp_keepalives_interval").await;
    let count = number("tcp_keepalives_count").await;
    assert!(
        idle > 0 && interval > 0 && count > 0 && idle + interval * count <= 60,
        "a dead peer is noticed after {idle} s and {count} times {interval} s"
    );
}
