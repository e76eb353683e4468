//! Variables for access to an endpoint or a database: secrets, tables and passwords.

#[cfg(feature = "http")]
use shared::config::Reader;
use shared::config::{Number, Text, Topic, Unset, Variable};

#[cfg(feature = "postgres")]
use crate::postgres::TableName;
#[cfg(feature = "postgres")]
use crate::secret::Secret;
#[cfg(feature = "http")]
use crate::secret::{SecretConfig, SecretHeader, SecretName};
#[cfg(feature = "http")]
use crate::uri::{SinkKind, SinkUri};

/// Where the secret for an endpoint or a database is kept.
pub const SINK_SECRET: Variable<Text> = Variable {
    name: "SINK_SECRET",
    topic: Topic::SinkAccess,
    value: Text {
        unset: Unset::Nothing,
        allowed: "`secretsmanager:<name or ARN>` or `ssm:<parameter name>`",
    },
    meaning: "Where a secret is kept: with `https:` the text that goes into `SINK_SECRET_HEADER`, with `postgres:` the password.",
};
/// The header in which an endpoint gets the secret.
pub const SINK_SECRET_HEADER: Variable<Text> = Variable {
    name: "SINK_SECRET_HEADER",
    topic: Topic::SinkAccess,
    value: Text {
        unset: Unset::Default("authorization"),
        allowed: "the name of a header in lower case, which the sink does not set itself",
    },
    meaning: "With `https:`, the header that the secret is sent in.",
};
/// The port of the AWS Parameters and Secrets Lambda Extension; the extension defines the name of this variable.
pub(super) const SECRETS_PORT: Variable<Text> = Variable {
    name: "PARAMETERS_SECRETS_EXTENSION_HTTP_PORT",
    topic: Topic::SinkAccess,
    value: Text {
        unset: Unset::Default("2773"),
        allowed: "a port from 1 to 65535",
    },
    meaning: "The port of the AWS Parameters and Secrets Lambda Extension, which defines this variable.",
};
/// The table that the sink `postgres:` writes to.
pub const SINK_TABLE: Variable<Text> = Variable {
    name: "SINK_TABLE",
    topic: Topic::SinkAccess,
    value: Text {
        unset: Unset::Default("events"),
        allowed: "`table` or `schema.table`, names of 1 to 55 bytes without `\"`",
    },
    meaning: "With `postgres:`, the table that events are written to.",
};
/// The password of the database user, if it is not kept as a secret.
pub const SINK_PASSWORD: Variable<Text> = Variable {
    name: "SINK_PASSWORD",
    topic: Topic::SinkAccess,
    value: Text {
        unset: Unset::Nothing,
        allowed: "a password",
    },
    meaning: "With `postgres:`, the user's password, for databases whose password is not in `SINK_SECRET`.",
};
/// How many records of one part may be rejected before the whole part is refused.
pub(super) const SINK_REJECTS_MAX: Variable<Number<u64>> = Variable {
    name: "SINK_REJECTS_MAX",
    topic: Topic::SinkAccess,
    value: Number {
        unit: "records",
        default: 10_000,
        min: 0,
        max: 1_000_000,
    },
    meaning: "With `postgres:`, how many records of one part may be rejected. If there are more, the sink writes \
              nothing of the part, and the batch goes into `error`.",
};

/// Reads where the secret is kept. Errors do not quote a wrong `SINK_SECRET`: it may be the secret itself.
#[cfg(feature = "http")]
pub(super) fn secret(reader: &mut Reader<'_>, sink: &SinkUri) -> Option<SecretConfig> {
    let name = reader.text(&SINK_SECRET, |text| Some(text.parse::<SecretName>()));
    let header = reader.text_with(&SINK_SECRET_HEADER, str::parse::<SecretHeader>);
    let port = reader.text(&SECRETS_PORT, |text| {
        text.parse::<u16>().ok().filter(|port| *port > 0)
    });
    let header_alone = header.is_some() && reader.is_set(&SINK_SECRET_HEADER) && name.is_none();
    reader.rule(
        "`SINK_SECRET_HEADER` is set only with `SINK_SECRET`.",
        header_alone.then(|| format!("`{SINK_SECRET_HEADER}` is set, but `{SINK_SECRET}` is not")),
    );
    let reads_it = matches!(sink.kind(), SinkKind::Http | SinkKind::Postgres);
    let unread = matches!(name, Some(Ok(_))) && !reads_it;
    reader.rule(
        "`SINK_SECRET` is set only with `SINK` `https:` or `postgres:`.",
        unread.then(|| {
            format!("`{SINK_SECRET}` is set, but only `SINK` `https:` and `postgres:` read it")
        }),
    );
    match name? {
        Ok(name) => Some(SecretConfig {
            name,
            header: header?,
            port: port?,
        }),
        Err(words) => {
            reader.problem(format!("`{SINK_SECRET}`: wrong value (not shown): {words}"));
            None
        }
    }
}

/// The variables of a database besides its URI.
#[cfg(feature = "postgres")]
pub(super) struct DatabaseAccess {
    pub(super) table: TableName,
    pub(super) password: Option<Secret>,
    pub(super) rejects_max: u64,
}

/// Reads the table, the password and the limit of rejects of a database.
#[cfg(feature = "postgres")]
pub(super) fn database(reader: &mut Reader<'_>, sink: &SinkUri) -> DatabaseAccess {
    let table = reader.text_with(&SINK_TABLE, str::parse);
    let password = reader.text(&SINK_PASSWORD, |text| Some(Secret::from(text.to_owned())));
    let rejects_max = reader.number(&SINK_REJECTS_MAX);
    let is_database = sink.kind() == SinkKind::Postgres;
    reader.rule(
        "`SINK_PASSWORD` is set only with `SINK` `postgres:`.",
        (password.is_some() && !is_database)
            .then(|| format!("`{SINK_PASSWORD}` is set, but only `SINK` `postgres:` reads it")),
    );
    reader.rule(
        "`SINK_PASSWORD` and `SINK_SECRET` are not both set.",
        (password.is_some() && reader.is_set(&SINK_SECRET)).then(|| {
            format!("`{SINK_PASSWORD}` and `{SINK_SECRET}` are both set, expected one of them")
        }),
    );
    DatabaseAccess {
        table: table.unwrap_or_else(TableName::events),
        password,
        rejects_max,
    }
}
