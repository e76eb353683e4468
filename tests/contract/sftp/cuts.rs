//! Connections that break at any byte: a later attempt completes the part, and no consumer sees half of it.

use local::sftp::Watcher;
use sinks::Compression;
use tokio::net::TcpListener;

use super::*;
use crate::parts::part;

/// The steps in which the cut moves through what one attempt sends.
const STEP_BYTES: u64 = 977;

#[tokio::test]
async fn wherever_the_connection_is_cut_the_next_attempt_completes_the_part() {
    let rig = Rig::start().await;
    let sink = || rig.sink(Compression::None);
    cut_everywhere(&rig, sink, |part| {
        assert_eq!(names_in(&batch_directory(&rig, part)).len(), 3);
    })
    .await;
}

/// Cuts the connection of one attempt after the other a little later each time, and lets the next attempt complete the part.
/// `check` looks at what a complete part has left.
pub(super) async fn cut_everywhere(rig: &Rig, sink: impl Fn() -> SftpSink, check: impl Fn(&Part)) {
    let watcher = Watcher::start(rig.server.files().to_owned());
    let bodies = ["a".repeat(30_000), "b\n".to_owned()];
    let mut interrupted = 0;
    let mut at = 0;
    loop {
        // Each cut has a batch of its own, because the watcher allows no file to disappear.
        let part = new_part(&bodies);
        let sent_before = rig.proxy.sent_bytes();
        rig.proxy.cut_after(at);
        let sink = sink();
        match sink.deliver(&part).await {
            Err(SinkError::Retryable { .. }) => interrupted += 1,
            Err(other) => panic!("cut after {at} bytes: {other}"),
            // The cut would come after all that an attempt sends.
            Ok(_) if rig.proxy.sent_bytes() - sent_before < at => break,
            Ok(_) => {}
        }
        assert_eq!(delivered(&sink, &part).await.rejected.len(), 1);
        check(&part);
        at += STEP_BYTES;
        assert!(at < 10_000_000, "no attempt is that long");
    }
    assert!(interrupted > 30, "{interrupted}");
    let report = watcher.report();
    assert_eq!(report.violations, 0, "{report}");
}

#[tokio::test]
async fn a_kept_connection_that_broke_is_replaced_within_the_attempt() {
    let rig = Rig::start().await;
    let sink = rig.sink(Compression::None);
    delivered(&sink, &part(&["a"])).await;
    rig.proxy.cut_after(1);
    delivered(&sink, &part(&["a"])).await;
    assert_eq!(rig.proxy.connections(), 2);
}

#[tokio::test]
async fn a_server_that_is_silent_or_gone_is_retryable() {
    let rig = Rig::start().await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("there is a port");
    let port = listener.local_addr().expect("it has a port").port();
    let url = rig.server.url(port);
    let server = || SftpServer {
        address: url.parse().expect("the URL is one of the sink"),
        ..rig.access()
    };
    let sink = |timeout| SftpSink::new(server(), bodies(Compression::None), timeout);
    let impatient = sink(Duration::from_secs(1));
    let reason = retryable(&impatient, &part(&["a"])).await;
    assert!(reason.contains("not written within `1` s"), "{reason}");
    drop(listener);
    let sink = sink(Duration::from_secs(60));
    let reason = retryable(&sink, &part(&["a"])).await;
    assert!(reason.contains("no connection"), "{reason}");
}
