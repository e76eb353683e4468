//! Data that a server gets before it has shown an expected key, and logins of users.

use std::sync::Arc;

use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey, PublicKey};
use russh::server::{self, Auth, VerifiedPublicKey};
use tokio::net::TcpListener;

use super::*;
use crate::secret::Secret;

/// A server that knows one password and one key, and remembers what it was shown. It has no SFTP.
#[derive(Clone)]
struct StandIn {
    password: &'static str,
    key: PublicKey,
    shown: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    /// Returns a server that knows the password `word` and this key.
    fn of(user_key: &PrivateKey) -> StandIn {
        StandIn {
            password: "word",
            key: user_key.public_key().clone(),
            shown: Arc::default(),
        }
    }

    fn classify(&self, shown: String, right: bool) -> Auth {
        self.shown.lock().unwrap().push(shown);
        match right {
            true => Auth::Accept,
            false => Auth::reject(),
        }
    }
}

impl server::Handler for StandIn {
    type Error = russh::Error;

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, russh::Error> {
        Ok(self.classify(format!("{user} {password}"), password == self.password))
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, russh::Error> {
        let right = key.public_key.key_data() == self.key.key_data();
        Ok(self.classify(format!("{user} {}", fingerprint(key.public_key)), right))
    }
}

fn random_key() -> PrivateKey {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
}

/// Starts a server; returns its port.
async fn start(host_key: PrivateKey, stand_in: StandIn) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Arc::new(server::Config {
        keys: vec![host_key],
        auth_rejection_time: Duration::ZERO,
        ..server::Config::default()
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (config, stand_in) = (Arc::clone(&config), stand_in.clone());
            tokio::spawn(async move {
                if let Ok(session) = server::run_stream(config, stream, stand_in).await {
                    let _ = session.await;
                }
            });
        }
    });
    port
}

/// Tries to connect with a password or a private key; returns the error.
async fn refused(port: u16, host_keys: &str, login: &str) -> String {
    let server = SftpServer {
        address: format!("sftp://legacy@127.0.0.1:{port}/in")
            .parse()
            .unwrap(),
        host_keys: host_keys.parse().unwrap(),
        login: LoginSource::Password(Secret::from(login.to_owned())),
    };
    let connections = Connections::new(server, Duration::from_secs(10));
    match connections.take().await.err() {
        Some(SinkError::Retryable { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_with_another_key_is_sent_nothing_secret() {
    let (host_key, user_key) = (random_key(), random_key());
    let stand_in = StandIn::of(&user_key);
    let shown = Arc::clone(&stand_in.shown);
    let port = start(host_key.clone(), stand_in).await;
    let expected = fingerprint(random_key().public_key());
    for login in [
        "word".to_owned(),
        user_key.to_openssh(LineEnding::LF).unwrap().to_string(),
    ] {
        let reason = refused(port, &expected, &login).await;
        let got = fingerprint(host_key.public_key());
        let words = format!("got `{got}` (ssh-ed25519), expected `{expected}`");
        assert!(reason.contains(&words), "{words} in {reason}");
    }
    assert!(shown.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_user_logs_in_with_the_right_password_or_key_only() {
    let (host_key, user_key) = (random_key(), random_key());
    let stand_in = StandIn::of(&user_key);
    let shown = Arc::clone(&stand_in.shown);
    let right = host_key.public_key().to_openssh().unwrap();
    let port = start(host_key, stand_in).await;
    let text = |key: &PrivateKey| key.to_openssh(LineEnding::LF).unwrap().to_string();
    for (login, words) in [
        ("hunter2", "the server refused the user's password"),
        (
            &text(&random_key()),
            "the server refused the user's private key",
        ),
        // Both are logged in. The next step is the SFTP that the server lacks.
        ("word", "no connection: «Failed to open channel"),
        (&text(&user_key), "no connection: «Failed to open channel"),
    ] {
        let reason = refused(port, &right, login).await;
        assert!(reason.contains(words), "{words} in {reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
    }
    assert_eq!(shown.lock().unwrap()[0], "legacy hunter2");
}
