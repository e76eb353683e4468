//! What keeps the sink out: keys, passwords, and the server's permissions.

use std::os::unix::fs::PermissionsExt;

use sinks::Compression;

use super::*;
use crate::parts::part;

#[tokio::test]
async fn a_server_with_another_key_is_refused_until_its_key_is_listed() {
    let (rig, other) = (Rig::start().await, Rig::start().await);
    let with_keys = |keys: &str| {
        let server = SftpServer {
            host_keys: keys.parse().expect("they are keys"),
            ..rig.access()
        };
        SftpSink::new(server, bodies(Compression::None), TIMEOUT)
    };
    let wrong = other.server.host_key();
    let reason = retryable(&with_keys(wrong), &part(&["a"])).await;
    assert!(reason.contains("the server has another key"), "{reason}");
    assert!(reason.contains("`SHA256:"), "{reason}");
    assert!(!rig.path("").exists());
    let both = format!("{wrong}, {}", rig.server.host_key());
    delivered(&with_keys(&both), &part(&["a"])).await;
}

#[tokio::test]
async fn a_wrong_password_or_key_is_retryable_and_is_not_quoted() {
    let (rig, other) = (Rig::start().await, Rig::start().await);
    for (login, words) in [
        ("hunter2", "refused the user's password"),
        (other.server.user_key(), "refused the user's private key"),
    ] {
        let server = SftpServer {
            login: LoginSource::Password(Secret::from(login.to_owned())),
            ..rig.access()
        };
        let sink = SftpSink::new(server, bodies(Compression::None), TIMEOUT);
        let dry = sink.dry_run().await.unwrap_err().to_string();
        assert!(dry.contains(words), "{words} in {dry}");
        let reason = retryable(&sink, &part(&["a"])).await;
        assert!(reason.contains(words), "{words} in {reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
    }
}

#[tokio::test]
async fn a_missing_permission_is_retryable_and_nothing_is_left_when_it_is_granted() {
    let rig = Rig::start().await;
    let sink = rig.sink(Compression::None);
    let files = rig.server.files();
    let allow = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(files, permissions).expect("the directory is ours or we are root");
    };
    allow(0o555);
    let reason = retryable(&sink, &part(&["a"])).await;
    assert!(reason.contains("make the directory"), "{reason}");
    allow(0o755);
    delivered(&sink, &part(&["a"])).await;
    assert_eq!(rig.names(), ["0.manifest.json", "0.txt"]);
}

#[tokio::test]
async fn the_directory_of_the_sink_and_those_above_it_are_made() {
    let rig = Rig::start().await;
    let deep = format!("{}/a/b c/d", rig.server.url(rig.proxy.port()));
    let server = SftpServer {
        address: deep.parse().expect("the URL is one of the sink"),
        ..rig.access()
    };
    let sink = SftpSink::new(server, bodies(Compression::None), TIMEOUT);
    delivered(&sink, &part(&["a"])).await;
    let path = rig.server.files().join("a/b c/d").join(BATCH).join("0.txt");
    assert_eq!(fs::read(path).expect("it is there"), b"a\n");
}
