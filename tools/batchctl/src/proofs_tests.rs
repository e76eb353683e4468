use std::path::Path;

use protocol::chain::Link;
use serde_json::json;
use sinks::chain::{EventLine, tree_of};

use super::*;

/// A chain of five parts of 0 to 4 events: part N took its number at N × 1,000 ms.
struct Sample {
    files: Vec<(String, String)>,
    trees: Vec<Tree>,
    end: ChainEnd,
}

fn scope() -> SequenceScope {
    SequenceScope {
        source: "arn:aws:sqs:eu-west-1:123456789012:orders".parse().unwrap(),
        batch_key: Some("k".parse().unwrap()),
    }
}

fn batch(number: u64) -> BatchId {
    BatchId::new(uuid::Uuid::from_u128(u128::from(number)))
}

fn tree(number: u64) -> Tree {
    let line = |record: u32| EventLine {
        record,
        event_id: format!("e{number}-{record}"),
        body_sha256: ChainHash::new(sha256([b"body"])).to_string(),
    };
    let lines = Vec::from_iter((1..number as u32).map(line));
    tree_of(&lines).unwrap()
}

fn manifest(number: u64, end: Option<ChainEnd>, tree: &Tree) -> Linked {
    let link = Link::after(end, Timestamp::from_ms(number * 1_000));
    let manifest = json!({
        "batchId": batch(number),
        "part": 0,
        "key": format!("k/{}/0.jsonl", batch(number)),
        "batchKey": "k",
        "source": scope().source,
        "compression": "none",
        "hash": "00",
    });
    let chain = serde_json::to_string(&Chain::new(number, link, tree)).unwrap();
    let manifest = manifest.to_string();
    let fields = manifest.strip_suffix('}').unwrap();
    Linked::new(&format!("{fields},\"chain\":{chain}}}\n"), link.previous)
}

fn path(number: u64) -> String {
    format!("k/{}/0.manifest.json", batch(number))
}

fn sample() -> Sample {
    sample_of(&[1, 2, 3, 4, 5])
}

fn sample_of(numbers: &[u64]) -> Sample {
    let (mut files, mut trees, mut end) = (Vec::new(), Vec::new(), None);
    for number in numbers {
        let tree = tree(*number);
        let linked = manifest(*number, end, &tree);
        end = Some(ChainEnd {
            number: *number,
            taken_at: Timestamp::from_ms(number * 1_000),
            hash: linked.hash,
        });
        files.push((path(*number), linked.to_manifest()));
        trees.push(tree);
    }
    let end = end.unwrap();
    Sample { files, trees, end }
}

impl Sample {
    fn links(&self) -> Result<Links, String> {
        let mut found = Vec::new();
        for (path, manifest) in &self.files {
            match read(path, manifest.as_bytes(), &scope())? {
                Read::Linked(link) => found.push(*link),
                Read::Elsewhere | Read::Unlinked(_) => {}
            }
        }
        let links = follow(found, self.end)?;
        links.check_others(self.end, |_| false)?;
        Ok(links)
    }

    fn problem(&self) -> String {
        self.links().err().unwrap_or_default()
    }
}

#[test]
fn a_whole_chain_has_its_links_in_order() {
    let links = sample().links().unwrap().links;
    let numbers = links.iter().map(|link| link.fields.chain.number);
    assert!(numbers.eq(1..=5));
}

#[test]
fn a_removed_part_is_found() {
    for removed in 1..5 {
        let mut sample = sample();
        sample.files.remove(removed);
        let number = removed + 1;
        let expected = format!("number {number} is missing");
        assert!(
            sample.problem().starts_with(&expected),
            "{}",
            sample.problem()
        );
    }
    // Below the first that is there nothing is known, and the output says where the chain begins.
    let mut sample = sample();
    sample.files.remove(0);
    let links = sample.links().unwrap();
    assert_eq!(links.links[0].fields.chain.number, 2);
    assert!(links.between(1_500, 2_500).is_err());
    assert_eq!(links.between(2_500, 2_600), Ok(0..1));
}

