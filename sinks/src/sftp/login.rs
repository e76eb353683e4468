use std::sync::Arc;

use russh::keys::{Error, PrivateKey, decode_secret_key};

use crate::secret::{Secret, SecretReader};
use crate::sink::SinkError;

/// How every private key begins.
const KEY_START: &str = "-----BEGIN ";
const EXPECTED: &str =
    "expected a password, or a private key as OpenSSH or PEM without a passphrase";

/// Where the password or the private key of the user comes from.
#[derive(Debug)]
pub enum LoginSource {
    /// `SINK_SECRET`, which is read again for each new connection.
    Secret(SecretReader),
    /// `SINK_PASSWORD`.
    Password(Secret),
}

/// How a user proves who they are.
pub(super) enum Login {
    Password(String),
    Key(Arc<PrivateKey>),
}

impl LoginSource {
    /// Reads the password or the private key.
    ///
    /// # Errors
    /// Retryable: an operator can mend the secret while the batch waits.
    pub(super) async fn read(&self) -> Result<Login, SinkError> {
        match self {
            LoginSource::Secret(reader) => {
                let login = login(&reader.read().await?);
                login.map_err(|problem| reader.failed(&problem))
            }
            LoginSource::Password(secret) => {
                login(secret).map_err(|problem| SinkError::Retryable {
                    reason: format!("`SINK_PASSWORD`: wrong value (not shown): {problem}"),
                })
            }
        }
    }
}

/// Returns what is in a secret: the field `privateKey` or `password` of a JSON object, or the whole text.
///
/// # Errors
/// Do not quote the secret, nor the error of the parser, which may.
fn login(secret: &Secret) -> Result<Login, String> {
    let key = secret.field("privateKey");
    let text = key.unwrap_or_else(|| secret.password().into_owned());
    if !text.starts_with(KEY_START) {
        return Ok(Login::Password(text));
    }
    match decode_secret_key(&text, None) {
        Ok(key) if key.is_encrypted() => Err(has_passphrase()),
        Ok(key) => Ok(Login::Key(Arc::new(key))),
        Err(Error::KeyIsEncrypted) => Err(has_passphrase()),
        // The parser returns other errors for encrypted PEM, which says what it is in its first lines.
        Err(_) if text.contains("ENCRYPTED") => Err(has_passphrase()),
        Err(_) => Err(format!("a private key that cannot be read, {EXPECTED}")),
    }
}

fn has_passphrase() -> String {
    format!("a private key with a passphrase, {EXPECTED}")
}

#[cfg(test)]
mod tests {
    use russh::keys::key::safe_rng;
    use russh::keys::ssh_key::LineEnding;
    use russh::keys::{Algorithm, encode_pkcs8_pem, encode_pkcs8_pem_encrypted};
    use serde_json::json;

    use super::*;

    fn of(text: &str) -> Result<Login, String> {
        login(&Secret::from(text.to_owned()))
    }

    fn key() -> PrivateKey {
        PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
    }

    #[test]
    fn a_secret_is_a_password_or_a_private_key() {
        for (text, password) in [
            ("word\n", "word"),
            (r#"{"username":"u","password":"wo\"rd"}"#, "wo\"rd"),
            (r#"{"other":7}"#, r#"{"other":7}"#),
        ] {
            let Login::Password(found) = of(text).unwrap() else {
                panic!("{text}");
            };
            assert_eq!(found, password);
        }
        let key = key();
        let openssh = key.to_openssh(LineEnding::LF).unwrap().to_string();
        let mut pem = Vec::new();
        encode_pkcs8_pem(&key, &mut pem).unwrap();
        let json = json!({ "privateKey": openssh }).to_string();
        for text in [openssh, String::from_utf8(pem).unwrap(), json] {
            let Login::Key(found) = of(&text).unwrap() else {
                panic!("no key");
            };
            assert_eq!(found.public_key().key_data(), key.public_key().key_data());
        }
    }

    #[test]
    fn a_key_that_is_encrypted_or_broken_is_refused_and_not_quoted() {
        let key = key();
        let encrypted = key.encrypt(&mut safe_rng(), "word").unwrap();
        let openssh = encrypted.to_openssh(LineEnding::LF).unwrap().to_string();
        let mut pem = Vec::new();
        encode_pkcs8_pem_encrypted(&key, b"word", 1, &mut pem).unwrap();
        for (text, words) in [
            (openssh, "with a passphrase"),
            (String::from_utf8(pem).unwrap(), "with a passphrase"),
            ("-----BEGIN hush".to_owned(), "cannot be read"),
        ] {
            let error = of(&text).err().unwrap();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
