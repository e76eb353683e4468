//! Variables for the layout of a part: its encoding, its line ends, its header and trailer, and its path.

use shared::config::{Declared, Description, Reader, Text, Unset, Variable, Word};

use forms::Format;
use forms::Layout;
use forms::PathTemplate;
use forms::Zone;
use forms::{Encoding, LineEnd};
use forms::{Template, TemplateUse};

pub(super) const SINK_ENCODING: Variable<Word<Encoding>> = Variable {
    name: "SINK_ENCODING",
    key: Some("sink.layout.encoding"),
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
    key: Some("sink.layout.line_end"),
    value: Word {
        default: LineEnd::Lf,
        words: &[
            (LineEnd::Lf.name(), LineEnd::Lf),
            (LineEnd::Crlf.name(), LineEnd::Crlf),
            (LineEnd::Nel.name(), LineEnd::Nel),
            (LineEnd::None.name(), LineEnd::None),
            (LineEnd::Rdw.name(), LineEnd::Rdw),
        ],
    },
    meaning: "What ends a record of `body`, `csv` and `fixed-width`. `nel` is the line end of EBCDIC, 0x15; `rdw` is nothing, but the length \
              of a record in the four bytes before it.",
};
/// The allowed form of a record's template.
const RECORD: &str = "one record with placeholders such as `{count}`: docs/forms.md, \"Layouts\"";
const SINK_HEADER_RECORD: Variable<Text> = Variable {
    name: "SINK_HEADER_RECORD",
    key: Some("sink.layout.header"),
    value: Text {
        unset: Unset::Nothing,
        allowed: RECORD,
    },
    meaning: "A record before all others.",
};
const SINK_TRAILER_RECORD: Variable<Text> = Variable {
    name: "SINK_TRAILER_RECORD",
    key: Some("sink.layout.trailer"),
    value: Text {
        unset: Unset::Nothing,
        allowed: RECORD,
    },
    meaning: "A record after all others.",
};
pub(crate) const SINK_PATH: Variable<Text> = Variable {
    name: "SINK_PATH",
    key: Some("sink.layout.path"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "a path with placeholders such as `{key}/{date:%Y%m%d}/{sequence:06}.txt`: docs/forms.md, \"Layouts\"",
    },
    meaning: "With `file:`, `s3:` and `sftp:`, the path of a part's records below the directory or prefix, instead of \
              `<batchId>/<part>.<ext>`.",
};
const SINK_TIME_ZONE: Variable<Text> = Variable {
    name: "SINK_TIME_ZONE",
    key: Some("sink.layout.time_zone"),
    value: Text {
        unset: Unset::Default("UTC"),
        allowed: "`UTC` or the name of a time zone, such as `Europe/Zurich`",
    },
    meaning: "The time zone of dates in templates.",
};

/// Reads the layout of a part.
pub(super) fn layout(reader: &mut Reader<'_>, format: &Format) -> Layout {
    let encoding = reader.word(&SINK_ENCODING);
    let line_end = reader.word(&SINK_LINE_END);
    let columns = format.column_names();
    let record = |text: &str| Template::parse(text, TemplateUse::Record, &columns);
    let header = reader.text_with(&SINK_HEADER_RECORD, record);
    let trailer = reader.text_with(&SINK_TRAILER_RECORD, record);
    let path = reader.text_with(&SINK_PATH, str::parse::<PathTemplate>);
    let zone = reader.text_with(&SINK_TIME_ZONE, str::parse::<Zone>);
    let layout = Layout {
        encoding,
        line_end,
        header,
        trailer,
        path,
        zone: zone.unwrap_or_default(),
    };
    check_format(reader, format, &layout);
    check_line_end(reader, format, &layout);
    check_bytes(reader, format, &layout);
    check_characters(reader, format, &layout);
    layout
}

/// Checks that the format has a layout.
fn check_format(reader: &mut Reader<'_>, format: &Format, layout: &Layout) {
    let is_set = [
        (layout.encoding != Encoding::Utf8).then_some(SINK_ENCODING.name),
        (layout.line_end != LineEnd::Lf).then_some(SINK_LINE_END.name),
        layout.header.as_ref().map(|_| SINK_HEADER_RECORD.name),
        layout.trailer.as_ref().map(|_| SINK_TRAILER_RECORD.name),
    ];
    let set = is_set.into_iter().flatten().next();
    reader.rule(
        "With `SINK_FORMAT` `envelope` and `parquet`, `SINK_ENCODING` is `utf-8`, `SINK_LINE_END` is `lf`, and `SINK_HEADER_RECORD` and \
         `SINK_TRAILER_RECORD` are not set.",
        set.filter(|_| matches!(format, Format::Envelope | Format::Parquet(_))).map(|set| {
            format!(
                "`{set}`: set with `SINK_FORMAT` `{}`, expected it with `body`, `csv` or `fixed-width`",
                format.name()
            )
        }),
    );
}

