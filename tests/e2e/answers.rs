//! The consumer answers: from a copybook to a packed file in EBCDIC on a server, its answer with rejects, and the proof of an event.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use local::sink::SinkKind;
use local::stack::{INPUT_QUEUE, QUARANTINE_QUEUE};
use serde_json::Value;

use crate::batchctl::Batchctl;
use crate::executables::{command, run};
use crate::output::{json_of, manifests};
use crate::proofs::{prove_with, verify};
use crate::rig::Setup;

const COPYBOOK: &str = "\
       01  PAYMENT.
           05  PAYMENT-ID    PIC X(8).
           05  AMOUNT        PIC S9(7)V99 COMP-3.
";
/// Bytes of a record: eight characters, and nine digits with a sign.
const RECORD_BYTES: usize = 13;
/// In EBCDIC, digits are the bytes from 0xF0 on.
const EBCDIC_ZERO: u8 = 0xf0;

/// Writes an answer in EBCDIC, in a file that nothing has changed for two minutes.
fn answer(path: &Path, text: &str) {
    let bytes = text.chars().map(|character| match character {
        '0'..='9' => EBCDIC_ZERO + (character as u8 - b'0'),
        'A'..='I' => 0xc1 + (character as u8 - b'A'),
        'J'..='R' => 0xd1 + (character as u8 - b'J'),
        'S'..='Z' => 0xe2 + (character as u8 - b'S'),
        '\n' => 0x15,
        _ => 0x40,
    });
    fs::write(path, Vec::from_iter(bytes)).expect("it can be written");
    let file = File::options().append(true).open(path);
    let before = SystemTime::now() - Duration::from_secs(120);
    let changed = file.expect("it is there").set_modified(before);
    changed.expect("the time can be set");
}

#[tokio::test]
async fn a_packed_file_is_answered_with_rejects_and_an_event_of_it_is_proven() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let copybook = directory.path().join("payment.cpy");
    fs::write(&copybook, COPYBOOK).expect("it can be written");
    let columns = run(command("batchctl")
        .args(["columns", "from-copybook"])
        .arg(&copybook))
    .await;
    assert_eq!(columns.code, Some(0), "{columns:?}");
    let answers = directory.path().join("answers");
    fs::create_dir(&answers).expect("a directory can be made");

    let setup = Setup::new()
        .quick()
        .one_aggregator_environment()
        .batches_of(6);
    let form = r#"{"format":"fixed-width","encoding":"ebcdic-cp037","fields":{"record":"1-6","result":"8-9","reason":"11-30"},"accepted":["OK"],"rejected":["NO"],"unlisted":"accepted"}"#;
    let mut setup = setup
        .var("SINK_FORMAT", "fixed-width")
        .var("SINK_COLUMNS", &columns.out)
        .var("SINK_ENCODING", "ebcdic-cp037")
        .var("SINK_LINE_END", "none")
        .var("SINK_PATH", "{sequence:06}.dat")
        .var("PROOF", "on")
        .var("ANSWERS_FROM", format!("sftp:{}", answers.display()))
        .var("ANSWERS_FORM", form)
        .var("ANSWERS_WITHIN", 3_600);
    setup.options.sink = SinkKind::Sftp;
    let rig = setup.start().await;
    for number in 0..6 {
        rig.send(format!(
            r#"{{"id":"p{number}","payment_id":"PAY{number}","amount":"-{number}.25"}}"#
        ));
    }
    rig.until_drained().await;

    let [manifest] = &manifests(&rig.stack.out)[..] else {
        panic!("one part is delivered");
    };
    let manifest = json_of(manifest);
    let batch = manifest["batchId"].as_str().expect("it is a text");
    let delivered = fs::read(rig.stack.out.join("000001.dat")).expect("it is there");
    assert_eq!(delivered.len(), 6 * RECORD_BYTES);
    let packed = Vec::from_iter(
        delivered
            .chunks(RECORD_BYTES)
            .map(|record| record[8..].to_vec()),
    );
    assert!(
        packed.contains(&vec![0x00, 0x00, 0x00, 0x32, 0x5d]),
        "{packed:x?}"
    );
    let batchctl = Batchctl::of(&rig);
    let awaited = batchctl.json(0, &["answers"]).await;
    assert_eq!(awaited["batches"][0]["awaited"], 6, "{awaited}");

    answer(
        &answers.join("000001.ack"),
        "000002 NO NO SUCH ACCOUNT\n000005 NO LIMIT\n",
    );
    rig.until_metric("EventsRejected", 2).await;
    let answered = batchctl.json(0, &["answers", batch]).await;
    let answered = &answered["batches"][0];
    assert_eq!(answered["state"], "partly", "{answered}");
    assert_eq!(answered["accepted"], 4);
    let aside = rig.take(QUARANTINE_QUEUE, 2).await;
    let reasons = Vec::from_iter(
        aside
            .iter()
            .map(|message| format!("{:?}", message.message_attributes)),
    );
    let has = |words: &str| reasons.iter().any(|reason| reason.contains(words));
    assert!(
        has("rejected by the answer `000001.ack`: NO SUCH ACCOUNT"),
        "{reasons:?}"
    );
    assert!(
        has("rejected by the answer `000001.ack`: LIMIT"),
        "{reasons:?}"
    );

    // A proof is about what was delivered, whatever was answered.
    let record: Value = serde_json::from_str(&aside[0].body).expect("bodies are JSON");
    let event = record["id"].as_str().expect("it has an id");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let files = rig.stack.out.display().to_string();
    let of_files = ["--files", &files];
    let hash = prove_with(
        &batchctl,
        &rig.stack.sqs.arn(INPUT_QUEUE),
        event,
        "delivered",
        "proof",
        &of_files,
    )
    .await;
    let verified = verify(&batchctl.directory.path().join("proof"), &hash).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(
        verified
            .out
            .contains(&format!("{event:?} delivered in part {batch}/0")),
        "{verified:?}"
    );
    rig.end_with_set_aside(2, 0).await;
}
