//! What the sinks `postgres:` and `sftp:` need besides their URIs.

use shared::config::Reader;

use super::access::{SINK_HOST_KEY, SINK_PASSWORD, SINK_REJECTS_MAX, SINK_SECRET, SINK_TABLE};
use super::form::{ColumnsValue, FormatName, SINK, SINK_COLUMNS, SINK_FORMAT};
use crate::postgres::{Database, TableName};
use crate::secret::Secret;
use crate::sftp::HostKeys;
use crate::uri::{SinkKind, SinkUri};

/// The configuration of a database or an SSH server besides its URI. Unused with other sinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// The table, columns, password and limits of the sink `postgres:`.
    pub database: Database,
    /// The password or private key of the user of a server, if it is not kept as a secret.
    pub password: Option<Secret>,
    /// The host keys of the sink `sftp:`.
    pub host_keys: Option<HostKeys>,
}

impl Servers {
    /// Reads the variables. Takes `columns` away if the sink is a database, because they are not the format's then.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        sink: &SinkUri,
        format: FormatName,
        columns: &mut ColumnsValue,
    ) -> Servers {
        let password = password(reader, sink);
        Servers {
            database: Database {
                password: password.clone(),
                ..database(reader, sink, format, columns)
            },
            password,
            host_keys: host_keys(reader, sink),
        }
    }
}

/// Reads the variables of a database. Takes `columns` away if the sink is a database, because they are not the format's then.
fn database(
    reader: &mut Reader<'_>,
    sink: &SinkUri,
    format: FormatName,
    columns: &mut ColumnsValue,
) -> Database {
    let table = reader.text_with(&SINK_TABLE, str::parse);
    let rejects_max = reader.number(&SINK_REJECTS_MAX);
    let is_database = sink.kind() == SinkKind::Postgres;
    let rows = format == FormatName::Envelope;
    let problem = || {
        format!(
            "`{SINK_FORMAT}` must be `envelope` with `{SINK}` `postgres:`: \
             `{SINK_COLUMNS}` says what is in the rows"
        )
    };
    reader.rule(
        "With `SINK` `postgres:`, `SINK_FORMAT` is `envelope`: `SINK_COLUMNS` says what is in the rows.",
        (is_database && !rows).then(problem),
    );
    let columns = match columns {
        ColumnsValue::Valid(given) if is_database && rows => {
            let given = given.clone();
            *columns = ColumnsValue::Unset;
            Some(given)
        }
        ColumnsValue::Valid(_) | ColumnsValue::Unset | ColumnsValue::Invalid => None,
    };
    Database {
        table: table.unwrap_or_else(TableName::events),
        columns,
        password: None,
        rejects_max,
    }
}

/// Reads the password of a database or a server.
fn password(reader: &mut Reader<'_>, sink: &SinkUri) -> Option<Secret> {
    let password = reader.text(&SINK_PASSWORD, |text| Some(Secret::from(text.to_owned())));
    let reads_it = matches!(sink.kind(), SinkKind::Postgres | SinkKind::Sftp);
    reader.rule(
        "`SINK_PASSWORD` is set only with `SINK` `postgres:` or `sftp:`.",
        (password.is_some() && !reads_it).then(|| {
            format!("`{SINK_PASSWORD}` is set, but only `SINK` `postgres:` and `sftp:` read it")
        }),
    );
    reader.rule(
        "`SINK_PASSWORD` and `SINK_SECRET` are not both set.",
        (password.is_some() && reader.is_set(&SINK_SECRET)).then(|| {
            format!("`{SINK_PASSWORD}` and `{SINK_SECRET}` are both set, expected one of them")
        }),
    );
    password
}

/// Reads the host keys of a server, and checks that its user can log in.
fn host_keys(reader: &mut Reader<'_>, sink: &SinkUri) -> Option<HostKeys> {
    let keys = reader.text_with(&SINK_HOST_KEY, str::parse);
    let is_server = sink.kind() == SinkKind::Sftp;
    let problem = match (is_server, reader.is_set(&SINK_HOST_KEY)) {
        (true, false) => Some(format!(
            "`{SINK_HOST_KEY}`: not set: `SINK` `sftp:` needs it, expected {}",
            SINK_HOST_KEY.value.allowed
        )),
        (false, true) => Some(format!(
            "`{SINK_HOST_KEY}` is set, but only `SINK` `sftp:` reads it"
        )),
        (true, true) | (false, false) => None,
    };
    reader.rule(
        "`SINK_HOST_KEY` is set with `SINK` `sftp:`, and is not set otherwise.",
        problem,
    );
    let can_log_in = reader.is_set(&SINK_SECRET) || reader.is_set(&SINK_PASSWORD);
    reader.rule(
        "With `SINK` `sftp:`, `SINK_SECRET` or `SINK_PASSWORD` is set.",
        (is_server && !can_log_in).then(|| {
            format!(
                "`{SINK_SECRET}`: not set: `SINK` `sftp:` needs it or `{SINK_PASSWORD}`, expected {}",
                SINK_SECRET.value.allowed
            )
        }),
    );
    keys
}
