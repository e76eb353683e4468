use std::sync::Arc;

use russh::keys::{Error, PrivateKey, decode_secret_key};
use serde_json::Value;

use crate::secret::{Secret, SecretReader};
use crate::sink::SinkError;

/// How every private key as OpenSSH or PEM begins.
const KEY_START: &str = "-----BEGIN ";
/// How every private key of PuTTY begins.
/// Signs of a private key in another form, such as a field of another name or base64.
const KEY_SIGNS: [&str; 3] = ["PRIVATE KEY-----", "PuTTY-User-Key-File", "LS0tLS1CRUdJTi"];
const PUTTY_START: &str = "PuTTY-User-Key-File";
const LINE_ENDS: [char; 2] = ['\r', '\n'];
const EXPECTED: &str =
    "expected a password of one line, or a private key as OpenSSH or PEM without a passphrase";
/// Advice for a key of PuTTY. Without `-o`, puttygen refuses to write a private key.
const CONVERT: &str = "convert a key of PuTTY with `puttygen KEY -O private-openssh -o NEW_KEY`";

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
    /// Retryable: an operator can fix the secret while the batch waits.
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
/// The secret is probably a key in an unknown format. A server must never get a key as a password. Errors do not
/// quote the secret, nor the error of the parser, which may.
fn login(secret: &Secret) -> Result<Login, String> {
    let field = key_field(secret);
    let has_field = field.is_some();
    let text = field.unwrap_or_else(|| secret.password().into_owned());
    // A password keeps the white space at its ends, which may belong to it.
    let trimmed = text.trim();
    if trimmed.starts_with(KEY_START) {
        return private_key(trimmed);
    }
    if trimmed.starts_with(PUTTY_START) {
        return Err(format!("a key of PuTTY, {EXPECTED}; {CONVERT}"));
    }
    if has_field {
        return Err(format!(
            "a field `privateKey` that is no private key in a known format, {EXPECTED}; {CONVERT}; for a password, \
             set the field `password` and leave `privateKey` out"
        ));
    }
    if text.trim_matches(LINE_ENDS).contains(LINE_ENDS) {
        return Err(format!(
            "a text of several lines that is neither a private key in a known format nor a JSON object with the \
             field `privateKey` or `password`, {EXPECTED}; {CONVERT}"
        ));
    }
    if KEY_SIGNS.iter().any(|sign| trimmed.contains(sign)) {
        return Err(format!(
            "a text with a private key in it, {EXPECTED}; {CONVERT}; in a JSON object, a key is the field `privateKey`"
        ));
    }
    Ok(Login::Password(text))
}

/// Returns the field `privateKey` of a secret that is a JSON object, if it is not null; an empty text if its value is no string.
fn key_field(secret: &Secret) -> Option<String> {
    let json = serde_json::from_str::<Value>(secret.trimmed()).ok()?;
    let key = json.get("privateKey").filter(|key| !key.is_null())?;
    Some(key.as_str().unwrap_or_default().to_owned())
}

/// Returns the login with a key as OpenSSH or PEM.
fn private_key(text: &str) -> Result<Login, String> {
    match decode_secret_key(text, None) {
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
            (r#"{"password":"\n wo rd\r\n"}"#, "\n wo rd\r\n"),
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
        let spaced = format!("\r\n \t{openssh}\n\n ");
        let fields = ["privateKey", "password"].map(|name| json!({ name: spaced }).to_string());
        let json = json!({ "privateKey": openssh, "password": "word" }).to_string();
        let texts = [openssh, String::from_utf8(pem).unwrap(), spaced, json];
        for text in texts.into_iter().chain(fields) {
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

    fn assert_refused(text: &str, words: &str) {
        let Err(error) = of(text) else {
            panic!("{text}");
        };
        assert!(error.starts_with(words), "{text}: {error}");
        for words in [
            "expected a password of one line, or a private key as OpenSSH or PEM",
            "`puttygen KEY -O private-openssh -o NEW_KEY`",
        ] {
            assert!(error.contains(words), "{error}");
        }
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn a_key_of_putty_is_refused_wherever_it_is_and_not_quoted() {
        let putty = "\r\n PuTTY-User-Key-File-3: ssh-ed25519\r\nEncryption: none\r\nhush\r\n";
        for text in [
            putty.to_owned(),
            "PuTTY-User-Key-File-2: hush".to_owned(),
            json!({ "privateKey": putty }).to_string(),
            json!({ "password": putty }).to_string(),
        ] {
            assert_refused(&text, "a key of PuTTY, ");
        }
    }

    #[test]
    fn a_field_private_key_without_a_key_is_never_taken_for_a_password() {
        for key in [
            json!("hush"),
            json!("hush\n-----BEGIN OPENSSH PRIVATE KEY-----\nhush"),
            json!("ssh-ed25519 hush"),
            json!(""),
            json!(7),
            json!(["hush"]),
        ] {
            let text = json!({ "privateKey": key, "password": "hush" }).to_string();
            assert_refused(&text, "a field `privateKey` that is no private key ");
        }
    }

    #[test]
    fn a_key_in_another_form_is_never_taken_for_a_password() {
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nhush";
        for text in [
            json!({ "private_key": key }).to_string(),
            json!({ "password": "x -----END PRIVATE KEY-----" }).to_string(),
            "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZLS0tLS0=".to_owned(),
        ] {
            assert_refused(&text, "a text with a private key in it");
        }
    }

    #[test]
    fn a_text_of_several_lines_that_is_no_key_is_never_taken_for_a_password() {
        for text in [
            "hush\nhush",
            "hush\r\nhush\r\n",
            "hush\rhush",
            "hush\n-----BEGIN OPENSSH PRIVATE KEY-----\nhush",
            "{\n  \"other\": \"hush\"\n}",
            // A line break within a string is not JSON.
            "{\"privateKey\":\"-----BEGIN OPENSSH PRIVATE KEY-----\nhush\"}",
            r#"{"password":"\nhush\n\nhush\n"}"#,
        ] {
            assert_refused(text, "a text of several lines ");
        }
    }
}
