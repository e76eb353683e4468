//! Character encodings and line ends of parts: `SINK_ENCODING` and `SINK_LINE_END`.
//!
//! The tables of encodings are ours, because no kept crate has EBCDIC. They are short: each encoding here has one byte for each character.
//! Source: <https://www.unicode.org/Public/MAPPINGS/VENDORS/MICSFT/> (2026-11), `EBCDIC/CP037.TXT`, `EBCDIC/CP500.TXT` and
//! `WINDOWS/CP1252.TXT`.

use std::borrow::Cow;

/// The character encoding of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Has every character. The other encodings have one byte for each character, and some 200 characters.
    #[default]
    Utf8,
    /// Has the characters from U+0000 to U+00FF, control characters included. (Web browsers take this name for windows-1252.)
    Iso8859_1,
    /// As ISO 8859-1, but with the euro sign and other characters in place of most control characters from 0x80 to 0x9F.
    Windows1252,
    /// EBCDIC of the United States and Canada.
    EbcdicCp037,
    /// EBCDIC International.
    EbcdicCp500,
}

/// A character that an encoding cannot write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritable {
    /// The first such character of its text.
    pub character: char,
    /// The position of the character in its text, counted from 1.
    pub position: usize,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Encoding; 5] = [
        Encoding::Utf8,
        Encoding::Iso8859_1,
        Encoding::Windows1252,
        Encoding::EbcdicCp037,
        Encoding::EbcdicCp500,
    ];

    /// Returns the name in `SINK_ENCODING`.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Iso8859_1 => "iso-8859-1",
            Encoding::Windows1252 => "windows-1252",
            Encoding::EbcdicCp037 => "ebcdic-cp037",
            Encoding::EbcdicCp500 => "ebcdic-cp500",
        }
    }

    /// Returns the name that IANA registered, for `Content-Type`.
    /// Source: <https://www.iana.org/assignments/character-sets> (2026-11).
    pub(crate) const fn charset(self) -> &'static str {
        match self {
            Encoding::Utf8 | Encoding::Iso8859_1 | Encoding::Windows1252 => self.name(),
            Encoding::EbcdicCp037 => "ibm037",
            Encoding::EbcdicCp500 => "ibm500",
        }
    }

    /// Returns whether letters and digits have other bytes than in ASCII.
    pub const fn is_ebcdic(self) -> bool {
        matches!(self, Encoding::EbcdicCp037 | Encoding::EbcdicCp500)
    }

    /// Checks that every character of a text can be written.
    pub fn check(self, text: &str) -> Result<(), Unwritable> {
        if self == Encoding::Utf8 {
            return Ok(());
        }
        let found = text.chars().zip(1..).find(|(c, _)| self.byte(*c).is_none());
        match found {
            None => Ok(()),
            Some((character, position)) => Err(Unwritable {
                character,
                position,
            }),
        }
    }

    /// Returns a text, whose characters were checked, in this encoding.
    pub(crate) fn encoded(self, text: &str) -> Cow<'_, [u8]> {
        if self == Encoding::Utf8 {
            return Cow::Borrowed(text.as_bytes());
        }
        let byte = |character| self.byte(character).expect("each character was checked");
        let mut bytes = Vec::with_capacity(text.len());
        bytes.extend(text.chars().map(byte));
        Cow::Owned(bytes)
    }

    /// Returns the text of bytes in this encoding, with a line feed for the line end of EBCDIC.
    ///
    /// # Errors
    /// The position of a byte that is no character, counted from 0.
    pub(crate) fn decoded(self, bytes: &[u8]) -> Result<String, usize> {
        if self == Encoding::Utf8 {
            let text = std::str::from_utf8(bytes);
            return text.map(str::to_owned).map_err(|error| error.valid_up_to());
        }
        let mut characters = [None; 256];
        for character in ('\0'..='\u{ff}').chain(WINDOWS_1252.chars()) {
            if let Some(byte) = self.byte(character) {
                characters[usize::from(byte)] = Some(character);
            }
        }
        if self.is_ebcdic() {
            characters[usize::from(LineEnd::Nel.bytes(self)[0])] = Some('\n');
            characters[usize::from(LineEnd::Lf.bytes(self)[0])] = Some('\n');
        }
        let bytes = bytes.iter().enumerate();
        bytes
            .map(|(at, byte)| characters[usize::from(*byte)].ok_or(at))
            .collect()
    }

    /// Returns the byte of a character; `None` if this encoding cannot write it. UTF-8 has one byte for ASCII only.
    fn byte(self, character: char) -> Option<u8> {
        let latin_1 = u8::try_from(character).ok();
        match self {
            Encoding::Utf8 => latin_1.filter(u8::is_ascii),
            Encoding::Iso8859_1 => latin_1,
            Encoding::Windows1252 => match latin_1 {
                Some(byte) if !(0x80..0xa0).contains(&byte) => Some(byte),
                Some(_) => None,
                None => {
                    let index = WINDOWS_1252.chars().position(|c| c == character)?;
                    Some(0x80 + index as u8)
                }
            },
            // It is a line end in EBCDIC, and would make two records of one.
            Encoding::EbcdicCp037 | Encoding::EbcdicCp500 if character == NEXT_LINE => None,
            Encoding::EbcdicCp037 => latin_1.map(|byte| CP037[usize::from(byte)]),
            Encoding::EbcdicCp500 => latin_1.map(|byte| CP500[usize::from(byte)]),
        }
    }
}

