//! Proofs of what was delivered, from the executables of the service through `batchctl prove` to `verify-proof`.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use local::faults::KillAt;
use local::stack::INPUT_QUEUE;
use serde_json::Value;

use crate::batchctl::Batchctl;
use crate::executables::{Ran, command, run};
use crate::output::{json_of, manifests};
use crate::rig::{Rig, Setup};

const FIRST: &str = "2020-01-01T00:00:00Z";

/// Proves an event with everything that was delivered until now; returns the last chain hash.
async fn prove(batchctl: &Batchctl, rig: &Rig, event: &str, kind: &str, file: &str) -> String {
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    prove_with(batchctl, &source, event, kind, file, &[]).await
}

/// As [`prove`], with further words of the command.
pub async fn prove_with(
    batchctl: &Batchctl,
    source: &str,
    event: &str,
    kind: &str,
    file: &str,
    further: &[&str],
) -> String {
    // The command takes times that have passed, in whole seconds here.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let secs = now.expect("it is after 1970").as_secs();
    let to = utc(secs);
    let words = [
        "prove", event, "--source", source, "--from", FIRST, "--to", &to,
    ];
    let proven = batchctl
        .json(0, &[&words[..], &["--output", file], further].concat())
        .await;
    assert_eq!(proven["kind"], kind, "{proven}");
    let hash = proven["lastChainHash"].as_str();
    hash.expect("it is a text").to_owned()
}

/// Returns a time of whole seconds since 1970 as `batchctl` takes it.
fn utc(secs: u64) -> String {
    let (year, month, day) = protocol::time::Timestamp::from_ms(secs * 1_000).date();
    let (hour, minute, second) = (secs / 3_600 % 24, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

pub async fn verify(file: &Path, hash: &str) -> Ran {
    run(command("verify-proof").arg(file).arg(hash)).await
}

#[tokio::test]
async fn events_are_proven_delivered_or_not_although_a_processor_dies_after_a_delivery() {
    let setup = Setup::new().mortal().one_aggregator_environment();
    let mut setup = setup.batches_of(4).var("PROOF", "on");
    // The manifest is there, and the record does not say so: the next attempt finds the link in it.
    setup.options.faults.kill_at = vec![KillAt {
        text: "part written".to_owned(),
        percent: "100".parse().expect("the value is a percentage"),
        kills_max: Some(1),
    }];
    let rig = setup.start().await;
    for round in 0..3_u64 {
        for number in 0..4 {
            rig.send(format!(r#"{{"id":"e{round}-{number}"}}"#));
        }
        rig.until_metric("BatchesCompleted", round + 1).await;
    }
    let mut numbers = Vec::from_iter(manifests(&rig.stack.out).iter().map(|path| {
        let chain = json_of(path)["chain"].clone();
        assert_eq!(chain.get("gap"), None, "{chain}");
        chain["number"].as_u64().unwrap_or_default()
    }));
    numbers.sort_unstable();
    assert!(numbers.len() >= 3, "{numbers:?}");
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64));
    let faults = rig.stack.faults.report().expect("faults are on");
    assert_eq!(faults.kill_at[0].killed, 1, "{faults}");
    // `--to` is in whole seconds.
    tokio::time::sleep(Duration::from_secs(1)).await;

    let batchctl = Batchctl::of(&rig);
    let hash = prove(&batchctl, &rig, "e1-2", "delivered", "delivered").await;
    let delivered = batchctl.directory.path().join("delivered");
    let verified = verify(&delivered, &hash).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(
        verified.out.contains(r#""e1-2" delivered in part "#),
        "{verified:?}"
    );
    let same = prove(&batchctl, &rig, "absent", "not delivered", "absent").await;
    assert_eq!(same, hash);
    let absent = batchctl.directory.path().join("absent");
    let verified = verify(&absent, &hash).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let expected = r#""absent" not delivered between the beginning and the time of the chain hash"#;
    assert!(verified.out.contains(expected), "{verified:?}");

    // A file that says another record, and another hash.
    let text = fs::read_to_string(&delivered).expect("it is there");
    let mut proof: Value = serde_json::from_str(&text).expect("it is JSON");
    let record = &mut proof["parts"][0]["leaves"][0]["record"];
    *record = Value::from(record.as_u64().unwrap_or_default() + 1);
    fs::write(&delivered, proof.to_string()).expect("it can be written");
    let verified = verify(&delivered, &hash).await;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(verified.err.contains("does not hold"), "{verified:?}");
    let verified = verify(&absent, &"0".repeat(64)).await;
    assert_eq!(verified.code, Some(1), "{verified:?}");

    // A manifest that is gone.
    let second = manifests(&rig.stack.out)
        .into_iter()
        .find(|path| json_of(path)["chain"]["number"] == 2);
    fs::remove_file(second.expect("there are three")).expect("it can be removed");
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let words = [
        "prove", "absent", "--source", &source, "--from", FIRST, "--to", FIRST,
    ];
    let refused = batchctl
        .text(&[&words[..], &["--output", "none"]].concat())
        .await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("number 2 is missing"), "{refused:?}");
    rig.stack.stop().await;
}
