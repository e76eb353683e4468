//! Which files a part has, and what an attempt does if some of them exist already.

use futures::future::join_all;
use sinks::Compression;

use super::*;
use crate::parts::part;

#[tokio::test]
async fn a_part_is_a_file_then_rejects_then_a_manifest_and_is_written_once() {
    let rig = Rig::start().await;
    let sink = rig.sink(Compression::None);
    // A body with a line break cannot be carried by this format.
    let part = part(&["a", "b\n", "c"]);
    let receipt = delivered(&sink, &part).await;
    assert_eq!(receipt.text, format!("blake3:{}", blake3_of("a\nc\n")));
    assert_eq!(receipt.rejected.len(), 1);
    let files = rig.files();
    let names = Vec::from_iter(files.keys().map(String::as_str));
    assert_eq!(names, ["0.manifest.json", "0.rejects", "0.txt"]);
    assert_eq!(files["0.txt"], b"a\nc\n");
    let manifest: serde_json::Value =
        serde_json::from_slice(&files["0.manifest.json"]).expect("the manifest is JSON");
    assert_eq!(manifest["key"], format!("{BATCH}/0.txt"));
    assert_eq!(manifest["rejected"], 1);

    assert_eq!(delivered(&sink, &part).await, receipt);
    assert_eq!(rig.files(), files);
    assert_eq!(rig.proxy.connections(), 1, "the connection is kept");
    // A consumer has taken the part: it does not come again.
    fs::remove_file(rig.path("0.txt")).expect("it is there");
    assert_eq!(
        delivered(&rig.sink(Compression::None), &part).await,
        receipt
    );
    assert_eq!(rig.names(), ["0.manifest.json", "0.rejects"]);
}

#[tokio::test]
async fn a_part_of_many_packets_arrives_as_it_is() {
    let rig = Rig::start().await;
    let body = "0123456789abcdef".repeat(40_000);
    let bodies = [body.as_str(); 8];
    let receipt = delivered(&rig.sink(Compression::None), &part(&bodies)).await;
    let expected = format!("{}\n", bodies.join("\n"));
    assert_eq!(rig.files()["0.txt"], expected.as_bytes());
    // The manifest is gone, so the next attempt compares the file itself.
    fs::remove_file(rig.path("0.manifest.json")).expect("it is there");
    assert_eq!(
        delivered(&rig.sink(Compression::None), &part(&bodies)).await,
        receipt
    );
}

#[tokio::test]
async fn equal_content_is_a_success_and_other_content_is_an_error_with_both_hashes() {
    for (compression, name) in [
        (Compression::None, "0.txt"),
        (Compression::Gzip, "0.txt.gz"),
        (Compression::Zstd, "0.txt.zst"),
    ] {
        let rig = Rig::start().await;
        let sink = rig.sink(compression);
        let (one, other) = (part(&["a"]), part(&["other"]));
        delivered(&sink, &one).await;
        let reason = permanent(&sink, &other).await;
        let both = [blake3_of("a\n"), blake3_of("other\n")];
        assert!(both.iter().all(|hash| reason.contains(hash)), "{reason}");

        fs::remove_file(rig.path("0.manifest.json")).expect("it is there");
        let before = rig.files();
        let reason = permanent(&sink, &other).await;
        assert!(both.iter().all(|hash| reason.contains(hash)), "{reason}");
        assert!(
            reason.contains(&format!("{BATCH}/{name}`: exists with other content")),
            "{reason}"
        );
        assert_eq!(
            rig.files(),
            before,
            "nothing is replaced, and nothing is left"
        );
        delivered(&sink, &one).await;
        assert_eq!(rig.names(), ["0.manifest.json", name]);
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
    let rig = Rig::start().await;
    let part = part(&["x".repeat(300_000)]);
    let sinks = Vec::from_iter((0..6).map(|_| rig.sink(Compression::None)));
    for _ in 0..5 {
        let attempts = join_all(sinks.iter().map(|sink| sink.deliver(&part))).await;
        // An attempt whose upload another one removed comes again.
        assert!(attempts.iter().any(Result::is_ok), "{attempts:?}");
        for sink in &sinks {
            delivered(sink, &part).await;
        }
        assert_eq!(rig.names(), ["0.manifest.json", "0.txt"]);
        fs::remove_dir_all(rig.path("")).expect("it is there");
    }
}

#[tokio::test]
async fn what_dead_attempts_left_is_removed_and_what_is_of_others_stays() {
    let rig = Rig::start().await;
    let sink = rig.sink(Compression::None);
    let now = uuid::Uuid::now_v7();
    let old = uuid::Builder::from_unix_timestamp_millis(1_700_000_000_000, &[7; 10]).into_uuid();
    let name = |start: &str, id: uuid::Uuid| format!(".{start}.{id}.partial");
    let own = [
        name("0.txt", old),
        name("0.txt", now),
        name("0.manifest.json", old),
    ];
    let others = [name("1.txt", old), ".0.txt.notes".to_owned()];
    // The first attempt makes the directory.
    delivered(&sink, &part(&["a"])).await;
    for file in own.iter().chain(&others) {
        fs::write(rig.path(file), "half").expect("it can be written");
    }
    // An attempt that fails removes what is certainly dead.
    fs::remove_file(rig.path("0.manifest.json")).expect("it is there");
    permanent(&sink, &part(&["other"])).await;
    let left = rig.names();
    assert!(
        left.contains(&own[1]) && !left.contains(&own[0]) && !left.contains(&own[2]),
        "{left:?}"
    );
    // One that succeeds removes all that is of its part.
    delivered(&sink, &part(&["a"])).await;
    let left = rig.names();
    assert!(own.iter().all(|file| !left.contains(file)), "{left:?}");
    assert!(others.iter().all(|file| left.contains(file)), "{left:?}");
}

fn blake3_of(text: &str) -> String {
    let rendering = bodies(Compression::None);
    let lines = Vec::from_iter(text.lines());
    let hash = rendering.hash(&part(&lines)).expect("it can be rendered");
    hash.to_string()
}
