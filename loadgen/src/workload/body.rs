//! Renders the body of an event from the number of the event.
//!
//! ```json
//! {"id":"1-42","n":42,"source":"s0","check":"<16 hex digits>","pad":"the harbour after …"}
//! ```
//!
//! The changed body of an event has `"revision":1` after the source, and another `pad` of the same length.
//!
//! `check` is the 64-bit FNV-1a hash of every byte before `,"check"`. With it, a body that was cut,
//! edited or mixed with another one can be recognised without the workload. `pad` consists of common
//! words, so that bodies compress about as well as ordinary text.
//!
//! Bodies must be cheap: one machine renders a million of them, runs the service, and renders them
//! again for the audit. So numbers are formatted by hand, and words are copied eight bytes at a time.

use super::sizes::Sizes;
use crate::mix::{fnv1a, mix, skewed_below};

/// The 256 words of `pad`, of at most seven letters: a word and a space fit a stride.
const WORDS: &str = "\
    the and for that with this from have not are was were been has had will would could should may \
    can must about after again against all almost along already also always among another any around \
    because become before behind being below between both bring build call carry case change city \
    clear close cold come common cost country course cover move form press speak minute young knew \
    lay less only hot new earth general near quick turn half morning more name plain told food study \
    end word two held sky mean learn front over many land start every reason look long measure often \
    east yes street gold table pull list week test wish sing did stay slow other town found own \
    plant ten warm sleep through watch order kind state king step think final piece out make night \
    field those money floor put green laugh few perhaps reach hard some never cross fast sound \
    person does give here leave map whole sea run ground usual left read follow then ever hold free \
    took toward simple vowel life since their shape where story high mark like letter force game \
    snow figure mouth road lost gone time fact four live great record idea top farm very port which \
    grow until good men when wonder than winter rule problem there size same page public full last \
    talk water song nothing home lot red happen late past play year produce matter well number place \
    part know who just old room wall tail once still ocean serve done short next light";

const PAD: u64 = 0x5041_4400_0000_0003;
const SOURCE: u64 = 0x534f_5552_4345_0004;
const SIZE: u64 = 0x5349_5a45_0000_0005;

/// The length of an entry of [`STRIDES`].
const STRIDE: usize = 8;
/// Each word, filled up with spaces, and the length of the word with one space.
static STRIDES: [([u8; STRIDE], u8); 256] = strides();

const REVISION: &[u8] = br#","revision":1"#;
const CHECK: &[u8] = br#","check":""#;
const CHECK_DIGITS: usize = 16;
const PAD_START: &[u8] = br#"","pad":""#;
const END: &[u8] = br#""}"#;

/// Which of an event's bodies is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The body of the first message.
    Original,
    /// The other body, of repeats with changed content.
    Changed,
}

/// What the bodies of one workload have in common.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    seed: u64,
    sources: u32,
    skew: u32,
    sizes: Sizes,
    source_key: u64,
    pad_key: u64,
    size_key: u64,
}

impl Frame {
    /// `sources` must not be 0; all `sizes` must be at least [`Frame::min_bytes`] before rendering.
    pub fn new(seed: u64, sources: u32, skew: u32, sizes: Sizes) -> Self {
        Self {
            seed,
            sources,
            skew,
            sizes,
            source_key: mix(seed ^ SOURCE),
            pad_key: mix(seed ^ PAD),
            size_key: mix(seed ^ SIZE),
        }
    }

    /// Returns the length of the longest body with an empty pad, for numbers up to `number_max`.
    pub fn min_bytes(&self, number_max: u64, with_changed: bool) -> usize {
        let content = match with_changed {
            true => Content::Changed,
            false => Content::Original,
        };
        let mut head = Vec::new();
        self.push_head(number_max, content, self.sources - 1, &mut head);
        head.len() + CHECK.len() + CHECK_DIGITS + PAD_START.len() + END.len()
    }

