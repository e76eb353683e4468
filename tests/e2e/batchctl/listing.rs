//! Many batches, and what is wrong with a command.

use std::time::Duration;

use aws::{DynamoBatchStore, SystemClock, SystemEntropy};
use futures::stream::{self, StreamExt};
use local::dynamodb::BATCH_TABLE;
use local::stack::INPUT_QUEUE;
use protocol::batch::{BatchRecord, Status};
use protocol::ids::SourceArn;
use protocol::time::Timestamp;
use shared::ports::{BatchStore, Clock, Entropy};

use super::{Batchctl, YES};
use crate::executables::run;
use crate::rig::{Rig, Setup};

const BATCHES: u64 = 4_000;

/// Writes records of `count` batches: every fourth in error, the others open; every tenth has the key `rare`.
pub async fn write_batches(rig: &Rig, count: u64) {
    let store = DynamoBatchStore::new(rig.dynamodb(), BATCH_TABLE);
    let now = SystemClock.now();
    let source: SourceArn = rig.stack.sqs.arn(INPUT_QUEUE).parse().expect("an ARN");
    let records = (0..count).map(|number| {
        let opened = Timestamp::from_ms(now.as_ms() - 3_600_000 + number);
        let key = if number % 10 == 0 { "rare" } else { "often" };
        let id = SystemEntropy.batch_id(opened);
        let key = Some(key.parse().expect("a key"));
        let closes_at = opened + Duration::from_secs(300);
        let mut record = BatchRecord::open(id, source.clone(), key, 10, opened, closes_at);
        if number % 4 == 0 {
            record.status = Some(Status::Error);
            record.error = Some(format!("sink refused part {}", number % 8));
        }
        record
    });
    let records: Vec<BatchRecord> = records.collect();
    let created = stream::iter(&records).map(|record| store.create(record));
    let mut created = created.buffer_unordered(32);
    while let Some(created) = created.next().await {
        created.expect("the table takes a record");
    }
}

#[tokio::test]
async fn thousands_of_batches_are_listed_by_the_index() {
    let rig = Setup::new().without_sweep().start().await;
    write_batches(&rig, BATCHES).await;
    let batchctl = Batchctl::of(&rig);
    for (arguments, matching) in [
        (&["list"][..], BATCHES),
        (&["list", "--status", "error"], BATCHES / 4),
        (&["list", "--status", "overdue"], BATCHES * 3 / 4),
        (&["list", "--source", "input-queue"], BATCHES),
        (&["list", "--older-than", "10m"], BATCHES),
        (&["list", "--younger-than", "10m"], 0),
    ] {
        let listed = batchctl.json(0, arguments).await;
        assert_eq!(listed["matching"], matching, "{arguments:?}");
    }
    // By key or error, the records are read.
    let rare = ["list", "--key", "rare", "--limit", "7"];
    let rare = batchctl.json(0, &rare).await;
    assert_eq!(rare["matching"], BATCHES / 10);
    assert_eq!(rare["batches"].as_array().map(Vec::len), Some(7));
    let retry = ["retry", "--error", "part 4", "--younger-than", "2h"];
    let refused = batchctl.json(4, &retry).await;
    let refused = refused["batches"].as_array().map(Vec::len);
    assert_eq!(refused, Some(BATCHES as usize / 8));
    let watch = ["watch", "--looks", "1", "--limit", "1"];
    let look = batchctl.json(0, &watch).await;
    assert_eq!(look["open"], BATCHES * 3 / 4, "{look}");
    assert_eq!(look["error"], BATCHES / 4, "{look}");
    let queues = look["queues"].as_array().map(Vec::len);
    assert_eq!(queues, Some(5), "{look}");
    let alarms = look["alarms"].as_array().expect("a list");
    let mut names = alarms.iter().map(|alarm| &alarm["name"]);
    assert!(names.any(|name| name == "BatchesInError"), "{look}");
    rig.stack.stop().await;
}

#[tokio::test]
async fn exit_codes_tell_scripts_what_happened() {
    let rig = Setup::new().without_sweep().start().await;
    let batchctl = Batchctl::of(&rig);
    let nobody = "0190163d-8694-739b-aea5-966c26f8ad91";
    let one_or_all = "<--source <ARN>|--key <KEY>|--all>";
    let where_or_all = "<--where <JMESPATH>|--all>";
    let out_of_range = "`--for`: out of range";
    for (code, arguments, words) in [
        (2, &["retry"][..], "no batch is selected"),
        (2, &["retry", "--yes", "--error", "x"], "`--why`: missing"),
        (2, &["show", "xyz"], "batch id: malformed: got `xyz`"),
        (2, &["pause", "--all", "--for", "9d"], out_of_range),
        (2, &["pause", "--for", "1h"], one_or_all),
        (2, &["redrive", "--from", "quarantine"], where_or_all),
        (2, &["find", ""], "event id: empty"),
        (2, &["show", ""], "batch id: empty"),
        (3, &["show", nobody], "not found"),
        (3, &["show", "0190"], "not found among incomplete batches"),
        (3, &["forget", "nobody"], "event `nobody`: unknown"),
    ] {
        let ran = batchctl.text(arguments).await;
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(words), "{arguments:?}: {ran:?}");
    }
    let retry = [&["retry", nobody], &YES[..]].concat();
    let ran = batchctl.text(&retry).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let ran = batchctl.text(&["list"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "0 batches\n"));
    rig.stack.stop().await;
}

#[tokio::test]
async fn a_stack_that_cannot_be_opened_ends_a_command_with_2() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let batchctl = Batchctl { directory };
    let path = batchctl.directory.path().join("env");
    let credentials = "export AWS_ACCESS_KEY_ID=a\nexport AWS_SECRET_ACCESS_KEY=b\n";
    let with_region = format!("{credentials}export AWS_REGION=us-east-1\n");
    std::fs::write(&path, with_region).expect("the directory takes a file");
    let ran = batchctl.text(&["list"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("`DDB_LOCK_TABLE`: missing"), "{ran:?}");
    std::fs::write(&path, credentials).expect("the directory takes a file");
    let mut list = batchctl.command(&["list"]);
    // A machine in AWS has a region of its own.
    list.env("AWS_EC2_METADATA_DISABLED", "true");
    let no_region = run(&mut list).await;
    assert_eq!(no_region.code, Some(2), "{no_region:?}");
    assert!(no_region.err.contains("region: not set"), "{no_region:?}");
    std::fs::remove_file(path).expect("it is there");
    let no_file = batchctl.text(&["list"]).await;
    assert_eq!(no_file.code, Some(2), "{no_file:?}");
    assert!(no_file.err.contains("`env`: "), "{no_file:?}");
}
