use std::str::FromStr;

use russh::Preferred;
use russh::keys::ssh_key::Fingerprint;
use russh::keys::{Algorithm, HashAlg, PublicKey};

/// The most keys that an operator may list: enough for the present and the next key of each type.
const KEYS_MAX: usize = 8;

/// The accepted keys of a server: `SINK_HOST_KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKeys(Vec<HostKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostKey {
    Key(PublicKey),
    Fingerprint(Fingerprint),
}

impl FromStr for HostKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<HostKeys, String> {
        let keys = text.split(',').map(|key| host_key(key.trim()));
        let keys: Vec<HostKey> = keys.collect::<Result<_, String>>()?;
        match keys.len() {
            ..=KEYS_MAX => Ok(HostKeys(keys)),
            count => Err(format!("got {count} keys, expected at most {KEYS_MAX}")),
        }
    }
}

fn host_key(text: &str) -> Result<HostKey, String> {
    let wrong =
        || format!("`{text}` is not a host key, expected `ssh-ed25519 AAAA…` or `SHA256:…`");
    if text.starts_with("SHA256:") {
        let fingerprint = text.parse().map_err(|_| wrong())?;
        return Ok(HostKey::Fingerprint(fingerprint));
    }
    let key = PublicKey::from_openssh(text).map_err(|_| wrong())?;
    if !allowed().any(|algorithm| fits(&key, &algorithm)) {
        return Err(format!(
            "`{text}` is of a type that is not supported, expected Ed25519, ECDSA or RSA"
        ));
    }
    Ok(HostKey::Key(key))
}

impl HostKeys {
    /// Returns whether a server with this key is the right one.
    pub(super) fn contains(&self, key: &PublicKey) -> bool {
        self.0.iter().any(|each| match each {
            HostKey::Key(expected) => expected.key_data() == key.key_data(),
            HostKey::Fingerprint(expected) => *expected == key.fingerprint(HashAlg::Sha256),
        })
    }

    /// Returns the types of host keys that the server is asked for. A server with keys of several types shows one that is
    /// asked for, so the types of the expected keys must be the only ones. A fingerprint does not say its type.
    pub(super) fn algorithms(&self) -> Vec<Algorithm> {
        let expected = |algorithm: &Algorithm| {
            self.0.iter().any(|each| match each {
                HostKey::Key(key) => fits(key, algorithm),
                HostKey::Fingerprint(_) => true,
            })
        };
        allowed().filter(expected).collect()
    }

    /// Returns the fingerprints of the keys, for errors.
    pub(super) fn fingerprints(&self) -> String {
        let shown = self.0.iter().map(|each| match each {
            HostKey::Key(key) => format!("`{}`", fingerprint(key)),
            HostKey::Fingerprint(fingerprint) => format!("`{fingerprint}`"),
        });
        Vec::from_iter(shown).join(" or ")
    }
}

/// Returns the fingerprint of a key, as `ssh-keygen -l` shows it.
pub(super) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// Returns the signatures of host keys that are accepted: all that the client knows, except RSA with SHA-1.
fn allowed() -> impl Iterator<Item = Algorithm> {
    let known = Preferred::DEFAULT.key.into_owned().into_iter();
    known.filter(|algorithm| *algorithm != Algorithm::Rsa { hash: None })
}

/// Returns whether a key can make signatures of this kind. One RSA key makes several.
fn fits(key: &PublicKey, algorithm: &Algorithm) -> bool {
    match algorithm {
        Algorithm::Rsa { .. } => matches!(key.algorithm(), Algorithm::Rsa { .. }),
        other => key.algorithm() == *other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const OTHER: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    fn keys(text: &str) -> HostKeys {
        text.parse().unwrap()
    }

    fn key(text: &str) -> PublicKey {
        PublicKey::from_openssh(text).unwrap()
    }

    #[test]
    fn a_server_may_have_any_of_the_listed_keys_and_no_other() {
        let both = keys(&format!("{ED25519} comment, {OTHER}"));
        assert!(both.contains(&key(ED25519)) && both.contains(&key(OTHER)));
        let one = keys(&fingerprint(&key(ED25519)));
        assert!(one.contains(&key(ED25519)) && !one.contains(&key(OTHER)));
        assert_eq!(
            keys(ED25519).fingerprints(),
            format!("`{}`", fingerprint(&key(ED25519)))
        );
    }

    #[test]
    fn a_server_is_asked_for_the_types_of_the_listed_keys() {
        assert_eq!(keys(ED25519).algorithms(), [Algorithm::Ed25519]);
        let any = keys(&fingerprint(&key(ED25519))).algorithms();
        assert!(any.len() > 3 && !any.contains(&Algorithm::Rsa { hash: None }));
    }

    #[test]
    fn what_is_not_a_host_key_is_refused() {
        for wrong in [
            "",
            "ssh-ed25519",
            "ssh-ed25519 AAAA",
            "SHA256:x",
            "MD5:aa:bb",
            &format!("host {ED25519}"),
            &format!("{ED25519},"),
        ] {
            let error = wrong.parse::<HostKeys>().unwrap_err();
            assert!(error.contains("`ssh-ed25519 AAAA…`"), "{wrong}: {error}");
        }
        let many = [ED25519; KEYS_MAX + 1].join(",");
        let error = many.parse::<HostKeys>().unwrap_err();
        assert!(error.contains("got 9 keys"), "{error}");
    }
}
