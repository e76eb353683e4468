//! Variables for access to an endpoint, a database or a server: secrets, tables, passwords and host keys.

use shared::config::Reader;
use shared::config::{Number, Text, Unset, Variable};

use crate::secret::{SecretConfig, SecretHeader, SecretName};
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
/// The table if `SINK_TABLE` is not set.
pub(super) const DEFAULT_TABLE: &str = "events";
/// The table that the sink `postgres:` writes to.
pub const SINK_TABLE: Variable<Text> = Variable {
    name: "SINK_TABLE",
    key: Some("sink.table"),
    value: Text {
        unset: Unset::Default(DEFAULT_TABLE),
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

/// Declares the variables of the sinks `postgres:` and `sftp:` in a build that has neither.
#[cfg(not(feature = "full"))]
pub(super) fn declare(reader: &mut Reader<'_>) {
    reader.declare(&[
        &SINK_TABLE,
        &SINK_PASSWORD,
        &SINK_HOST_KEY,
        &SINK_REJECTS_MAX,
    ]);
}
