//! Which files a part has, and what an attempt does if some of them exist already.

use std::collections::BTreeSet;

use futures::future::join_all;
use sinks::Compression;

use super::*;
use crate::parts::part;

/// All files in the directory of the batch, and the records at a path of their own.
const PATHS: [Option<&str>; 2] = [None, Some(TEMPLATE)];

/// Returns the path of the records below the sink: `name` in the directory of the batch, or that of [`TEMPLATE`].
fn records_key(path: Option<&str>, name: &str) -> String {
    match path {
        None => format!("{BATCH}/{name}"),
        Some(_) => format!("1970/01-01/{BATCH}-0.dat"),
    }
}

#[tokio::test]
async fn a_part_is_a_file_then_rejects_then_a_manifest_and_is_written_once() {
    for path in PATHS {
        let rig = Rig::start().await;
        let sink = rig.sink_at(path, Compression::None);
        // A body with a line break cannot be carried by this format.
        let part = part(&["a", "b\n", "c"]);
        let receipt = delivered(&sink, &part).await;
        assert_eq!(receipt.text, format!("blake3:{}", blake3_of("a\nc\n")));
        assert_eq!(receipt.rejected.len(), 1);
        let mut files = rig.files();
        let records = records_key(path, "0.txt");
        let [manifest, rejects] =
            ["0.manifest.json", "0.rejects"].map(|name| format!("{BATCH}/{name}"));
        let expected = BTreeSet::from([&records, &manifest, &rejects]);
        assert_eq!(BTreeSet::from_iter(files.keys()), expected);
        assert_eq!(files[&records], b"a\nc\n");
        let manifest: serde_json::Value =
            serde_json::from_slice(&files[&manifest]).expect("the manifest is JSON");
        assert_eq!(manifest["key"], records);
        assert_eq!(manifest["rejected"], 1);

        assert_eq!(delivered(&sink, &part).await, receipt);
        assert_eq!(rig.files(), files);
        assert_eq!(rig.proxy.connections(), 1, "the connection is kept");
        // A consumer has taken the part: it does not come again.
        fs::remove_file(rig.server.files().join(&records)).expect("it is there");
        files.remove(&records);
        let sink = rig.sink_at(path, Compression::None);
        assert_eq!(delivered(&sink, &part).await, receipt);
        assert_eq!(rig.files(), files);
    }
}

#[tokio::test]
async fn a_part_of_many_packets_arrives_as_it_is_and_is_not_uploaded_again() {
    let body = "0123456789abcdef".repeat(40_000);
    let bodies = [body.as_str(); 8];
    let expected = format!("{}\n", bodies.join("\n"));
    for path in PATHS {
        let rig = Rig::start().await;
        let sink = || rig.sink_at(path, Compression::None);
        let receipt = delivered(&sink(), &part(&bodies)).await;
        let records = records_key(path, "0.txt");
        assert_eq!(rig.files()[&records], expected.as_bytes());
        // The manifest is gone, so the next attempt compares the file itself.
        fs::remove_file(rig.path("0.manifest.json")).expect("it is there");
        let sent_before = rig.proxy.sent_bytes();
        assert_eq!(delivered(&sink(), &part(&bodies)).await, receipt);
        let sent = rig.proxy.sent_bytes() - sent_before;
        assert!(sent < body.len() as u64, "{sent} bytes");
    }
}

#[tokio::test]
async fn equal_content_is_a_success_and_other_content_is_an_error_with_both_hashes() {
    for (compression, name) in [
        (Compression::None, "0.txt"),
        (Compression::Gzip, "0.txt.gz"),
        (Compression::Zstd, "0.txt.zst"),
    ] {
        for path in PATHS {
            let rig = Rig::start().await;
            let sink = rig.sink_at(path, compression);
            let (one, other) = (part(&["a"]), part(&["other"]));
            delivered(&sink, &one).await;
            let complete = rig.files();
            assert_eq!(complete.len(), 2);
            let reason = permanent(&sink, &other).await;
            let both = [blake3_of("a\n"), blake3_of("other\n")];
            assert!(both.iter().all(|hash| reason.contains(hash)), "{reason}");

            fs::remove_file(rig.path("0.manifest.json")).expect("it is there");
            let before = rig.files();
            let reason = permanent(&sink, &other).await;
            assert!(both.iter().all(|hash| reason.contains(hash)), "{reason}");
            let records = records_key(path, name);
            let exists = format!("{records}›`: exists with other content");
            assert!(reason.contains(&exists), "{reason}");
            // Nothing is replaced, and nothing is left.
            assert_eq!(rig.files(), before);
            delivered(&sink, &one).await;
            assert_eq!(rig.files(), complete);

            if path.is_some() {
                // The directory of the batch is gone as well, so the attempt lists nothing.
                fs::remove_dir_all(rig.path("")).expect("it is there");
                permanent(&sink, &other).await;
                delivered(&sink, &one).await;
                assert_eq!(rig.files(), complete);
            }
        }
    }
}

