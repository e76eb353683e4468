//! Variables for access to an endpoint, a database or a server: secrets, tables, passwords and host keys.

#[cfg(feature = "http")]
use shared::config::Reader;
use shared::config::{Number, Text, Unset, Variable};

#[cfg(feature = "postgres")]
use crate::postgres::TableName;
#[cfg(any(feature = "postgres", feature = "sftp"))]
use crate::secret::Secret;
#[cfg(feature = "http")]
use crate::secret::{SecretConfig, SecretHeader, SecretName};
#[cfg(feature = "sftp")]
use crate::sftp::HostKeys;
#[cfg(feature = "http")]
use crate::uri::{SinkKind, SinkUri};

/// Where the secret for an endpoint, a database or a server is kept.
pub const SINK_SECRET: Variable<Text> = Variable {
    name: "SINK_SECRET",
    key: Some("sink.secret"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "`secretsmanager:<name or ARN>` or `ssm:<parameter name>`",
    },
    meaning: "Where a secret is kept: with `https:` the text that goes into `SINK_SECRET_HEADER`, with `postgres:` the password, with \
              `sftp:` the password or the private key.",
};
/// The header in which an endpoint gets the secret.
pub const SINK_SECRET_HEADER: Variable<Text> = Variable {
    name: "SINK_SECRET_HEADER",
    key: Some("sink.secret_header"),
    value: Text {
        unset: Unset::Default("authorization"),
        allowed: "the name of a header in lower case, which the sink does not set itself",
    },
    meaning: "With `https:`, the header that the secret is sent in.",
};
/// The port of the AWS Parameters and Secrets Lambda Extension; the extension defines the name of this variable.
pub(super) const SECRETS_PORT: Variable<Text> = Variable {
    name: "PARAMETERS_SECRETS_EXTENSION_HTTP_PORT",
    key: None,
    value: Text {
        unset: Unset::Default("2773"),
        allowed: "a port from 1 to 65535",
    },
    meaning: "The port of the AWS Parameters and Secrets Lambda Extension, which defines this variable.",
};
/// The table that the sink `postgres:` writes to.
pub const SINK_TABLE: Variable<Text> = Variable {
    name: "SINK_TABLE",
    key: Some("sink.table"),
    value: Text {
        unset: Unset::Default("events"),
        allowed: "`table` or `schema.table`, names of 1 to 55 bytes without `\"`",
    },
    meaning: "With `postgres:`, the table that events are written to.",
};
/// The password or private key of the user of a database or a server, if it is not kept as a secret.
pub const SINK_PASSWORD: Variable<Text> = Variable {
    name: "SINK_PASSWORD",
    key: None,
    value: Text {
        unset: Unset::Nothing,
        allowed: "a password, or with `sftp:` a private key",
    },
    meaning: "With `postgres:` and `sftp:`, the user's password or private key, if it is not in `SINK_SECRET`.",
};
/// The keys of which an SSH server must have one.
pub const SINK_HOST_KEY: Variable<Text> = Variable {
    name: "SINK_HOST_KEY",
    key: Some("sink.host_key"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "one or more of `ssh-ed25519 AAAA…` and `SHA256:…`, separated by commas",
    },
    meaning: "With `sftp:`, the public key of the server or its fingerprint; during a rotation both keys. The sink does not log in \
              to a server with another key.",
};
/// How many records of one part may be rejected before the whole part is refused.
pub(super) const SINK_REJECTS_MAX: Variable<Number<u64>> = Variable {
    name: "SINK_REJECTS_MAX",
    key: Some("sink.max_rejects"),
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
    let reads_it = matches!(
        sink.kind(),
        SinkKind::Http | SinkKind::Postgres | SinkKind::Sftp
    );
    let unread = matches!(name, Some(Ok(_))) && !reads_it;
    reader.rule(
        "`SINK_SECRET` is set only with `SINK` `https:`, `postgres:` or `sftp:`.",
        unread.then(|| {
            format!(
                "`{SINK_SECRET}` is set, but only `SINK` `https:`, `postgres:` and `sftp:` read it"
            )
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

/// Reads the password of a database or a server.
#[cfg(any(feature = "postgres", feature = "sftp"))]
pub(super) fn password(reader: &mut Reader<'_>, sink: &SinkUri) -> Option<Secret> {
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

/// Reads the table and the limit of rejects of a database.
#[cfg(feature = "postgres")]
pub(super) fn database(reader: &mut Reader<'_>) -> (TableName, u64) {
    let table = reader.text_with(&SINK_TABLE, str::parse);
    let rejects_max = reader.number(&SINK_REJECTS_MAX);
    (table.unwrap_or_else(TableName::events), rejects_max)
}

/// Reads the host keys of a server, and checks that its user can log in.
#[cfg(feature = "sftp")]
pub(super) fn host_keys(reader: &mut Reader<'_>, sink: &SinkUri) -> Option<HostKeys> {
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
