//! Checks a proof of `batchctl prove` against a chain hash that somebody noted: `verify-proof PROOF-FILE LAST-CHAIN-HASH`.
//!
//! Whatever it prints of a part is bound by that hash. docs/proof.md says what the bytes are, so that this program can be replaced.

use std::process::ExitCode;

use serde_json::Value;
use sha2::{Digest, Sha256};

type Hash = [u8; 32];

fn main() -> ExitCode {
    let arguments = Vec::from_iter(std::env::args().skip(1));
    let [file, last] = &arguments[..] else {
        eprintln!("usage: verify-proof PROOF-FILE LAST-CHAIN-HASH");
        return ExitCode::from(2);
    };
    let text = std::fs::read_to_string(file).map_err(|error| format!("`{file}`: {error}"));
    match text.and_then(|text| verify(&text, last)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("does not hold: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns what a proof shows, in one line; an error says what does not hold.
fn verify(proof: &str, last: &str) -> Result<String, String> {
    let proof: Value = serde_json::from_str(proof).map_err(|error| format!("proof: {error}"))?;
    ensure(
        number(&proof, "formatVersion")? == 1,
        "`formatVersion`: expected 1",
    )?;
    let (kind, event) = (text(&proof, "kind")?, text(&proof, "eventId")?);
    let target = sha256(&[event.as_bytes()]);
    let (parts, later) = (list(&proof, "parts")?, list(&proof, "later")?);
    let first_previous = hash(text(&proof, "previous")?)?;
    // The statements are those of the parts, and of the part after them.
    let statements = parts.iter().map(|part| text(part, "statement"));
    let next = proof.get("next").map(|_| text(&proof, "next"));
    let mut chain = first_previous;
    let mut links: Vec<Value> = Vec::new();
    for statement in statements.chain(next.clone()) {
        let statement = statement?;
        chain = sha256(&[&[2], &chain, &sha256(&[statement.as_bytes()])]);
        let link = serde_json::from_str(&format!("{statement}}}}}"));
        links.push(link.map_err(|error| format!("statement: {error}"))?);
    }
    for one in later {
        let statement = one.as_str().ok_or("`later`: expected hashes")?;
        chain = sha256(&[&[2], &chain, &hash(statement)?]);
    }
    ensure(
        chain == hash(last)?,
        "the links do not lead to the chain hash that was given",
    )?;
    ensure(
        next.is_some() || later.is_empty(),
        "`next`: missing, although there are later links",
    )?;
    let chains = Vec::from_iter(links.iter().map(|link| &link["chain"]));
    for pair in chains.windows(2) {
        let is_next = number(pair[1], "after")? == number(pair[0], "number")?;
        let goes_on = number(pair[0], "takenAt")? <= number(pair[1], "takenAt")?;
        ensure(is_next && goes_on, "a link is not after the one before it")?;
    }
    let until = match next {
        Some(_) => Some(number(chains[chains.len() - 1], "takenAt")?),
        None => None,
    };
    let scope = links
        .first()
        .map(scope)
        .ok_or("`parts` and `next`: both are missing")?;
    match (kind, parts) {
        ("delivered", [part]) => {
            let leaves = leaves(part, chains[0])?;
            ensure(
                leaves.len() == 1 && leaves[0].1 == target,
                "the leaf is not of the event",
            )?;
            let record = number(&list(part, "leaves")?[0], "record")?;
            let key = format!(
                "{}/{}",
                text(&links[0], "batchId")?,
                number(&links[0], "part")?
            );
            let from = time(number(chains[0], "takenAt")?);
            let until = until.map_or_else(|| "the time of the chain hash".to_owned(), time);
            Ok(format!(
                "{event:?} delivered in part {key} as record {record} between {from} and {until}, {scope}"
            ))
        }
        ("not delivered", parts) => {
            for (part, chain) in parts.iter().zip(&chains) {
                let size = number(chain, "leaves")?;
                let is_absent = match &leaves(part, chain)?[..] {
                    [] => size == 0 && hash(text(chain, "merkleRoot")?)? == sha256(&[]),
                    [(0, id)] if target < *id => true,
                    [(index, id)] => *index + 1 == size && *id < target,
                    [(left, before), (right, after)] => {
                        left + 1 == *right && *before < target && target < *after
                    }
                    _ => false,
                };
                ensure(
                    is_absent,
                    "the leaves of a part do not show that the event is absent",
                )?;
            }
            for pair in chains.windows(2) {
                let is_next = number(pair[1], "number")? == number(pair[0], "number")? + 1;
                ensure(is_next, "the chain has a gap between the parts")?;
            }
            let (first, after) = (number(chains[0], "number")?, number(chains[0], "after")?);
            let from = match first == 1 && after == 0 && first_previous == [0; 32] {
                true => "the beginning".to_owned(),
                false => time(number(chains[0], "takenAt")?),
            };
            ensure(
                !parts.is_empty() || from == "the beginning",
                "`parts`: no part",
            )?;
            let until = until.map_or_else(|| "the time of the chain hash".to_owned(), time);
            Ok(format!(
                "{event:?} not delivered between {from} and {until}: {} parts, {scope}",
                parts.len()
            ))
        }
        _ => Err(format!("`kind`: got {kind:?} with {} parts", parts.len())),
    }
}

/// Returns index and event of the leaves of a part, each of which leads to the root in its statement.
fn leaves(part: &Value, chain: &Value) -> Result<Vec<(u64, Hash)>, String> {
    let (size, expected) = (number(chain, "leaves")?, hash(text(chain, "merkleRoot")?)?);
    let read = |leaf: &Value| {
        let (index, record) = (number(leaf, "index")?, number(leaf, "record")?);
        let record = u32::try_from(record).map_err(|error| format!("`record`: {error}"))?;
        let (event, body) = (
            hash(text(leaf, "eventIdSha256")?)?,
            hash(text(leaf, "bodySha256")?)?,
        );
        let mut root = sha256(&[&[0], &event, &body, &record.to_be_bytes()]);
        ensure(index < size, "`index`: not in the tree")?;
        // As in RFC 9162, section 2.1.3.2: index and size decide on which side each hash of the path is.
        let (mut at, mut end) = (index, size - 1);
        for beside in list(leaf, "path")? {
            let beside = hash(beside.as_str().unwrap_or_default())?;
            ensure(end > 0, "`path`: too long")?;
            root = match at % 2 == 1 || at == end {
                true => sha256(&[&[1], &beside, &root]),
                false => sha256(&[&[1], &root, &beside]),
            };
            while at == end && at % 2 == 0 && at > 0 {
                (at, end) = (at / 2, end / 2);
            }
            (at, end) = (at / 2, end / 2);
        }
        ensure(
            end == 0 && root == expected,
            "a leaf does not lead to the root of its part",
        )?;
        Ok((index, event))
    };
    list(part, "leaves")?.iter().map(read).collect()
}

fn scope(link: &Value) -> String {
    let key = link.get("batchKey").map(|key| format!(", batch key {key}"));
    format!("source {}{}", link["source"], key.unwrap_or_default())
}

/// Returns a time of epoch milliseconds in UTC. Source: <https://howardhinnant.github.io/date_algorithms.html>.
fn time(ms: u64) -> String {
    let (days, ms) = (ms / 86_400_000 + 719_468, ms % 86_400_000);
    let (era, day) = (days / 146_097, days % 146_097);
    let of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * of_era + of_era / 4 - of_era / 100);
    let from_march = (5 * day + 2) / 153;
    let (day, month) = (
        day - (153 * from_march + 2) / 5 + 1,
        (from_march + 2) % 12 + 1,
    );
    let year = era * 400 + of_era + u64::from(month <= 2);
    let (h, m, s, ms) = (
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1_000 % 60,
        ms % 1_000,
    );
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
}

fn sha256(pieces: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finalize().into()
}

/// Reads 64 hexadecimal digits in lower case: one hash has one spelling.
fn hash(text: &str) -> Result<Hash, String> {
    let digits = Vec::from_iter(text.chars().map_while(|digit| digit.to_digit(16)));
    let is_hash = digits.len() == 64 && text.len() == 64 && !text.contains(char::is_uppercase);
    ensure(
        is_hash,
        &format!("got `{text}`, expected 64 hexadecimal digits in lower case"),
    )?;
    Ok(std::array::from_fn(|index| {
        (digits[2 * index] << 4 | digits[2 * index + 1]) as u8
    }))
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str, String> {
    value[key]
        .as_str()
        .ok_or_else(|| format!("`{key}`: expected a text"))
}

fn number(value: &Value, key: &str) -> Result<u64, String> {
    value[key]
        .as_u64()
        .ok_or_else(|| format!("`{key}`: expected a number"))
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v [Value], String> {
    let list = value[key].as_array().map(Vec::as_slice);
    list.ok_or_else(|| format!("`{key}`: expected a list"))
}

fn ensure(holds: bool, problem: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| problem.to_owned())
}

#[cfg(test)]
mod tests;