#[tokio::test]
async fn a_longer_file_or_one_that_cannot_be_decompressed_is_other_content() {
    let rig = Rig::start().await;
    let part = part(&["a"]);
    delivered(&rig.sink(Compression::Gzip), &part).await;
    fs::remove_file(rig.path("0.manifest.json")).expect("it is there");
    fs::remove_file(rig.path("0.txt.gz")).expect("it is there");
    fs::write(rig.path("0.txt.gz"), "a\n").expect("it can be written");
    let reason = permanent(&rig.sink(Compression::Gzip), &part).await;
    assert!(reason.contains("not valid `gzip`"), "{reason}");
    fs::write(rig.path("0.txt"), "a\n".repeat(10_000)).expect("it can be written");
    let reason = permanent(&rig.sink(Compression::None), &part).await;
    assert!(reason.contains("got at least"), "{reason}");
}

#[tokio::test]
async fn attempts_at_the_same_time_write_the_part_once() {
    for path in PATHS {
        let rig = Rig::start().await;
        let part = part(&["x".repeat(300_000)]);
        let sinks = Vec::from_iter((0..6).map(|_| rig.sink_at(path, Compression::None)));
        let manifest = format!("{BATCH}/0.manifest.json");
        let expected = BTreeSet::from([manifest, records_key(path, "0.txt")]);
        for _ in 0..5 {
            let attempts = join_all(sinks.iter().map(|sink| sink.deliver(&part))).await;
            // An attempt whose upload another one removed comes again.
            assert!(attempts.iter().any(Result::is_ok), "{attempts:?}");
            for sink in &sinks {
                delivered(sink, &part).await;
            }
            assert_eq!(BTreeSet::from_iter(rig.files().into_keys()), expected);
            // The next round makes the directories anew.
            for name in names_in(rig.server.files()) {
                let directory = rig.server.files().join(name);
                fs::remove_dir_all(directory).expect("it is there");
            }
        }
    }
}

#[tokio::test]
async fn what_dead_attempts_left_is_removed_and_what_is_of_others_stays() {
    let now = uuid::Uuid::now_v7();
    let old = uuid::Builder::from_unix_timestamp_millis(1_700_000_000_000, &[7; 10]).into_uuid();
    let partial = |start: &str, id: uuid::Uuid| format!("{start}.{id}.partial");
    for path in PATHS {
        let rig = Rig::start().await;
        let sink = rig.sink_at(path, Compression::None);
        let records = rig.server.files().join(records_key(path, "0.txt"));
        let beside = records.parent().expect("it is in a directory");
        // How names of uploads of the records of this part and of the next begin.
        let [this, next] = match path {
            None => [".0.txt", ".1.txt"].map(str::to_owned),
            Some(_) => [0, 1].map(|index| format!(".{}-{index}", part(&["a"]).batch_id)),
        };
        let own = [
            beside.join(partial(&this, old)),
            beside.join(partial(&this, now)),
            rig.path(&partial(".0.manifest.json", old)),
        ];
        let others = [beside.join(partial(&next, old)), rig.path(".0.txt.notes")];
        // The first attempt makes the directories.
        delivered(&sink, &part(&["a"])).await;
        for file in own.iter().chain(&others) {
            fs::write(file, "half").expect("it can be written");
        }
        // An attempt that fails removes what is certainly dead.
        fs::remove_file(rig.path("0.manifest.json")).expect("it is there");
        permanent(&sink, &part(&["other"])).await;
        let left = Vec::from_iter(rig.files().into_keys());
        let there = own.each_ref().map(|file| file.exists());
        assert_eq!(there, [false, true, false], "{left:?}");
        // One that succeeds removes all that is of its part.
        delivered(&sink, &part(&["a"])).await;
        let left = Vec::from_iter(rig.files().into_keys());
        assert!(own.iter().all(|file| !file.exists()), "{left:?}");
        assert!(others.iter().all(|file| file.exists()), "{left:?}");
    }
}

fn blake3_of(text: &str) -> String {
    let rendering = bodies(Compression::None);
    let lines = Vec::from_iter(text.lines());
    let hash = rendering.hash(&part(&lines)).expect("it can be rendered");
    hash.to_string()
}
