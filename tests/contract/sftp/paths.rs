//! Parts whose records have a path of their own (`SINK_PATH`): their directories, and connections that break.

use futures::future::join_all;
use sinks::Compression;

use super::cuts::cut_everywhere;
use super::*;

/// Returns a sink with `SINK_PATH`.
fn sink(rig: &Rig) -> SftpSink {
    rig.sink_at(Some(TEMPLATE), Compression::None)
}

/// Returns the path of the records of a part, as its manifest says.
fn records_path(rig: &Rig, part: &Part) -> PathBuf {
    let manifest = batch_directory(rig, part).join("0.manifest.json");
    let manifest = fs::read(manifest).expect("it is there");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("it is JSON");
    let key = manifest["key"].as_str().expect("it names a file");
    let end = format!("Zo!C3!AB/{}-0.dat", part.batch_id);
    assert!(key.ends_with(&end), "{key}");
    assert_eq!(key.split('/').count(), 4, "{key}");
    rig.server.files().join(key)
}

#[tokio::test]
async fn environments_that_make_the_same_directories_at_once_all_deliver() {
    for _ in 0..5 {
        let rig = Rig::start().await;
        let deliveries = (0..6).map(|number| {
            let sink = sink(&rig);
            let part = new_part(&[number.to_string()]);
            async move { (sink.deliver(&part).await, part) }
        });
        for (result, part) in join_all(deliveries).await {
            result.expect("it is delivered");
            assert!(records_path(&rig, &part).exists());
        }
    }
}

#[tokio::test]
async fn a_file_where_a_directory_is_needed_is_retryable() {
    let rig = Rig::start().await;
    let part = new_part(&["a"]);
    fs::write(rig.server.files().join("1970"), "in the way").expect("it can be written");
    let sink = sink(&rig);
    let reason = retryable(&sink, &part).await;
    assert!(reason.contains("make the directory"), "{reason}");
    fs::remove_file(rig.server.files().join("1970")).expect("it is there");
    delivered(&sink, &part).await;
}

#[tokio::test]
async fn wherever_the_connection_is_cut_the_next_attempt_completes_the_part_at_its_path() {
    let rig = Rig::start().await;
    let new_sink = || sink(&rig);
    cut_everywhere(&rig, new_sink, |part| {
        let records = records_path(&rig, part);
        assert!(records.exists());
        let directory = records.parent().expect("it is in a directory");
        let hidden = names_in(directory);
        let hidden = Vec::from_iter(hidden.iter().filter(|name| name.starts_with('.')));
        assert!(hidden.is_empty(), "{hidden:?}");
        assert_eq!(names_in(&batch_directory(&rig, part)).len(), 2);
    })
    .await;
}
