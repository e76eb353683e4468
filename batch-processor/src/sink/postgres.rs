use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::SinkExt;
use serde_json::Value;
use shared::aws::chain;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{info, warn};

use super::columns::{Body, Column, Columns};
use super::format::{Reject, RejectReason, reject_line};
use super::secret::{Secret, SecretReader};
use super::{Part, Receipt, Sink, SinkError, content_hash, is_loopback};

/// Bytes of rows that are handed to the connection at once.
const PIECE_BYTES: usize = 64 << 10;
/// What a name in PostgreSQL holds at most.
/// Source: <https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-IDENTIFIERS> (2026-08).
const NAME_BYTES_MAX: usize = 63;
/// The longest of what follows the name of the table in those of its ledger and its reject list.
const LEDGER: &str = "_parts";
const REJECTS: &str = "_rejects";

/// The columns of a table without `SINK_COLUMNS`: the envelope.
const ENVELOPE: &str = r#"[
    {"name": "batch_id", "field": "batchId"},
    {"name": "part", "field": "part"},
    {"name": "seq", "field": "seq"},
    {"name": "event_id", "field": "eventId"},
    {"name": "sqs_message_id", "field": "sqsMessageId"},
    {"name": "source", "field": "source"},
    {"name": "sent_at", "field": "sentAt"},
    {"name": "body", "field": "body"}
]"#;

/// The URL of a database, if it is one that may be spoken to.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let wrong = |words: &str| format!("{words}, expected `postgres://user@host/database`");
    let config: tokio_postgres::Config = text
        .parse()
        .map_err(|error| wrong(&format!("no URL of a database: {}", chain(&error))))?;
    if config.get_password().is_some() {
        return Err(wrong(
            "the password belongs where `SINK_SECRET` says, or into `SINK_PASSWORD`",
        ));
    }
    if config.get_user().is_none() || config.get_dbname().is_none() {
        return Err(wrong("a user or a database is missing"));
    }
    match config.get_hosts() {
        [Host::Tcp(_)] => Ok(text.to_owned()),
        _ => Err(wrong("one host, and no socket")),
    }
}

/// A table, maybe with its schema: `SINK_TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName(Vec<String>);

impl FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<TableName, String> {
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        let fits = |name: &String| {
            (1..=NAME_BYTES_MAX - REJECTS.len()).contains(&name.len())
                && !name.contains(['"', '\0'])
        };
        if names.len() > 2 || !names.iter().all(fits) {
            let longest = NAME_BYTES_MAX - REJECTS.len();
            return Err(format!(
                "expected `table` or `schema.table`, names of 1 to {longest} bytes without `\"`"
            ));
        }
        Ok(TableName(names))
    }
}

impl TableName {
    /// `events`, where nothing else is said.
    pub fn events() -> TableName {
        TableName(vec!["events".to_owned()])
    }

    /// The name in a statement, with something behind it.
    fn quoted(&self, behind: &str) -> String {
        let (last, before) = self.0.split_last().expect("a name has a last step");
        let schema: String = before.iter().map(|name| format!("\"{name}\".")).collect();
        format!("{schema}\"{last}{behind}\"")
    }
}

/// What else is said of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Where rows go.
    pub table: TableName,
    /// What is in them; the envelope, if nothing is said.
    pub columns: Option<Columns>,
    /// The user's password.
    pub password: Option<Secret>,
}

/// A row for each event, by `COPY`, and one for the part in the ledger beside the table, in one transaction: a part is
/// there once, whole, or not at all. Rows that the database refuses are kept in a table of their own, with the reason.
#[derive(Debug)]
pub struct PostgresSink {
    config: tokio_postgres::Config,
    tls: Option<MakeTls>,
    table: TableName,
    columns: Arc<[Column]>,
    timeout: Duration,
    secret: Option<SecretReader>,
    idle: Mutex<Vec<Client>>,
}

struct MakeTls(MakeRustlsConnect);

impl fmt::Debug for MakeTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeTls")
    }
}

