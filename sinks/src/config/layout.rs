//! Variables for the layout of a part: its encoding and its line ends.

use shared::config::{Reader, Topic, Variable, Word};

use crate::config::{SINK_COLUMNS, SINK_FORMAT};
use crate::encoding::{Encoding, LineEnd};
use crate::format::Format;
use crate::layout::Layout;

pub(super) const SINK_ENCODING: Variable<Word<Encoding>> = Variable {
    name: "SINK_ENCODING",
    topic: Topic::Layout,
    value: Word {
        default: Encoding::Utf8,
        words: &[
            (Encoding::Utf8.name(), Encoding::Utf8),
            (Encoding::Iso8859_1.name(), Encoding::Iso8859_1),
            (Encoding::Windows1252.name(), Encoding::Windows1252),
            (Encoding::EbcdicCp037.name(), Encoding::EbcdicCp037),
            (Encoding::EbcdicCp500.name(), Encoding::EbcdicCp500),
        ],
    },
    meaning: "The character encoding of `body`, `csv` and `fixed-width`. A record with a character that the encoding lacks is rejected.",
};
const SINK_LINE_END: Variable<Word<LineEnd>> = Variable {
    name: "SINK_LINE_END",
    topic: Topic::Layout,
    value: Word {
        default: LineEnd::Lf,
        words: &[
            (LineEnd::Lf.name(), LineEnd::Lf),
            (LineEnd::Crlf.name(), LineEnd::Crlf),
            (LineEnd::Nel.name(), LineEnd::Nel),
            (LineEnd::None.name(), LineEnd::None),
        ],
    },
    meaning: "What ends a record of `body`, `csv` and `fixed-width`. `nel` is the line end of EBCDIC, 0x15.",
};

/// Reads the layout of a part.
pub(super) fn layout(reader: &mut Reader<'_>, format: &Format) -> Layout {
    let encoding = reader.word(&SINK_ENCODING);
    let line_end = reader.word(&SINK_LINE_END);
    check_format(reader, format, encoding, line_end);
    reader.rule(
        "`SINK_LINE_END` is `nel` only with an EBCDIC encoding.",
        (line_end == LineEnd::Nel && !encoding.is_ebcdic()).then(|| {
            format!(
                "`{SINK_LINE_END}`: wrong line end: got `nel` with `{SINK_ENCODING}` `{}`, expected `lf` or `crlf`, or an EBCDIC encoding",
                encoding.name()
            )
        }),
    );
    let fixed_width = matches!(format, Format::FixedWidth(_));
    reader.rule(
        "`SINK_LINE_END` is `none` only with `SINK_FORMAT` `fixed-width` and another encoding than `utf-8`, whose records all have \
         the same number of bytes.",
        (line_end == LineEnd::None && (!fixed_width || encoding == Encoding::Utf8)).then(|| {
            format!(
                "`{SINK_LINE_END}`: wrong line end: got `none` with `{SINK_FORMAT}` `{}` and `{SINK_ENCODING}` `{}`, expected \
                 `fixed-width` and an encoding with one byte for each character",
                format.name(),
                encoding.name()
            )
        }),
    );
    Layout { encoding, line_end }
}

/// Checks that the format has a layout, and that its own characters are in the encoding.
fn check_format(reader: &mut Reader<'_>, format: &Format, encoding: Encoding, line_end: LineEnd) {
    let is_default = encoding == Encoding::Utf8 && line_end == LineEnd::Lf;
    reader.rule(
        "With `SINK_FORMAT` `envelope`, `SINK_ENCODING` is `utf-8` and `SINK_LINE_END` is `lf`.",
        (*format == Format::Envelope && !is_default).then(|| {
            format!(
                "`{SINK_FORMAT}`: wrong format: got `envelope` with `{SINK_ENCODING}` `{}` and `{SINK_LINE_END}` `{}`, expected \
                 `body`, `csv` or `fixed-width`",
                encoding.name(),
                line_end.name()
            )
        }),
    );
    let texts: Vec<(&str, String)> = match format {
        Format::Csv {
            columns,
            header: true,
        } => columns
            .iter()
            .map(|column| ("the name", column.name.clone()))
            .collect(),
        Format::FixedWidth(columns) => columns
            .iter()
            .map(|column| ("a `pad`", column.pad.to_string()))
            .collect(),
        Format::Envelope | Format::Body | Format::Csv { .. } => Vec::new(),
    };
    let wrong = texts.into_iter().find_map(|(what, text)| {
        let wrong = encoding.check(&text).err()?;
        let code = u32::from(wrong.character);
        Some(format!(
            "`{SINK_COLUMNS}`: {what} of a column: got `{text}`, whose character U+{code:04X} is not in `{SINK_ENCODING}` `{}`",
            encoding.name()
        ))
    });
    reader.rule(
        "What `SINK_COLUMNS` writes itself, the names in the first line of `csv` and each `pad` of `fixed-width`, is in `SINK_ENCODING`.",
        wrong,
    );
}
