//! The sink `postgres:` with a real server.

mod freezing;
mod progress;
mod refused;
mod types;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use local::faults::{FaultOptions, SinkErrors};
use local::postgres::{Proxy, Server, TABLES};
use sinks::{Database, PostgresSink, SecretReader};
use sinks::{Part, Receipt, Sink, SinkError};
use tokio::net::TcpListener;
use tokio_postgres::{Client, NoTls};

use crate::parts::part;

const TIMEOUT: Duration = Duration::from_secs(60);
const REJECTS_MAX: u64 = 10_000;

/// A PostgreSQL server with the tables of the sink.
struct Rig {
    server: Server,
    client: Client,
}

impl Rig {
    async fn start(tables: &str) -> Rig {
        let server = Server::start().await.expect("a server is installed");
        let client = connected(&server.url()).await;
        let rig = Rig { server, client };
        rig.run(tables).await;
        rig
    }

    /// Starts a server with the tables of the sink, and [`ORDERS`] in the place of its events.
    async fn with_orders() -> Rig {
        Rig::start(&format!("{TABLES} {ORDERS}")).await
    }

    fn sink(&self, columns: Option<&str>) -> PostgresSink {
        self.sink_at(&self.server.url(), columns, REJECTS_MAX)
    }

    /// Returns a sink at the URL of this server, or of a proxy in front of it.
    fn sink_at(&self, url: &str, columns: Option<&str>, rejects_max: u64) -> PostgresSink {
        PostgresSink::new(url, &database(columns, rejects_max), TIMEOUT)
            .expect("the URL names a database")
    }

    /// Starts a proxy in front of the server, without faults.
    async fn proxy(&self) -> Proxy {
        let errors = Arc::new(SinkErrors::new(&FaultOptions::default()));
        Proxy::start(self.server.port(), errors)
            .await
            .expect("there is a port")
    }

    async fn run(&self, statements: &str) {
        let done = self.client.batch_execute(statements).await;
        done.expect("the server takes the statements");
    }

    async fn count(&self, table: &str) -> u64 {
        let query = format!("SELECT count(*)::text FROM {table}");
        let number = self.texts(&query).await.remove(0);
        number.parse().expect("the value is a number")
    }

    async fn texts(&self, query: &str) -> Vec<String> {
        texts(&self.client, query).await
    }
}

async fn connected(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("the server takes connections");
    tokio::spawn(connection);
    client
}

async fn texts(client: &Client, query: &str) -> Vec<String> {
    let rows = client.query(query, &[]).await.expect("it can be read");
    rows.iter().map(|row| row.get(0)).collect()
}

fn database(columns: Option<&str>, rejects_max: u64) -> Database {
    Database {
        table: "events".parse().expect("the value is a name"),
        columns: columns.map(|text| text.parse().expect("they are columns")),
        password: None,
        rejects_max,
    }
}

async fn delivered(sink: &PostgresSink, part: &Part) -> Receipt {
    sink.deliver(part).await.expect("the database takes it")
}

/// Returns the reason of a refusal that is permanent.
async fn permanent(sink: &PostgresSink, part: &Part) -> String {
    match sink.deliver(part).await {
        Err(SinkError::Permanent { reason }) => reason,
        other => panic!("not permanent: {other:?}"),
    }
}

#[tokio::test]
async fn a_dry_run_names_a_table_that_is_missing() {
    let rig = Rig::start(TABLES).await;
    let sink = rig.sink(None);
    sink.dry_run().await.expect("all tables are there");
    assert_eq!(rig.count("events_parts").await, 0);
    rig.run("DROP TABLE events_staging").await;
    let error = sink.dry_run().await.unwrap_err().to_string();
    assert!(error.contains("events_staging"), "{error}");
}

#[tokio::test]
async fn a_part_is_stored_once_however_often_it_is_delivered() {
    let rig = Rig::start(TABLES).await;
    let part = part(&["a", "tab\t back\\ line\n\r \u{1f980} \\N", ""]);
    let (one, other) = (rig.sink(None), rig.sink(None));
    // The second sink waits, and finds the part.
    let (first, second) = tokio::join!(delivered(&one, &part), delivered(&other, &part));
    assert_eq!(first, second);
    assert_eq!(first, delivered(&one, &part).await);
    let bodies = rig.texts("SELECT body FROM events ORDER BY seq").await;
    let sent: Vec<&str> = part.items.iter().map(|item| &*item.body).collect();
    assert_eq!(bodies, sent);
    let rows = "SELECT concat_ws(' ', batch_id, part, seq, event_id, sqs_message_id, source, sent_at) FROM events \
                ORDER BY seq LIMIT 1";
    let id = part.batch_id;
    assert_eq!(rig.texts(rows).await, [format!("{id} 0 0 e0 m0 arn:q 7")]);
    let ledger = "SELECT concat_ws(' ', batch_id, part, source, batch_key, count, rejected) FROM events_parts";
    let expected = format!("{id} 0 arn:q Zo\u{eb} 3 0");
    assert_eq!(rig.texts(ledger).await, [expected]);
}

#[tokio::test]
async fn other_content_under_the_key_of_a_part_is_refused_permanently() {
    let rig = Rig::start(TABLES).await;
    let sink = rig.sink(None);
    delivered(&sink, &part(&["a"])).await;
    let reason = permanent(&sink, &part(&["b"])).await;
    assert!(reason.contains("with other content"), "{reason}");
    assert_eq!(rig.texts("SELECT body FROM events").await, ["a"]);
}

const ORDERS: &str =
    "DROP TABLE events; CREATE TABLE events (id integer PRIMARY KEY, note text, paid boolean)";
