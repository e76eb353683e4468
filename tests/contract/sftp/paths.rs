//! Parts whose records have a path of their own: `SINK_PATH`.

use futures::future::join_all;
use sinks::Compression;

use super::cuts::cut_everywhere;
use super::*;
use crate::parts::part;

const TEMPLATE: &str = "{date:%Y}/{date:%m-%d}/{key}/{batch}-{part}.dat";

/// Returns a sink with `SINK_PATH`.
fn sink(rig: &Rig, compression: Compression) -> SftpSink {
    let mut rendering = bodies(compression);
    rendering.layout.path = Some(TEMPLATE.parse().expect("the template is right"));
    SftpSink::new(rig.access(), rendering, TIMEOUT)
}

/// Returns the manifest of a part.
fn manifest_path(rig: &Rig, part: &Part) -> PathBuf {
    batch_directory(rig, part).join("0.manifest.json")
}

/// Returns the path of the records of a part, as its manifest says.
fn records_path(rig: &Rig, part: &Part) -> PathBuf {
    let manifest = fs::read(manifest_path(rig, part)).expect("it is there");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("it is JSON");
    let key = manifest["key"].as_str().expect("it names a file");
    assert!(
        key.ends_with(&format!("Zo!C3!AB/{}-0.dat", part.batch_id)),
        "{key}"
    );
    assert_eq!(key.split('/').count(), 4, "{key}");
    rig.server.files().join(key)
}

#[tokio::test]
async fn records_are_at_their_path_and_are_written_once() {
    let rig = Rig::start().await;
    let sink = sink(&rig, Compression::None);
    let part = new_part(&["a", "b\n"]);
    let receipt = delivered(&sink, &part).await;
    let records = records_path(&rig, &part);
    assert_eq!(fs::read(&records).expect("it is there"), b"a\n");
    let beside = manifest_path(&rig, &part);
    let beside = beside.parent().expect("it is in a directory");
    let mut names = names_in(beside);
    names.sort();
    assert_eq!(names, ["0.manifest.json", "0.rejects"]);

    assert_eq!(delivered(&sink, &part).await, receipt);
    // A consumer has taken the part: it does not come again.
    fs::remove_file(&records).expect("it is there");
    assert_eq!(delivered(&sink, &part).await, receipt);
    assert!(!records.exists());
}

#[tokio::test]
async fn equal_content_at_the_path_is_a_success_and_other_content_is_an_error() {
    for compression in [Compression::None, Compression::Gzip] {
        let rig = Rig::start().await;
        let sink = sink(&rig, compression);
        let one = new_part(&["a"]);
        let mut other = part(&["other"]);
        other.batch_id = one.batch_id;
        delivered(&sink, &one).await;
        let (records, manifest) = (records_path(&rig, &one), manifest_path(&rig, &one));
        let before = fs::read(&records).expect("it is there");

        fs::remove_file(&manifest).expect("it is there");
        let reason = permanent(&sink, &other).await;
        assert!(
            reason.contains("-0.dat`: exists with other content"),
            "{reason}"
        );
        assert_eq!(fs::read(&records).expect("it is there"), before);
        assert!(!manifest.exists());
        delivered(&sink, &one).await;
        let directory = records.parent().expect("it is in a directory");
        assert_eq!(names_in(directory).len(), 1, "nothing is left");

        // The directory of the batch is gone as well, so the attempt lists nothing.
        let batch = manifest.parent().expect("it is in a directory");
        fs::remove_dir_all(batch).expect("it is there");
        permanent(&sink, &other).await;
        delivered(&sink, &one).await;
        assert_eq!(fs::read(&records).expect("it is there"), before);
        assert_eq!(names_in(directory).len(), 1, "nothing is left");
    }
}

#[tokio::test]
async fn environments_that_make_the_same_directories_at_once_all_deliver() {
    for _ in 0..5 {
        let rig = Rig::start().await;
        let deliveries = (0..6).map(|number| {
            let sink = sink(&rig, Compression::None);
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
async fn attempts_at_the_same_time_write_the_records_once() {
    let rig = Rig::start().await;
    let sinks = Vec::from_iter((0..6).map(|_| sink(&rig, Compression::None)));
    for _ in 0..5 {
        let part = new_part(&["x".repeat(300_000)]);
        let attempts = join_all(sinks.iter().map(|sink| sink.deliver(&part))).await;
        // An attempt whose upload another one removed comes again.
        assert!(attempts.iter().any(Result::is_ok), "{attempts:?}");
        for sink in &sinks {
            delivered(sink, &part).await;
        }
        let records = records_path(&rig, &part);
        let directory = records.parent().expect("it is in a directory");
        assert_eq!(names_in(directory).len(), 1);
        fs::remove_dir_all(directory).expect("it is there");
    }
}

#[tokio::test]
async fn a_file_where_a_directory_is_needed_is_retryable() {
    let rig = Rig::start().await;
    let part = new_part(&["a"]);
    fs::write(rig.server.files().join("1970"), "in the way").expect("it can be written");
    let sink = sink(&rig, Compression::None);
    let reason = retryable(&sink, &part).await;
    assert!(reason.contains("make the directory"), "{reason}");
    fs::remove_file(rig.server.files().join("1970")).expect("it is there");
    delivered(&sink, &part).await;
}

#[tokio::test]
async fn wherever_the_connection_is_cut_the_next_attempt_completes_the_part_at_its_path() {
    let rig = Rig::start().await;
    let new_sink = || sink(&rig, Compression::None);
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
