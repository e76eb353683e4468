//! Which objects a part has, and what an attempt does if some of them exist already.

use axum::http::Method;

use super::*;
use crate::stand_in::StandIn;
use crate::tests_support::{BATCH, assert_has, part, refused, rendering};
use forms::Compression;
use forms::Format;
use forms::directory_of;

const NOT_THERE: &str = "<Error><Code>NoSuchKey</Code><Message>no key</Message></Error>";

fn sink(s3: &StandIn, prefix: &str, format: Format, compression: Compression) -> S3Sink {
    let place = format!("s3://bucket/{prefix}").parse().unwrap();
    S3Sink::new(&s3.sdk(), &place, rendering(format, compression))
}

fn bodies(s3: &StandIn, prefix: &str) -> S3Sink {
    sink(s3, prefix, Format::Body, Compression::None)
}

#[tokio::test]
async fn a_part_is_written_as_an_object_then_rejects_then_a_manifest() {
    let s3 = StandIn::start().await;
    let mut part = part(1, &["a", "b\n", "c"]);
    part.batch_key = Some("Zoë/1".parse().unwrap());
    let receipt = bodies(&s3, "in/daily").deliver(&part).await.unwrap();
    assert_eq!(receipt.rejected.len(), 1);
    assert_eq!(receipt.text, format!("blake3:{}", blake3::hash(b"a\nc\n")));
    // Percent-encoded, as in the path of a request.
    let base = format!("/bucket/in/daily/Zo%21C3%21AB%212F1/{BATCH}/1");
    let requests = s3.requests().into_iter();
    let requests: Vec<(Method, String)> = requests.map(|each| (each.method, each.path)).collect();
    let expected = [
        (Method::GET, ".manifest.json"),
        (Method::PUT, ".txt"),
        (Method::PUT, ".rejects"),
        (Method::PUT, ".manifest.json"),
    ];
    assert_eq!(
        requests,
        expected.map(|(method, end)| (method, format!("{base}{end}")))
    );
    let object = s3.object(&format!("{base}.txt")).unwrap();
    assert_eq!(object.body, "a\nc\n");
    assert_eq!(object.headers["if-none-match"], "*");
    assert_eq!(object.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(object.headers["x-amz-meta-batch-key"], "Zo%C3%AB%2F1");
    let list = s3.object(&format!("{base}.rejects")).unwrap();
    assert!(list.body.starts_with("{\"batchId\"".as_bytes()), "{list:?}");
    let manifest = s3.object(&format!("{base}.manifest.json")).unwrap();
    let expected = format!(
        "{{\"batchId\":\"{BATCH}\",\"part\":1,\"key\":\"in/daily/Zo!C3!AB!2F1/{BATCH}/1.txt\",\"batchKey\":\"Zoë/1\",\
         \"source\":\"arn:q\",\"format\":\"body\",\"compression\":\"none\",\"count\":3,\"rejected\":1,\"bytes\":4,\
         \"sha256\":\"b72cf6d7918130f75347ff0f8b6e9fde004ee6d7fc26af90a349707207f72750\",\
         \"hash\":\"{}\",\"firstSentAt\":7,\"lastSentAt\":7}}\n",
        blake3::hash(b"a\nc\n")
    );
    assert_eq!(manifest.body, expected);
}

#[tokio::test]
async fn a_second_delivery_is_recognised_by_the_hash_and_replaces_nothing() {
    let s3 = StandIn::start().await;
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let sink = sink(&s3, "", Format::Envelope, compression);
        let first = sink.deliver(&part(0, &["a", "b"])).await.unwrap();
        // First by the manifest, then, without a manifest, by the hash in the object's metadata.
        for _ in 0..2 {
            let again = sink.deliver(&part(0, &["a", "b"])).await;
            assert_eq!(first, again.unwrap());
            s3.remove(&path("0.manifest.json"));
        }
    }
    bodies(&s3, "").deliver(&part(0, &["a"])).await.unwrap();
    s3.remove(&path("0.manifest.json")).unwrap();
    let reason = refused(&bodies(&s3, ""), &part(0, &["b"]), true).await;
    assert!(reason.contains("exists with other content"), "{reason}");
    assert!(s3.object(&path("0.manifest.json")).is_none());
    let kept = s3.object(&format!("/bucket/{BATCH}/0.txt")).unwrap();
    assert_eq!(kept.body, "a\n");
}

fn path(name: &str) -> String {
    format!("/bucket/{BATCH}/{name}")
}

#[tokio::test]
async fn an_attempt_after_a_crash_writes_the_missing_objects() {
    // The sink writes the objects in this order.
    const OBJECTS: [&str; 3] = ["0.txt", "0.rejects", "0.manifest.json"];
    let stored = |s3: &StandIn| OBJECTS.map(|name| s3.object(&path(name)).unwrap().body);
    let part = part(0, &["a", "b\n", "c"]);
    for written in 0..OBJECTS.len() {
        let s3 = StandIn::start().await;
        let first = bodies(&s3, "").deliver(&part).await.unwrap();
        let before = stored(&s3);
        for name in &OBJECTS[written..] {
            s3.remove(&path(name)).unwrap();
        }
        let again = bodies(&s3, "").deliver(&part).await.unwrap();
        assert_eq!(first, again, "{written} written");
        assert_eq!(before, stored(&s3), "{written} written");
    }
}