#[test]
fn every_changed_bit_of_a_manifest_is_found() {
    let whole = sample();
    for bit in 0..whole.files[2].1.len() * 8 {
        let mut changed = whole.files[2].1.clone().into_bytes();
        changed[bit / 8] ^= 1 << (bit % 8);
        let Ok(changed) = String::from_utf8(changed) else {
            continue;
        };
        let mut sample = sample();
        sample.files[2].1 = changed;
        assert!(!sample.problem().is_empty(), "bit {bit}");
    }
}

#[test]
fn a_manifest_that_was_made_anew_is_found() {
    let mut sample = sample();
    let before = sample.links().unwrap().links[1].clone();
    let end = ChainEnd {
        number: 2,
        taken_at: Timestamp::from_ms(2_000),
        hash: before.linked.hash,
    };
    // It is whole by itself, and has an event less.
    sample.files[2].1 = manifest(3, Some(end), &tree(2)).to_manifest();
    let problem = sample.problem();
    assert!(problem.starts_with("number 3 was changed"), "{problem}");
}

#[test]
fn reordered_and_inserted_parts_are_found() {
    let mut reordered = sample();
    let first = reordered.files[1].1.clone();
    reordered.files[1].1 = std::mem::replace(&mut reordered.files[2].1, first);
    let problem = reordered.problem();
    assert!(
        problem.contains("was changed: it is the one of"),
        "{problem}"
    );
    let mut inserted = sample();
    let own = manifest(3, None, &tree(9)).to_manifest();
    let own = own.replace(&batch(3).to_string(), &batch(9).to_string());
    let own = Linked::new(
        &format!("{}}}}}\n", Linked::read(own.as_bytes()).unwrap().statement),
        ChainHash::NONE,
    );
    inserted.files.push((path(9), own.to_manifest()));
    let problem = inserted.problem();
    assert!(problem.starts_with("number 3 is doubled"), "{problem}");
    // A copy of a manifest elsewhere is found by its path.
    let mut copied = sample();
    copied.files.push((path(9), copied.files[3].1.clone()));
    assert!(copied.problem().contains("it is the one of"));
}

#[test]
fn a_gap_is_stated_and_nothing_is_proven_across_it() {
    let sample = sample_of(&[1, 2, 5]);
    let links = sample.links().unwrap();
    let gap = &links.links[2].fields.chain.gap;
    assert_eq!(
        gap.as_deref(),
        Some("no chain hash is known of numbers 3 to 4")
    );
    let words = links.not_delivered("absent", 1..2, &sample.trees[1..2]);
    assert!(words.unwrap_err().contains("of numbers 3 to 4"));
    links
        .not_delivered("absent", 0..1, &sample.trees[..1])
        .unwrap();
    // What was delivered before a gap is still shown by the last hash.
    links.delivered("e2-1", 1, &sample.trees[1]).unwrap();
}

#[test]
fn the_parts_of_a_time_are_those_that_may_have_been_delivered_in_it() {
    let links = sample().links().unwrap();
    for (from, to, expected) in [
        (0, 10, 0..0),
        (0, 1_000, 0..1),
        (1_500, 1_600, 0..1),
        (2_000, 2_000, 0..2),
        (2_500, 4_100, 1..4),
        (5_500, 9_000, 4..5),
    ] {
        assert_eq!(links.between(from, to), Ok(expected), "{from} to {to}");
    }
}

/// The proofs that `verify-proof` is tested with are those that this program writes.
#[test]
fn proofs_are_the_fixtures_of_verify_proof() {
    let sample = sample();
    let links = sample.links().unwrap();
    let delivered = links.delivered("e4-2", 3, &sample.trees[3]).unwrap();
    let absent = links.not_delivered("absent", 1..4, &sample.trees[1..4]);
    let of_the_end = links.not_delivered("absent", 0..5, &sample.trees);
    let text = |proof: &Proof| serde_json::to_string_pretty(proof).unwrap() + "\n";
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../verify-proof/fixtures");
    for (name, expected) in [
        ("delivered.json", text(&delivered)),
        ("not-delivered.json", text(&absent.unwrap())),
        ("not-delivered-at-all.json", text(&of_the_end.unwrap())),
        ("last-chain-hash", sample.end.hash.to_string()),
    ] {
        let path = fixtures.join(name);
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected, "{name}");
    }
}