    pub fn source(&self, number: u64) -> u32 {
        let draw = mix(self.source_key.wrapping_add(number));
        match self.skew {
            0 => (draw % u64::from(self.sources)) as u32,
            skew => skewed_below(draw, u64::from(self.sources), skew) as u32,
        }
    }

    /// Returns the length of both bodies of an event.
    pub fn size(&self, number: u64) -> usize {
        self.sizes.of(self.size_key, number)
    }

    pub fn event_id(&self, number: u64) -> String {
        format!("{:x}-{number}", self.seed)
    }

    /// Reads an event id back; only the one spelling that [`Frame::event_id`] writes is accepted.
    pub fn number_of(&self, event_id: &str) -> Option<u64> {
        let (seed, number) = event_id.split_once('-')?;
        let canonical = |digits: &str| !digits.starts_with(['0', '+']) || digits == "0";
        let lower = |digit: u8| !digit.is_ascii_uppercase();
        (canonical(seed)
            && canonical(number)
            && seed.bytes().all(lower)
            && u64::from_str_radix(seed, 16) == Ok(self.seed))
        .then(|| number.parse().ok())?
    }

    /// Finds an id of this seed at the end of a text; an event id with a prefix ends in such an id.
    pub fn id_ending<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (rest, _) = text.rsplit_once('-')?;
        let seed_digits = (u64::BITS - self.seed.leading_zeros()).div_ceil(4).max(1) as usize;
        let id = text.get(rest.len().checked_sub(seed_digits)?..)?;
        self.number_of(id).map(|_| id)
    }

    /// Replaces the contents of `out` with one of the bodies of an event.
    pub fn render(&self, number: u64, content: Content, out: &mut Vec<u8>) {
        let size = self.size(number);
        out.clear();
        out.reserve(size + STRIDE);
        self.push_head(number, content, self.source(number), out);
        let check = fnv1a(out);
        out.extend_from_slice(CHECK);
        push_hex_padded(check, out);
        out.extend_from_slice(PAD_START);
        let state = mix(self.pad_key.wrapping_add(number));
        let state = match content {
            Content::Original => state,
            Content::Changed => !state,
        };
        push_pad(state, size - END.len(), out);
        out.extend_from_slice(END);
        debug_assert_eq!(out.len(), size);
    }

    /// Appends the fields up to `check`, which covers them.
    fn push_head(&self, number: u64, content: Content, source: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"id":""#);
        push_digits(self.seed, 16, out);
        out.push(b'-');
        push_digits(number, 10, out);
        out.extend_from_slice(br#"","n":"#);
        push_digits(number, 10, out);
        out.extend_from_slice(br#","source":"s"#);
        push_digits(u64::from(source), 10, out);
        out.push(b'"');
        if content == Content::Changed {
            out.extend_from_slice(REVISION);
        }
    }
}

/// Appends words up to the length `end`. The last word is cut to fit.
fn push_pad(mut state: u64, end: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(end + STRIDE, 0);
    let mut at = start;
    while at < end {
        state = mix(state);
        for byte in state.to_le_bytes() {
            let (stride, length) = &STRIDES[usize::from(byte)];
            out[at..at + STRIDE].copy_from_slice(stride);
            at += usize::from(*length);
            if at >= end {
                break;
            }
        }
    }
    out.truncate(end);
    if end > start {
        out[end - 1] = b'.';
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn push_digits(mut value: u64, radix: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = DIGITS[(value % radix) as usize];
        value /= radix;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn push_hex_padded(value: u64, out: &mut Vec<u8>) {
    out.extend(
        (0..CHECK_DIGITS)
            .rev()
            .map(|digit| DIGITS[(value >> (4 * digit) & 15) as usize]),
    );
}

/// Makes [`STRIDES`] from [`WORDS`].
const fn strides() -> [([u8; STRIDE], u8); 256] {
    let text = WORDS.as_bytes();
    let mut strides = [([b' '; STRIDE], 0); 256];
    let (mut word, mut at) = (0, 0);
    while at < text.len() {
        if text[at] == b' ' {
            word += 1;
        } else {
            let length = strides[word].1 as usize;
            assert!(length + 1 < STRIDE, "a word is too long");
            strides[word].0[length] = text[at];
            strides[word].1 += 1;
        }
        at += 1;
    }
    assert!(word == 255, "there must be 256 words");
    let mut word = 0;
    while word < 256 {
        strides[word].1 += 1;
        word += 1;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seed: u64, sources: u32, size: usize) -> Frame {
        Frame::new(seed, sources, 0, Sizes::Fixed(size))
    }

    #[test]
    fn a_body_has_the_documented_fields() {
        let mut out = Vec::new();
        frame(0x1f, 1, 160).render(42, Content::Original, &mut out);
        let text = String::from_utf8(out).unwrap();
        let head = r#"{"id":"1f-42","n":42,"source":"s0","check":""#;
        assert!(text.starts_with(head), "{text}");
        assert!(text.ends_with(r#"."}"#), "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pad = json["pad"].as_str().unwrap();
        let is_text = |byte: u8| byte.is_ascii_lowercase() || b" .".contains(&byte);
        assert!(pad.bytes().all(is_text), "{pad}");
    }

    #[test]
    fn the_check_is_fnv1a_of_the_bytes_before_it() {
        // The published test vector.
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        let mut out = Vec::new();
        frame(3, 5, 200).render(9, Content::Original, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, tail) = text.split_once(r#","check":""#).unwrap();
        assert_eq!(&tail[..16], format!("{:016x}", fnv1a(head.as_bytes())));
    }

    #[test]
    fn filler_differs_between_events_and_between_seeds() {
        let pad = |seed, number| {
            let mut out = Vec::new();
            frame(seed, 1, 300).render(number, Content::Original, &mut out);
            out.split_off(100)
        };
        assert_ne!(pad(1, 0), pad(1, 1));
        assert_ne!(pad(1, 0), pad(2, 0));
    }

    #[test]
    fn an_id_is_found_after_any_prefix() {
        let frame = frame(0x1f, 1, 300);
        assert_eq!(frame.id_ending("tenant-7:1f-42"), Some("1f-42"));
        assert_eq!(frame.id_ending("1f-42"), Some("1f-42"));
        let uuid = "0190b6f0-0000-7000-8000-00000000001f";
        for other in ["2f-42", "f-42", "1f-", "é-42", "", uuid] {
            assert_eq!(frame.id_ending(other), None, "{other}");
        }
    }

    #[test]
    fn a_changed_body_has_the_same_id_and_length_and_another_content() {
        let render = |content| {
            let mut out = Vec::new();
            frame(0x1f, 3, 200).render(42, content, &mut out);
            String::from_utf8(out).unwrap()
        };
        let (original, changed) = (render(Content::Original), render(Content::Changed));
        let (head, tail) = changed.split_once(r#","revision":1"#).unwrap();
        assert!(original.starts_with(head), "{original} {changed}");
        assert!(tail.starts_with(r#","check":""#), "{tail}");
        assert_eq!(original.len(), changed.len());
        assert_ne!(original[100..], changed[100..]);
    }

    #[test]
    fn a_skew_makes_the_first_sources_frequent() {
        let frame = Frame::new(1, 100, 3, Sizes::Fixed(300));
        let first = (0..1_000).filter(|number| frame.source(*number) == 0);
        let first = first.count();
        assert!((280..360).contains(&first), "{first} of 1000 events");
    }

    #[test]
    fn all_sources_are_used() {
        let frame = frame(1, 7, 300);
        let used: std::collections::BTreeSet<_> = (0..200).map(|n| frame.source(n)).collect();
        assert_eq!(used.len(), 7);
    }
}
