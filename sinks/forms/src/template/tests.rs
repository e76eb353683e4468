//! The texts that templates write, and the errors of invalid ones.

use std::borrow::Cow;

use protocol::period::Period;
use protocol::time::Timestamp;

use super::*;
use crate::dates::Zone;
use crate::encoding::Encoding;
use crate::part::Part;
use crate::template::Target;
use crate::tests_support::{assert_has, part};
use crate::totals::Totals;

const COLUMNS: [&str; 2] = ["amount", "account"];

fn parsed(text: &str) -> Template {
    Template::parse(text, TemplateUse::Record, &COLUMNS).unwrap()
}

fn keyed() -> Part {
    Part {
        batch_key: Some("Zoë".parse().unwrap()),
        file_number: Some(42),
        link: None,
        period: Some(Period {
            begins: Timestamp::from_ms(1_795_478_400_000),
            ends: Timestamp::from_ms(1_795_564_800_000),
        }),
        ..part(3, &[])
    }
}

/// Returns the text for a part with two records.
fn written(text: &str, encoding: Encoding) -> Result<String, String> {
    let template = parsed(text);
    let mut totals = Totals::of(template.totals());
    for fields in [["12.50", "CH-1"], ["-2", "CH-20"]] {
        totals.add(&fields.map(Cow::Borrowed)).unwrap();
    }
    let text = template.text(&Facts {
        part: &keyed(),
        zone: &Zone::default(),
        totals: &totals,
        target: Target::Record(encoding),
    });
    if let (Ok(text), Ok(length)) = (&text, template.length()) {
        assert_eq!(text.chars().count(), length);
    }
    text
}

#[test]
fn each_placeholder_has_its_value_and_its_width() {
    for (template, expected) in [
        ("H{part}{key}", "H3Zoë"),
        ("{batch}", "0190163d-8694-739b-aea5-966c26f8ad91"),
        ("{source:<5}|{source:>5}|", "q    |    q|"),
        ("{date:%Y-%m-%d %H:%M:%S}", "2026-11-25 23:30:00"),
        ("{period:%Y-%m-%d}", "2026-11-24"),
        ("T{count:05}{count:>3}{count:<3}.", "T00002  22  ."),
        ("{sum:amount}", "10.50"),
        ("{sum:amount:010}|{sum:amount:>8}", "0000010.50|   10.50"),
        ("{sum:amount:010.1}|{sum:amount:.3}", "00000010.5|10.500"),
        ("{hash:account:4}", "0021"),
        ("{sequence:06}{space:3}.", "000042   ."),
        ("{{{part}}} a}}{{", "{3} a}{"),
        ("", ""),
    ] {
        let encoding = Encoding::Utf8;
        assert_eq!(written(template, encoding).unwrap(), expected, "{template}");
    }
}

#[test]
fn zeros_stand_between_the_sign_and_the_digits() {
    let template = parsed("{sum:amount:08}");
    let mut totals = Totals::of(template.totals());
    totals.add(&["-12.5", ""].map(Cow::Borrowed)).unwrap();
    let facts = Facts {
        part: &keyed(),
        zone: &Zone::default(),
        totals: &totals,
        target: Target::Record(Encoding::Utf8),
    };
    assert_eq!(template.text(&facts).unwrap(), "-00012.5");
}

#[test]
fn a_value_that_does_not_fit_is_an_error_and_never_cut() {
    assert_eq!(
        written("{sequence:01}", Encoding::Utf8).unwrap_err(),
        "placeholder `{sequence:01}`: too long: got «42», expected at most 1 characters"
    );
    let mut keyed = keyed();
    keyed.batch_key = Some("日".parse().unwrap());
    keyed.file_number = None;
    let totals = Totals::of([].into_iter());
    let text = |template: &str, part: &Part| {
        let facts = Facts {
            part,
            zone: &Zone::default(),
            totals: &totals,
            target: Target::Record(Encoding::EbcdicCp037),
        };
        parsed(template).text(&facts).unwrap_err()
    };
    assert_eq!(
        text("{key}", &keyed),
        "placeholder `{key}`: got «日», expected characters of the encoding `ebcdic-cp037`"
    );
    assert!(text("{sequence}", &keyed).contains("a part without a number"));
    keyed.batch_key = Some("a\nb".parse().unwrap());
    assert!(text("{key}", &keyed).contains("got «a\\nb» with a control character"));
}

#[test]
fn a_wrong_template_names_the_placeholder_and_what_is_allowed() {
    let error = |template| Template::parse(template, TemplateUse::Record, &COLUMNS).unwrap_err();
    for (placeholder, words) in [
        ("{cuont}", "unknown, expected one of `{batch}`, `{part}`,"),
        ("{Count}", "unknown"),
        ("{}", "unknown"),
        ("{count:9}", "width: got `9`, expected a width such as `09`"),
        ("{count:0}", "width: got `0`"),
        ("{count:00}", "width: got `00`"),
        ("{count:010001}", "width: got `010001`"),
        ("{count:>}", "width: got `>`"),
        ("{key:09}", "width: got `09`, expected a width such as `<9`"),
        (
            "{sum:amuont}",
            "column: got `amuont`, expected one of `amount`, `account`",
        ),
        ("{sum}", "column: got ``"),
        (
            "{sum:amount:09.x}",
            "decimals: got `x`, expected a number from 0 to 9",
        ),
        (
            "{hash:account}",
            "expected how many digits the total has, from 1 to 30",
        ),
        ("{hash:account:31}", "from 1 to 30"),
        ("{date:%Q}", "date format: got `%Q`"),
        ("{date}", "date format: got ``"),
        ("{space}", "expected a number of spaces"),
    ] {
        let named = format!("placeholder `{placeholder}`: ");
        assert_has(&error(placeholder), &[&named, words]);
    }
    for (template, words) in [
        ("a{count", "a `{` without its counterpart"),
        ("a}b", "a `}` without its counterpart, expected `}}`"),
        ("{a{count}", "a `{` without its counterpart"),
        ("a\tb", "control character `\\t`"),
    ] {
        assert_has(&error(template), &[words]);
    }
    let error = Template::parse("{sum:a}", TemplateUse::Record, &[]).unwrap_err();
    assert!(error.contains("expected a format with columns"), "{error}");
    let error = Template::parse("{count}", TemplateUse::Path, &[]).unwrap_err();
    assert!(error.contains("unknown, expected one of"), "{error}");
    assert!(!error.contains("{space"), "{error}");
}

#[test]
fn the_length_is_known_if_every_placeholder_has_a_width() {
    assert_eq!(parsed("a{count:05}{batch}{date:%Y}").length(), Ok(46));
    assert_eq!(parsed("a{count}").length(), Err("{count}"));
}
