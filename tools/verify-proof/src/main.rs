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
        Ok(line) => println!("{line}"),
        Err(problem) => {
            eprintln!("does not hold: {problem}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Returns what a proof shows, in one line; an error says what does not hold.
fn verify(proof: &str, last: &str) -> Result<String, String> {
    let proof: Value = serde_json::from_str(proof).map_err(|error| format!("proof: {error}"))?;
    ensure(number(&proof, "formatVersion")? == 1, "it is of version 1")?;
    let (event, parts) = (text(&proof, "eventId")?, list(&proof, "parts")?);
    let target = sha256(&[event.as_bytes()]);
    let links = follow(&proof, parts, last)?;
    let chains = Vec::from_iter(links.iter().map(|link| &link["chain"]));
    let first = *chains
        .first()
        .ok_or("`parts` and `next`: both are missing")?;
    let (first_number, begun) = (number(first, "number")?, time(number(first, "takenAt")?));
    let until = match links.len() > parts.len() {
        true => time(number(chains[parts.len()], "takenAt")?),
        false => "the time of the chain hash".to_owned(),
    };
    let scope = scope(&links[0]);
    if text(&proof, "kind")? == "delivered" {
        let leaves = leaves(parts.first().ok_or("`parts`: empty")?, first)?;
        let is_event = matches!(leaves[..], [(_, event, _)] if event == target);
        ensure(
            is_event && parts.len() == 1,
            "the only leaf is that of the event",
        )?;
        let part = format!(
            "{}/{}",
            text(&links[0], "batchId")?,
            number(&links[0], "part")?
        );
        let what = format!("delivered in part {part} as record {}", leaves[0].2);
        return Ok(format!(
            "{event:?} {what} between {begun} and {until}, {scope}"
        ));
    }
    ensure(
        text(&proof, "kind")? == "not delivered",
        "`kind` is one of two",
    )?;
    for (part, chain) in parts.iter().zip(&chains) {
        ensure(
            is_absent(part, chain, target)?,
            "the leaves of a part show the absence",
        )?;
    }
    for (own, chain) in (first_number..).zip(&chains) {
        ensure(
            number(chain, "number")? == own,
            "the parts have numbers without a gap",
        )?;
    }
    let from = match (first_number, hash(text(&proof, "previous")?)? == [0; 32]) {
        (1, true) => "the beginning".to_owned(),
        _ => begun,
    };
    ensure(!parts.is_empty() || first_number == 1, "there is a part")?;
    let count = parts.len();
    Ok(format!(
        "{event:?} not delivered between {from} and {until}: {count} parts, {scope}"
    ))
}

/// Returns the statements of the parts, and that of the part after them, if all links lead to the chain hash.
fn follow(proof: &Value, parts: &[Value], last: &str) -> Result<Vec<Value>, String> {
    let (later, next) = (list(proof, "later")?, proof.get("next"));
    let statements = parts.iter().map(|part| text(part, "statement"));
    let (mut chain, mut links) = (hash(text(proof, "previous")?)?, Vec::<Value>::new());
    for statement in statements.chain(next.map(|_| text(proof, "next"))) {
        let statement = statement?;
        chain = sha256(&[&[2], &chain, &sha256(&[statement.as_bytes()])]);
        let link: Result<Value, _> = serde_json::from_str(&format!("{statement}}}}}"));
        links.push(link.map_err(|error| format!("statement: {error}"))?);
    }
    for one in later {
        chain = sha256(&[&[2], &chain, &hash(one.as_str().unwrap_or_default())?]);
    }
    ensure(
        chain == hash(last)?,
        "the links lead to the chain hash that was given",
    )?;
    ensure(
        next.is_some() || later.is_empty(),
        "`next` is there if links follow",
    )?;
    for pair in links.windows(2) {
        let [before, after] = [&pair[0]["chain"], &pair[1]["chain"]];
        let is_next = number(after, "after")? == number(before, "number")?;
        let goes_on = number(before, "takenAt")? <= number(after, "takenAt")?;
        ensure(is_next && goes_on, "a link is after the one before it")?;
    }
    Ok(links)
}

/// Returns whether the leaves of a part show that the event with this hash is not in its tree.
fn is_absent(part: &Value, chain: &Value, target: Hash) -> Result<bool, String> {
    let size = number(chain, "leaves")?;
    Ok(match leaves(part, chain)?[..] {
        [] => size == 0 && hash(text(chain, "merkleRoot")?)? == sha256(&[]),
        [(index, id, _)] => index == 0 && target < id || index + 1 == size && id < target,
        [(left, low, _), (right, high, _)] => left + 1 == right && low < target && target < high,
        _ => false,
    })
}

/// Returns index, event and record of the leaves of a part, each of which leads to the root in its statement.
fn leaves(part: &Value, chain: &Value) -> Result<Vec<(u64, Hash, u32)>, String> {
    let (size, expected) = (number(chain, "leaves")?, hash(text(chain, "merkleRoot")?)?);
    let read = |leaf: &Value| {
        let (index, record) = (number(leaf, "index")?, number(leaf, "record")?);
        let record = u32::try_from(record).map_err(|error| format!("`record`: {error}"))?;
        let (event, body) = (text(leaf, "eventIdSha256")?, text(leaf, "bodySha256")?);
        let (event, body) = (hash(event)?, hash(body)?);
        let mut root = sha256(&[&[0], &event, &body, &record.to_be_bytes()]);
        ensure(index < size, "`index` is in the tree")?;
        // As in RFC 9162, section 2.1.3.2: index and size decide on which side each hash of the path is.
        let (mut at, mut end) = (index, size - 1);
        for beside in list(leaf, "path")? {
            let beside = hash(beside.as_str().unwrap_or_default())?;
            ensure(end > 0, "`path` ends at the root")?;
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
            "a leaf leads to the root of its part",
        )?;
        Ok((index, event, record))
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
    let (hour, minute, secs) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{secs:02}.{:03}Z",
        ms % 1_000
    )
}

fn sha256(pieces: &[&[u8]]) -> Hash {
    Sha256::digest(pieces.concat()).into()
}

/// Reads 64 hexadecimal digits in lower case: one hash has one spelling.
fn hash(text: &str) -> Result<Hash, String> {
    let digits = Vec::from_iter(text.chars().map_while(|digit| digit.to_digit(16)));
    let is_hash = digits.len() == 64 && text.len() == 64 && !text.contains(char::is_uppercase);
    ensure(
        is_hash,
        &format!("a hash has 64 hexadecimal digits in lower case: got `{text}`"),
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

fn ensure(holds: bool, what: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| what.to_owned())
}

#[cfg(test)]
mod tests;