const COLUMNS: &str =
    r#"[{"name":"id","json":"id"},{"name":"note","json":"note"},{"name":"paid","json":"paid"}]"#;

#[tokio::test]
async fn rows_that_the_database_refuses_are_rejected_and_the_others_are_stored() {
    let rig = Rig::with_orders().await;
    let sink = rig.sink(Some(COLUMNS));
    let part = part(&[
        r#"{"id":1,"note":null}"#,
        r#"{"id":"one"}"#,
        r#"{"id":1,"note":"again"}"#,
        r#"{"id":2,"note":"n\u0000ul"}"#,
        r#"{"id":3,"note":", line 1, column","paid":true}"#,
        "no json",
        r#"{"id":4,"paid":"perhaps"}"#,
        r#"{"note":"no id"}"#,
    ]);
    let receipt = delivered(&sink, &part).await;
    assert_eq!(receipt.rejected.len(), 6);
    // The ledger has it.
    assert_eq!(delivered(&sink, &part).await, receipt);
    let rows = "SELECT coalesce(id::text, '-') || ' ' || coalesce(note, '-') || ' ' || coalesce(paid::text, '-') \
                FROM events ORDER BY id";
    assert_eq!(rig.texts(rows).await, ["1 - -", "3 , line 1, column true"]);
    let reasons = "SELECT seq || ': ' || reason FROM events_rejects ORDER BY seq";
    let reasons = rig.texts(reasons).await;
    let expected = [
        (1, "22P02 invalid input syntax for type integer: \"one\""),
        (2, "23505 duplicate key value"),
        (3, "22021 invalid byte sequence"),
        (5, "body is not JSON"),
        (
            6,
            "22P02 invalid input syntax for type boolean: \"perhaps\"",
        ),
        (7, "23502 null value in column \"id\""),
    ];
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for (reason, (seq, words)) in reasons.iter().zip(expected) {
        assert!(reason.starts_with(&format!("{seq}: ")), "{reason}");
        assert!(reason.contains(words), "{words} in {reason}");
    }
    let records = "SELECT record::json ->> 'eventId' FROM events_rejects ORDER BY seq";
    let records = rig.texts(records).await;
    assert_eq!(records, ["e1", "e2", "e3", "e5", "e6", "e7"]);
}

#[tokio::test]
async fn temporary_errors_are_retryable_and_others_are_permanent() {
    let rig = Rig::start("").await;
    let sink = rig.sink(None);
    let part = part(&["a"]);
    let no_table = permanent(&sink, &part).await;
    assert!(no_table.contains("42P01"), "{no_table}");
    rig.run(TABLES).await;
    delivered(&sink, &part).await;
    // The kept connection is broken, so the part is delivered over a new one.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'batch-processor'";
    rig.run(end).await;
    delivered(&sink, &part).await;
    drop(rig);
    // No server.
    let error = sink.deliver(&part).await.unwrap_err();
    assert!(matches!(error, SinkError::Retryable { .. }), "{error}");
}

/// Stands in for the Lambda extension: returns the present secret.
async fn extension(secret: Arc<Mutex<&'static str>>) -> SecretReader {
    let listener = TcpListener::bind("localhost:0").await;
    let listener = listener.expect("there is a port");
    let address = listener.local_addr().expect("it has an address");
    let answer = move || async move {
        let secret = *secret.lock().expect("the mutex is not poisoned");
        serde_json::json!({ "SecretString": secret }).to_string()
    };
    let router = Router::new().route("/secretsmanager/get", get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let name = "secretsmanager:legacy".parse().expect("it is a name");
    SecretReader::new(&name, address.port(), Some("token".to_owned()))
}

#[tokio::test]
async fn the_password_is_read_again_for_each_connection() {
    let rig = Rig::start(TABLES).await;
    // From now on, the server demands a password from `legacy`.
    let user =
        "CREATE USER legacy PASSWORD 'word'; GRANT ALL ON ALL TABLES IN SCHEMA public TO legacy";
    rig.run(user).await;
    let file = rig.texts("SHOW hba_file").await.remove(0);
    let rules = format!(
        "COPY (VALUES ('host all legacy all scram-sha-256'), ('host all all all trust')) TO '{file}'"
    );
    for statement in [&*rules, "SELECT pg_reload_conf()"] {
        rig.run(statement).await;
    }
    let url = rig.server.url().replace("postgres@", "legacy@");
    let sink = |password: Option<&str>| {
        let database = Database {
            password: password.map(|text| text.to_owned().into()),
            ..database(None, REJECTS_MAX)
        };
        PostgresSink::new(&url, &database, TIMEOUT).expect("the URL names a database")
    };
    let part = part(&["a"]);
    for password in [None, Some("other")] {
        // The server reads the rules again a moment after the signal.
        let attempts = async {
            loop {
                match sink(password).deliver(&part).await {
                    Ok(_) => tokio::task::yield_now().await,
                    Err(error) => break error,
                }
            }
        };
        let refused = tokio::time::timeout(TIMEOUT, attempts).await;
        let refused = refused.expect("the rules are read in time");
        assert!(matches!(refused, SinkError::Retryable { .. }), "{refused}");
    }
    delivered(&sink(Some("word")), &part).await;

    let secret = Arc::new(Mutex::new("other"));
    let kept = sink(None).with_secret(extension(Arc::clone(&secret)).await);
    let refused = kept.deliver(&part).await.unwrap_err().to_string();
    assert!(refused.contains("28P01"), "{refused}");
    *secret.lock().expect("the mutex is not poisoned") =
        r#"{"username":"legacy","password":"word"}"#;
    delivered(&kept, &part).await;
    assert_eq!(rig.texts("SELECT body FROM events").await, ["a"]);
}