/// A part as rows: the text format of `COPY`, where every row is one line.
/// Source: <https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2> (2026-08).
#[derive(Debug, Default)]
struct Rows {
    text: Vec<u8>,
    /// Where each row ends.
    ends: Vec<usize>,
    /// Which item of the part each row is.
    items: Vec<usize>,
}

impl Rows {
    fn of(part: &Part, columns: &[Column]) -> (Rows, Vec<Reject>) {
        let (mut rows, mut rejects) = (Rows::default(), Vec::new());
        for (index, item) in part.items.iter().enumerate() {
            let mut body = Body::of(item);
            let start = rows.text.len();
            let pushed = columns.iter().enumerate().try_for_each(|(number, column)| {
                if number > 0 {
                    rows.text.push(b'\t');
                }
                match column.value(part, item, &mut body)? {
                    Some(value) => push_value(&mut rows.text, &value),
                    None => rows.text.extend_from_slice(b"\\N"),
                }
                Ok(())
            });
            match pushed {
                Ok(()) => {
                    rows.text.push(b'\n');
                    rows.ends.push(rows.text.len());
                    rows.items.push(index);
                }
                Err(reason) => {
                    rows.text.truncate(start);
                    rejects.push(Reject {
                        seq: item.seq,
                        event_id: item.event_id.clone(),
                        reason,
                    });
                }
            }
        }
        (rows, rejects)
    }

    fn text(&self, from: usize, to: usize) -> &[u8] {
        let end_of = |rows: usize| match rows {
            0 => 0,
            rows => self.ends[rows - 1],
        };
        &self.text[end_of(from)..end_of(to)]
    }
}

fn push_value(text: &mut Vec<u8>, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            other => text.push(other),
        }
    }
}