const NEXT_LINE: char = '\u{85}';

/// The characters of the bytes from 0x80 to 0x9F, with a `?` for each byte that has none. The other bytes are as in ISO 8859-1.
const WINDOWS_1252: &str = "€?‚ƒ„…†‡ˆ‰Š‹Œ?Ž??‘’“”•–—˜™š›œ?žŸ";

/// The bytes of the characters from U+0000 to U+00FF.
#[rustfmt::skip]
const CP037: [u8; 256] = [
    0x00, 0x01, 0x02, 0x03, 0x37, 0x2d, 0x2e, 0x2f, 0x16, 0x05, 0x25, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    0x10, 0x11, 0x12, 0x13, 0x3c, 0x3d, 0x32, 0x26, 0x18, 0x19, 0x3f, 0x27, 0x1c, 0x1d, 0x1e, 0x1f,
    0x40, 0x5a, 0x7f, 0x7b, 0x5b, 0x6c, 0x50, 0x7d, 0x4d, 0x5d, 0x5c, 0x4e, 0x6b, 0x60, 0x4b, 0x61,
    0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0x7a, 0x5e, 0x4c, 0x7e, 0x6e, 0x6f,
    0x7c, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6,
    0xd7, 0xd8, 0xd9, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xba, 0xe0, 0xbb, 0xb0, 0x6d,
    0x79, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96,
    0x97, 0x98, 0x99, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xc0, 0x4f, 0xd0, 0xa1, 0x07,
    0x20, 0x21, 0x22, 0x23, 0x24, 0x15, 0x06, 0x17, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x09, 0x0a, 0x1b,
    0x30, 0x31, 0x1a, 0x33, 0x34, 0x35, 0x36, 0x08, 0x38, 0x39, 0x3a, 0x3b, 0x04, 0x14, 0x3e, 0xff,
    0x41, 0xaa, 0x4a, 0xb1, 0x9f, 0xb2, 0x6a, 0xb5, 0xbd, 0xb4, 0x9a, 0x8a, 0x5f, 0xca, 0xaf, 0xbc,
    0x90, 0x8f, 0xea, 0xfa, 0xbe, 0xa0, 0xb6, 0xb3, 0x9d, 0xda, 0x9b, 0x8b, 0xb7, 0xb8, 0xb9, 0xab,
    0x64, 0x65, 0x62, 0x66, 0x63, 0x67, 0x9e, 0x68, 0x74, 0x71, 0x72, 0x73, 0x78, 0x75, 0x76, 0x77,
    0xac, 0x69, 0xed, 0xee, 0xeb, 0xef, 0xec, 0xbf, 0x80, 0xfd, 0xfe, 0xfb, 0xfc, 0xad, 0xae, 0x59,
    0x44, 0x45, 0x42, 0x46, 0x43, 0x47, 0x9c, 0x48, 0x54, 0x51, 0x52, 0x53, 0x58, 0x55, 0x56, 0x57,
    0x8c, 0x49, 0xcd, 0xce, 0xcb, 0xcf, 0xcc, 0xe1, 0x70, 0xdd, 0xde, 0xdb, 0xdc, 0x8d, 0x8e, 0xdf,
];

/// The bytes of the same characters: seven of them, in the order of the lines `!`, `[`, `]`, `^`, `|`, `¢` and `¬`, have others.
const CP500: [u8; 256] = {
    let mut bytes = CP037;
    bytes[0x21] = 0x4f;
    bytes[0x5b] = 0x4a;
    bytes[0x5d] = 0x5a;
    bytes[0x5e] = 0x5f;
    bytes[0x7c] = 0xbb;
    bytes[0xa2] = 0xb0;
    bytes[0xac] = 0xba;
    bytes
};