#[tokio::test]
async fn a_manifest_that_another_attempt_wrote_first_is_compared() {
    let s3 = StandIn::start().await;
    bodies(&s3, "").deliver(&part(0, &["a"])).await.unwrap();
    // The first read finds no manifest.
    s3.answer(404, NOT_THERE);
    bodies(&s3, "").deliver(&part(0, &["a"])).await.unwrap();
    s3.remove(&path("0.txt")).unwrap();
    s3.answer(404, NOT_THERE);
    let reason = refused(&bodies(&s3, ""), &part(0, &["b"]), true).await;
    assert!(reason.contains("0.manifest.json`"), "{reason}");
}

#[tokio::test]
async fn a_forbidden_read_names_the_missing_permission() {
    let s3 = StandIn::start().await;
    s3.answer(
        403,
        "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
    );
    let reason = refused(&bodies(&s3, ""), &part(0, &["a"]), true).await;
    assert_has(&reason, &["0.manifest.json`", "`s3:ListBucket`"]);
}

#[tokio::test]
async fn an_object_without_our_metadata_is_not_taken_for_the_part() {
    let s3 = StandIn::start().await;
    s3.put(&format!("/bucket/{BATCH}/0.txt"), "a\n");
    let reason = refused(&bodies(&s3, ""), &part(0, &["a"]), true).await;
    assert_has(&reason, &["was not written by this service"]);
}

#[tokio::test]
async fn transient_errors_are_retryable_and_others_permanent() {
    for (status, code, permanent) in [
        (403, "AccessDenied", true),
        (404, "NoSuchBucket", true),
        (400, "InvalidRequest", true),
        (301, "PermanentRedirect", true),
        (400, "RequestTimeout", false),
        (400, "ExpiredToken", false),
        (409, "ConditionalRequestConflict", false),
        (500, "InternalError", false),
        (503, "SlowDown", false),
    ] {
        // The error of reading the manifest, and the error of writing the part.
        for (name, reads) in [("0.manifest.json", 0), ("0.txt", 1)] {
            let s3 = StandIn::start().await;
            (0..reads).for_each(|_| s3.answer(404, NOT_THERE));
            s3.answer(
                status,
                &format!("<Error><Code>{code}</Code><Message>words</Message></Error>"),
            );
            let reason = refused(&bodies(&s3, ""), &part(0, &["a"]), permanent).await;
            let words = format!("HTTP status {status}: {code}: words");
            assert_has(&reason, &[&words, &format!("`s3://bucket/{BATCH}/{name}`")]);
        }
    }
}

#[tokio::test]
async fn an_unreachable_endpoint_is_retryable() {
    let s3 = StandIn::start().await;
    let sink = bodies(&s3, "");
    s3.stop().await;
    refused(&sink, &part(0, &["a"]), false).await;
}

#[tokio::test]
async fn a_batch_key_too_long_for_metadata_is_only_in_the_manifest() {
    let s3 = StandIn::start().await;
    let mut part = part(0, &["a"]);
    part.batch_key = Some("ä".repeat(500).parse().unwrap());
    bodies(&s3, "").deliver(&part).await.unwrap();
    let directory = directory_of(part.batch_id, part.batch_key.as_ref());
    // Percent-encoded, as in the path of a request.
    let directory = directory.replace('!', "%21");
    let object = s3.object(&format!("/bucket/{directory}/0.txt")).unwrap();
    assert!(!object.headers.contains_key("x-amz-meta-batch-key"));
    let manifest = s3
        .object(&format!("/bucket/{directory}/0.manifest.json"))
        .unwrap();
    assert!(String::from_utf8_lossy(&manifest.body).contains(&"ä".repeat(500)));
}

#[tokio::test]
async fn an_error_has_a_path_with_a_batch_key_between_the_marks_of_ids() {
    let s3 = StandIn::start().await;
    let mut part = part(0, &["a"]);
    part.batch_key = Some("zoe".parse().unwrap());
    s3.answer(503, "");
    let reason = refused(&bodies(&s3, "in"), &part, false).await;
    let path = format!("s3://bucket/‹in/zoe/{BATCH}/0.");
    assert!(reason.contains(&path), "{reason}");
}

#[tokio::test]
async fn a_dry_run_writes_no_object_and_names_what_is_forbidden() {
    let s3 = StandIn::start().await;
    let sink = bodies(&s3, "in");
    s3.answer(404, NOT_THERE);
    s3.answer(404, NOT_THERE);
    sink.dry_run().await.unwrap();
    let requests = s3.requests();
    assert_eq!(requests[0].method, Method::GET);
    assert_eq!(requests[1].method, Method::PUT);
    assert_eq!(requests[1].headers["if-match"], "\"none\"");
    assert_eq!(requests[1].path, "/bucket/in/dry-run");

    let denied = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
    s3.answer(404, NOT_THERE);
    s3.answer(403, denied);
    for _ in 0..2 {
        let error = sink.dry_run().await.unwrap_err().to_string();
        assert!(
            error.contains("`s3://bucket/in/dry-run`: HTTP status 403: AccessDenied"),
            "{error}"
        );
        s3.answer(403, denied);
    }
    s3.answer(
        404,
        "<Error><Code>NoSuchBucket</Code><Message>no</Message></Error>",
    );
    let error = sink.dry_run().await.unwrap_err().to_string();
    assert!(error.contains("AccessDenied"), "{error}");
    let error = sink.dry_run().await.unwrap_err().to_string();
    assert!(error.contains("NoSuchBucket"), "{error}");
}