impl PostgresSink {
    /// Rows in a table of the database at `url`; `timeout` is for a whole part.
    ///
    /// # Errors
    /// A URL that is none, or no certificates to trust where the host is another machine.
    pub fn new(url: &str, database: &Database, timeout: Duration) -> Result<PostgresSink, String> {
        let mut config: tokio_postgres::Config =
            url.parse().map_err(|error: Error| chain(&error))?;
        let loopback = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => is_loopback(name),
            #[cfg(unix)]
            Host::Unix(_) => true,
        });
        config
            .ssl_mode(match loopback {
                true => SslMode::Disable,
                false => SslMode::Require,
            })
            .connect_timeout(timeout)
            .application_name("batch-processor");
        if let Some(password) = &database.password {
            config.password(password.expose());
        }
        let columns = match &database.columns {
            Some(columns) => columns.clone(),
            None => ENVELOPE
                .parse()
                .map_err(|error| format!("columns: {error}"))?,
        };
        Ok(PostgresSink {
            config,
            tls: match loopback {
                true => None,
                false => Some(MakeTls(tls()?)),
            },
            table: database.table.clone(),
            columns: columns.csv(),
            timeout,
            secret: None,
            idle: Mutex::default(),
        })
    }

    /// With a password that is kept elsewhere, read anew for each connection.
    pub fn with_secret(self, reader: SecretReader) -> PostgresSink {
        PostgresSink {
            secret: Some(reader),
            ..self
        }
    }

    async fn deliver_in_time(&self, part: &Part) -> Result<Receipt, SinkError> {
        let client = self.begin().await?;
        let answer = self.deliver_with(&client, part).await;
        // Dropped after an error, the connection takes its transaction with it.
        if answer.is_ok() {
            self.idle().push(client);
        }
        answer
    }

    async fn deliver_with(&self, client: &Client, part: &Part) -> Result<Receipt, SinkError> {
        let hash = blake3::Hash::from_bytes(content_hash(&part.items));
        if let Some(receipt) = self.enter(client, part, hash).await? {
            return Ok(receipt);
        }
        let (rows, mut rejects) = Rows::of(part, &self.columns);
        rejects.extend(self.copy(client, part, &rows).await?);
        self.keep(client, part, &mut rejects).await?;
        client.batch_execute("COMMIT").await.map_err(told)?;
        let (items, rejected) = (part.items.len(), rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %hash, repeated = false, "part written");
        Ok(receipt(hash, rejected as u64))
    }

    /// A transaction on a connection: an idle one, if it still works.
    async fn begin(&self) -> Result<Client, SinkError> {
        // Waiting for another attempt at the same part must end, and what is acknowledged must be on disk.
        let begin = format!(
            "BEGIN; SET LOCAL lock_timeout = {0}; SET LOCAL statement_timeout = {0}; SET LOCAL synchronous_commit = on",
            self.timeout.as_millis()
        );
        loop {
            let Some(idle) = self.idle().pop() else { break };
            if idle.batch_execute(&begin).await.is_ok() {
                return Ok(idle);
            }
        }
        let client = self.connect().await?;
        client.batch_execute(&begin).await.map_err(told)?;
        Ok(client)
    }

    async fn connect(&self) -> Result<Client, SinkError> {
        let mut config = Cow::Borrowed(&self.config);
        if let Some(reader) = &self.secret {
            let secret = reader.read().await?;
            config.to_mut().password(password(&secret).as_bytes());
        }
        Ok(match &self.tls {
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(told)?;
                drive(connection);
                client
            }
            Some(MakeTls(tls)) => {
                let connected = config.connect(tls.clone()).await;
                let (client, connection) = connected.map_err(told)?;
                drive(connection);
                client
            }
        })
    }

    /// Enters the part into the ledger; answers the receipt if it is there already. Where another attempt is under way,
    /// the database waits for its end.
    async fn enter(
        &self,
        client: &Client,
        part: &Part,
        hash: blake3::Hash,
    ) -> Result<Option<Receipt>, SinkError> {
        let ledger = self.table.quoted(LEDGER);
        let (id, number) = (part.batch_id.to_string(), part.number as i32);
        let hash_text = hash.to_string();
        let entered = client
            .execute(
                &format!(
                    "INSERT INTO {ledger} (batch_id, part, source, batch_key, content_hash, count, rejected) \
                     VALUES ($1::text::uuid, $2, $3, $4, $5, $6, 0) ON CONFLICT (batch_id, part) DO NOTHING"
                ),
                &[
                    &id,
                    &number,
                    &part.source.as_str(),
                    &part.batch_key.as_ref().map(|key| key.as_str()),
                    &hash_text,
                    &(part.items.len() as i64),
                ],
            )
            .await
            .map_err(told)?;
        if entered == 1 {
            return Ok(None);
        }
        let row = client
            .query_one(
                &format!(
                    "SELECT content_hash, rejected FROM {ledger} WHERE batch_id = $1::text::uuid AND part = $2"
                ),
                &[&id, &number],
            )
            .await
            .map_err(told)?;
        client.batch_execute("ROLLBACK").await.map_err(told)?;
        let (before, rejected): (String, i64) = (row.get(0), row.get(1));
        if before != hash_text {
            return Err(SinkError::Permanent {
                reason: format!(
                    "part {} is in {ledger} with other content: hash {before}, ours is {hash}",
                    part.key()
                ),
            });
        }
        let items = part.items.len();
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %hash, repeated = true, "part written");
        Ok(Some(receipt(hash, rejected.unsigned_abs())))
    }

    /// Copies the rows; answers those that the database refuses. Each of them ends one `COPY`: what stood before it is
    /// copied again, then what stands behind it.
    async fn copy(
        &self,
        client: &Client,
        part: &Part,
        rows: &Rows,
    ) -> Result<Vec<Reject>, SinkError> {
        let mut rejects = Vec::new();
        let all = 0..rows.items.len();
        let mut ranges = Vec::from([all]);
        while let Some(range) = ranges.pop() {
            if range.is_empty() {
                continue;
            }
            client.batch_execute("SAVEPOINT rows").await.map_err(told)?;
            let text = rows.text(range.start, range.end);
            let Err(error) = self.copy_rows(client, text).await else {
                let kept = client.batch_execute("RELEASE SAVEPOINT rows").await;
                kept.map_err(told)?;
                continue;
            };
            let Some((line, message)) = refused(&error) else {
                return Err(told(error));
            };
            let bad = range.start + line - 1;
            if !range.contains(&bad) {
                return Err(told(error));
            }
            client
                .batch_execute("ROLLBACK TO SAVEPOINT rows; RELEASE SAVEPOINT rows")
                .await
                .map_err(told)?;
            let item = &part.items[rows.items[bad]];
            rejects.push(Reject {
                seq: item.seq,
                event_id: item.event_id.clone(),
                reason: RejectReason::Refused { message },
            });
            // The database reads ahead of what it inserts, so there may be more to refuse before it as well.
            ranges.extend([bad + 1..range.end, range.start..bad]);
        }
        Ok(rejects)
    }

    async fn copy_rows(&self, client: &Client, text: &[u8]) -> Result<u64, Error> {
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("\"{}\"", column.name.replace('"', "\"\"")))
            .collect();
        let table = self.table.quoted("");
        let statement = format!("COPY {table} ({}) FROM STDIN", names.join(", "));
        let mut sink = pin!(client.copy_in::<_, bytes::Bytes>(&statement).await?);
        for piece in text.chunks(PIECE_BYTES) {
            // The database's own words come with the end.
            if sink
                .send(bytes::Bytes::copy_from_slice(piece))
                .await
                .is_err()
            {
                break;
            }
        }
        sink.finish().await
    }

    /// Keeps the reject list, and says in the ledger how many there are.
    async fn keep(
        &self,
        client: &Client,
        part: &Part,
        rejects: &mut [Reject],
    ) -> Result<(), SinkError> {
        if rejects.is_empty() {
            return Ok(());
        }
        rejects.sort_by_key(|reject| reject.seq);
        let (id, number) = (part.batch_id.to_string(), part.number as i32);
        let statement = format!(
            "INSERT INTO {} (batch_id, part, seq, reason, record) VALUES ($1::text::uuid, $2, $3, $4, $5)",
            self.table.quoted(REJECTS)
        );
        let statement = client.prepare(&statement).await.map_err(told)?;
        for reject in rejects.iter() {
            let line = reject_line(part, reject)
                .and_then(|line| String::from_utf8(line).map_err(std::io::Error::other))
                .map_err(|error| SinkError::Permanent {
                    reason: error.to_string(),
                })?;
            let (seq, reason) = (i64::from(reject.seq), reject.reason.to_string());
            client
                .execute(&statement, &[&id, &number, &seq, &reason, &line])
                .await
                .map_err(told)?;
        }
        let statement = format!(
            "UPDATE {} SET rejected = $3 WHERE batch_id = $1::text::uuid AND part = $2",
            self.table.quoted(LEDGER)
        );
        let rejected = rejects.len() as i64;
        client
            .execute(&statement, &[&id, &number, &rejected])
            .await
            .map_err(told)?;
        Ok(())
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for PostgresSink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        match tokio::time::timeout(self.timeout, self.deliver_in_time(part)).await {
            Ok(answer) => answer,
            Err(_) => Err(SinkError::Retryable {
                reason: format!("not written within `{}` s", self.timeout.as_secs()),
            }),
        }
    }
}

