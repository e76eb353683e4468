//! A short run of every target for every build: its seeds, mutations of them by the words of the dictionary, and what
//! grows from random choices. Always the same ones, so that what fails here fails again.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has nobody to tell but the test"
)]

use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;

const DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");
const MUTATIONS: usize = 4_000;
const GROWN: usize = 4_000;
const STEPS_MAX: usize = 6;

/// Names the input of a target that panics: the panic alone does not.
struct Tried<'a> {
    target: &'a str,
    input: &'a [u8],
}

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("`{}` failed on: {}", self.target, self.input.escape_ascii());
        }
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(Path::new(DIRECTORY).join("seeds").join(target)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// The dictionary's words: a quoted text a line, with `\"`, `\\` and `\xHH`.
fn words() -> Vec<Vec<u8>> {
    let text = fs::read_to_string(Path::new(DIRECTORY).join("dict.txt")).unwrap();
    let quoted = text.lines().filter_map(|line| line.strip_prefix('"'));
    let texts = quoted.map(|rest| rest.strip_suffix('"').unwrap());
    texts.map(unescaped).collect()
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut word = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        word.push(match byte {
            b'\\' => match rest.next().unwrap() {
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                escaped => escaped,
            },
            byte => byte,
        });
    }
    word
}

/// One step from a seed: a byte, a range or a word is put in, taken away, repeated or exchanged.
fn step(rng: &mut Rng, input: &mut Vec<u8>, words: &[Vec<u8>], other: &[u8]) {
    let at = rng.usize(..=input.len());
    let end = rng.usize(at..=input.len().min(at + 40));
    match rng.u8(..6) {
        0 => drop(input.splice(at..at, rng.choice(words).unwrap().iter().copied())),
        1 => drop(input.splice(at..end, rng.choice(words).unwrap().iter().copied())),
        2 => drop(input.drain(at..end)),
        3 => {
            let range = input[at..end].repeat(rng.usize(1..20));
            drop(input.splice(at..at, range));
        }
        4 => drop(input.splice(at..end, [rng.u8(..)])),
        _ => {
            let from = rng.usize(..=other.len());
            let to = rng.usize(from..=other.len());
            drop(input.splice(at..end, other[from..to].iter().copied()));
        }
    }
}

#[test]
fn every_target_keeps_its_promises() {
    let words = words();
    for (target, check) in fuzz::TARGETS {
        let check = |input: &[u8]| {
            let _tried = Tried { target, input };
            check(input);
        };
        let seeds = seeds(target);
        let mut rng = Rng::with_seed(1);
        seeds.iter().for_each(|seed| check(seed));
        for _ in 0..GROWN {
            let mut input: Vec<u8> = (0..rng.usize(1..300)).map(|_| rng.u8(..)).collect();
            input[0] = 0;
            check(&input);
        }
        for _ in 0..MUTATIONS {
            let mut input = rng.choice(&seeds).unwrap().clone();
            for _ in 0..rng.usize(1..=STEPS_MAX) {
                let other = rng.choice(&seeds).unwrap();
                step(&mut rng, &mut input, &words, other);
            }
            check(&input);
        }
    }
}

#[test]
fn the_words_of_the_dictionary_are_read_as_libfuzzer_reads_them() {
    assert_eq!(unescaped(r#"\"id\"\x0a\\u"#), b"\"id\"\n\\u");
    assert!(words().len() > 50);
}