/// The end of a record: `SINK_LINE_END`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// A line feed.
    #[default]
    Lf,
    /// A carriage return and a line feed.
    Crlf,
    /// The line end of EBCDIC.
    Nel,
    /// Nothing: every record has the same length.
    None,
    /// Nothing either: before each record stands its length, as in data sets with records of variable length (`RECFM=V`).
    Rdw,
}

impl LineEnd {
    /// Returns the name in `SINK_LINE_END`.
    pub const fn name(self) -> &'static str {
        match self {
            LineEnd::Lf => "lf",
            LineEnd::Crlf => "crlf",
            LineEnd::Nel => "nel",
            LineEnd::None => "none",
            LineEnd::Rdw => "rdw",
        }
    }

    /// Returns the bytes of this line end in an encoding. `nel` is a line end of EBCDIC only.
    pub(crate) const fn bytes(self, encoding: Encoding) -> &'static [u8] {
        match (self, encoding.is_ebcdic()) {
            (LineEnd::Lf, false) => b"\n",
            (LineEnd::Crlf, false) => b"\r\n",
            (LineEnd::Lf, true) => &[0x25],
            (LineEnd::Crlf, true) => &[0x0d, 0x25],
            (LineEnd::Nel, _) => &[0x15],
            (LineEnd::None | LineEnd::Rdw, _) => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SINGLE_BYTE: [Encoding; 4] = [
        Encoding::Iso8859_1,
        Encoding::Windows1252,
        Encoding::EbcdicCp037,
        Encoding::EbcdicCp500,
    ];

    fn written(encoding: Encoding, text: &str) -> Result<String, (char, usize)> {
        match encoding.check(text) {
            Ok(()) => Ok(hex::encode(encoding.encoded(text))),
            Err(wrong) => Err((wrong.character, wrong.position)),
        }
    }

    #[test]
    fn each_encoding_has_its_own_bytes() {
        let text = "Aa0 é[]!";
        let expected = [
            "41613020e95b5d21",
            "41613020e95b5d21",
            // In cp037 and cp500 the letters are the same, and some signs are not.
            "c181f04051babb5a",
            "c181f040514a5a4f",
        ];
        let texts = SINGLE_BYTE.map(|encoding| written(encoding, text).unwrap());
        assert_eq!(texts, expected);
        assert_eq!(written(Encoding::Utf8, "é€").unwrap(), "c3a9e282ac");
        assert_eq!(written(Encoding::Windows1252, "€Ÿ").unwrap(), "809f");
    }

    #[test]
    fn a_character_that_an_encoding_lacks_is_named_with_its_position() {
        for encoding in SINGLE_BYTE {
            assert_eq!(written(encoding, "aé日"), Err(('日', 3)), "{encoding:?}");
        }
        assert_eq!(written(Encoding::Iso8859_1, "€"), Err(('€', 1)));
        assert_eq!(written(Encoding::Windows1252, "\u{81}"), Err(('\u{81}', 1)));
        assert_eq!(
            written(Encoding::EbcdicCp037, "a\u{85}"),
            Err(('\u{85}', 2))
        );
    }

    #[test]
    fn no_two_characters_have_the_same_byte() {
        for (encoding, count) in SINGLE_BYTE.into_iter().zip([256, 251, 255, 255]) {
            let bytes = ('\0'..='\u{ffff}').filter_map(|c| encoding.byte(c));
            let all: Vec<u8> = bytes.collect();
            let different: BTreeSet<u8> = all.iter().copied().collect();
            assert_eq!((all.len(), different.len()), (count, count), "{encoding:?}");
        }
    }

    #[test]
    fn line_ends_of_ebcdic_have_bytes_of_their_own() {
        let ends = [LineEnd::Lf, LineEnd::Crlf, LineEnd::Nel, LineEnd::None];
        let bytes = |encoding| ends.map(|end| end.bytes(encoding));
        let ebcdic: [&[u8]; 4] = [&[0x25], &[0x0d, 0x25], &[0x15], &[]];
        assert_eq!(bytes(Encoding::EbcdicCp500), ebcdic);
        assert_eq!(bytes(Encoding::Utf8)[..2], [&b"\n"[..], b"\r\n"]);
    }
}