/// The password in a secret: `password` of a JSON object, as services keep what belongs to a database, or all of it.
/// Source: <https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_secret_json_structure.html> (2026-11).
fn password(secret: &Secret) -> Cow<'_, str> {
    let text = secret.trimmed();
    let json = serde_json::from_str::<Value>(text).ok();
    match json.as_ref().and_then(|json| json["password"].as_str()) {
        Some(password) => Cow::Owned(password.to_owned()),
        None => Cow::Borrowed(text),
    }
}

/// Lets a connection do its work, until its client is gone.
fn drive(connection: impl Future<Output = Result<(), Error>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            warn!(error = chain(&error), "connection to the database ended");
        }
    });
}

fn receipt(hash: blake3::Hash, rejected: u64) -> Receipt {
    Receipt {
        text: format!("blake3:{hash}"),
        rejected,
    }
}

/// What the machine trusts, or what `SSL_CERT_FILE` names.
fn tls() -> Result<MakeRustlsConnect, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(format!("no certificates to trust: {:?}", found.errors));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// The line of a `COPY`, counted from 1, whose row the database refuses, and what it says; `None` for all other errors.
/// Source: <https://www.postgresql.org/docs/current/errcodes-appendix.html>, classes 22 and 23 (2026-08).
fn refused(error: &Error) -> Option<(usize, String)> {
    let error = error.as_db_error()?;
    if !["22", "23"].contains(&error.code().code().get(..2)?) {
        return None;
    }
    // `COPY events, line 3, column amount: "x"`; a table's name may hold anything, so the last of them counts.
    let (_, rest) = error.where_()?.rsplit_once(", line ")?;
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
    let line = digits.parse().ok().filter(|line| *line > 0)?;
    Some((line, words(error)))
}