/// Checks that the line end goes with the encoding, and that all records have one length if nothing separates them.
fn check_line_end(reader: &mut Reader<'_>, format: &Format, layout: &Layout) {
    let Layout {
        encoding, line_end, ..
    } = *layout;
    reader.rule(
        "`SINK_LINE_END` is `nel` only with an EBCDIC encoding.",
        (line_end == LineEnd::Nel && !encoding.is_ebcdic()).then(|| {
            format!(
                "`{SINK_LINE_END}`: wrong line end: got `nel` with `{SINK_ENCODING}` `{}`, expected `lf` or `crlf`, or an EBCDIC encoding",
                encoding.name()
            )
        }),
    );
    let none = line_end == LineEnd::None;
    let record_length = match format {
        Format::FixedWidth(columns) => {
            Some(columns.iter().map(|column| column.width).sum::<usize>())
        }
        Format::Envelope | Format::Body | Format::Csv { .. } | Format::Parquet(_) => None,
    };
    let has_one_length = record_length.is_some() && encoding != Encoding::Utf8;
    reader.rule(
        "`SINK_LINE_END` is `none` only with `SINK_FORMAT` `fixed-width` and another encoding than `utf-8`, whose records all have \
         the same number of bytes.",
        (none && !has_one_length).then(|| {
            format!(
                "`{SINK_LINE_END}`: wrong line end: got `none` with `SINK_FORMAT` `{}` and `{SINK_ENCODING}` `{}`, expected \
                 `fixed-width` and an encoding with one byte for each character",
                format.name(),
                encoding.name()
            )
        }),
    );
    let wrong = record_length.filter(|_| none).and_then(|expected| {
        let records = [
            (SINK_HEADER_RECORD.name, &layout.header),
            (SINK_TRAILER_RECORD.name, &layout.trailer),
        ];
        records.into_iter().find_map(|(name, template)| {
            let problem = match template.as_ref()?.length() {
                Ok(length) if length == expected => return None,
                Ok(length) => format!("got `{length}` characters"),
                Err(placeholder) => format!("got the placeholder `{placeholder}` without a width"),
            };
            Some(format!(
                "`{name}`: {problem} with `{SINK_LINE_END}` `none`, expected the `{expected}` characters of each record"
            ))
        })
    });
    reader.rule(
        "With `SINK_LINE_END` `none`, `SINK_HEADER_RECORD` and `SINK_TRAILER_RECORD` have as many characters as the columns \
         together.",
        wrong,
    );
}

/// Checks that bytes of a column cannot be taken for a line end, and that a width is a number of bytes.
fn check_bytes(reader: &mut Reader<'_>, format: &Format, layout: &Layout) {
    let has_bytes = match format {
        Format::FixedWidth(columns) => {
            let mut columns = columns.iter();
            columns.find(|column| column.column.is_binary())
        }
        _ => None,
    };
    let is_safe = matches!(layout.line_end, LineEnd::None | LineEnd::Rdw)
        && layout.encoding != Encoding::Utf8;
    reader.rule(
        "With columns of the types `packed-decimal` and `binary`, `SINK_LINE_END` is `none` or `rdw`, and `SINK_ENCODING` is not `utf-8`.",
        has_bytes.filter(|_| !is_safe).map(|column| {
            format!(
                "`{SINK_LINE_END}`, `{SINK_ENCODING}`: got `{}` and `{}` with bytes in the column `{}`, expected `none` or `rdw`, and an \
                 encoding with one byte for each character",
                layout.line_end.name(),
                layout.encoding.name(),
                column.column.name
            )
        }),
    );
}

/// Checks that the characters that the layout and the format write themselves are in the encoding.
fn check_characters(reader: &mut Reader<'_>, format: &Format, layout: &Layout) {
    let columns = match format {
        Format::Csv {
            columns,
            header: true,
        } => columns
            .iter()
            .map(|column| format!("{}{}", column.name, column.literals()))
            .collect(),
        Format::FixedWidth(columns) => columns
            .iter()
            .map(|column| format!("{}{}", column.pad, column.column.literals()))
            .collect(),
        Format::Csv { columns, .. } => columns.iter().map(|column| column.literals()).collect(),
        Format::Envelope | Format::Body | Format::Parquet(_) => String::new(),
    };
    let literals = |template: &Option<Template>| {
        template
            .as_ref()
            .map_or_else(String::new, Template::literals)
    };
    let texts = [
        ("SINK_COLUMNS", columns),
        (SINK_HEADER_RECORD.name, literals(&layout.header)),
        (SINK_TRAILER_RECORD.name, literals(&layout.trailer)),
    ];
    let wrong = texts.into_iter().find_map(|(name, text)| {
        let wrong = layout.encoding.check(&text).err()?;
        Some(format!(
            "`{name}`: got the character `{}` (U+{:04X}), expected characters of `{SINK_ENCODING}` `{}`",
            wrong.character,
            u32::from(wrong.character),
            layout.encoding.name()
        ))
    });
    reader.rule(
        "The names in the first line of `csv`, each `pad` of `fixed-width`, what a `format` of a column writes itself, `SINK_HEADER_RECORD` and `SINK_TRAILER_RECORD` have only \
         characters of `SINK_ENCODING`.",
        wrong,
    );
}

/// Returns the variables of the layout that are set, with their values, for the fingerprint.
pub(super) fn settings(reader: &Reader<'_>) -> Vec<(&'static str, String)> {
    let values: [(&dyn Declared, Option<String>); 6] = [
        (&SINK_ENCODING, reader.value(&SINK_ENCODING)),
        (&SINK_LINE_END, reader.value(&SINK_LINE_END)),
        (&SINK_HEADER_RECORD, reader.value(&SINK_HEADER_RECORD)),
        (&SINK_TRAILER_RECORD, reader.value(&SINK_TRAILER_RECORD)),
        (&SINK_PATH, reader.value(&SINK_PATH)),
        (&SINK_TIME_ZONE, reader.value(&SINK_TIME_ZONE)),
    ];
    let set = values.into_iter().filter_map(|(variable, value)| {
        let Description { name, default, .. } = variable.description();
        (value != default).then_some((name, value?))
    });
    set.collect()
}