fn words(error: &tokio_postgres::error::DbError) -> String {
    let detail = error.detail().map(|detail| format!(" ({detail})"));
    let (code, message) = (error.code().code(), error.message());
    format!("{code} {message}{}", detail.unwrap_or_default())
}

/// What an error means for the part.
fn told(error: Error) -> SinkError {
    let Some(answered) = error.as_db_error() else {
        // A connection that broke, or could not be made. What became of a commit is in the ledger.
        return SinkError::Retryable {
            reason: chain(&error),
        };
    };
    let reason = words(answered);
    if may_pass(answered.code()) {
        SinkError::Retryable { reason }
    } else {
        SinkError::Permanent { reason }
    }
}

/// Whether the same statements may succeed later.
/// Source: <https://www.postgresql.org/docs/current/errcodes-appendix.html> (2026-08).
fn may_pass(code: &SqlState) -> bool {
    // Connections, transactions that collide, passwords that are being changed, resources, locks and states that change,
    // operators, the system itself.
    let classes = ["08", "25", "28", "40", "53", "55", "57", "58", "XX"];
    code.code()
        .get(..2)
        .is_some_and(|class| classes.contains(&class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_user_a_host_and_a_database_and_no_password() {
        for url in [
            "postgres://user@db.example/legacy",
            "postgresql://user@127.0.0.1:5433/legacy?connect_timeout=3",
        ] {
            assert_eq!(parse(url), Ok(url.to_owned()));
        }
        for (url, words) in [
            ("postgres://user:word@db/legacy", "where `SINK_SECRET` says"),
            ("postgres://db/legacy", "a user or a database is missing"),
            ("postgres://user@db", "a user or a database is missing"),
            ("postgres://user@a,b/legacy", "one host, and no socket"),
            ("postgres://user@%2Frun/legacy", "one host, and no socket"),
            (
                "postgres://user@db/legacy?colour=blue",
                "no URL of a database",
            ),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains(words), "{words} in {error}");
        }
    }

    #[test]
    fn a_table_may_have_a_schema_and_any_name_is_quoted() {
        let quoted = |text: &str| text.parse::<TableName>().unwrap().quoted(REJECTS);
        assert_eq!(quoted("events"), r#""events_rejects""#);
        assert_eq!(
            quoted("legacy.Order Lines"),
            r#""legacy"."Order Lines_rejects""#
        );
        for wrong in ["", "a.b.c", ".a", "a.", "a\"b", &"x".repeat(56)] {
            assert!(wrong.parse::<TableName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_all_of_a_secret_or_its_password_and_is_not_shown() {
        for (text, expected) in [
            ("word\n", "word"),
            ("{word", "{word"),
            ("\"word\"", "\"word\""),
            (r#"{"username":"u","password":"wo\"rd"}"#, "wo\"rd"),
            (r#"{"password":7}"#, r#"{"password":7}"#),
        ] {
            let secret = Secret::from(text.to_owned());
            assert_eq!(password(&secret), expected);
            assert_eq!(format!("{secret:?}"), "(not shown)");
        }
    }
}
