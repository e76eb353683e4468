//! Puts a report into one file: text, data, style and script.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::html::{element, escape, json_in_script, list, table};
use super::model::{Chart, Report, RunHead, Section, Tone, Unit};

const PAGE: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
const UPLOT_STYLE: &str = include_str!("assets/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("assets/uPlot.iife.min.js");
/// Goes with every copy of uPlot, as it demands.
const UPLOT_LICENCE: &str = include_str!("assets/uPlot-LICENSE.txt");

/// Returns the file.
pub(super) fn html(report: &Report) -> String {
    let charts = report.sections.iter().flat_map(|each| &each.charts);
    let charts: Vec<&Chart> = charts.collect();
    let data = serde_json::json!({ "charts": charts, "shared": report.data });
    let policy = policy([UPLOT_SCRIPT, SCRIPT], [UPLOT_STYLE, STYLE]);
    let runs: String = report.runs.iter().map(run_head).collect();
    fill(
        PAGE,
        &[
            ("policy", &policy),
            ("title", &escape(&report.title)),
            ("heading", &escape(&report.title)),
            ("uplot style", UPLOT_STYLE),
            ("style", STYLE),
            ("runs", &runs),
            ("sections", &sections(&report.sections)),
            ("data", &json_in_script(&data.to_string())),
            ("uplot licence", UPLOT_LICENCE),
            ("uplot script", UPLOT_SCRIPT),
            ("script", SCRIPT),
        ],
    )
}

/// Replaces each `{{name}}` of a template. What is put in is not read again.
///
/// # Panics
/// The template has a name without a value.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut pieces = template.split("{{");
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, text) = piece.split_once("}}").expect("`{{` is followed by `}}`");
        let value = values.iter().find(|(each, _)| *each == name);
        filled.push_str(value.expect("every name in the template has a value").1);
        filled.push_str(text);
    }
    filled
}

/// Returns a policy that allows these scripts and styles by their hashes, and nothing else: no request, no form, no frame.
///
/// Source: <https://www.w3.org/TR/CSP3/#framework-directive-source-list> (2026-11).
fn policy(scripts: [&str; 2], styles: [&str; 2]) -> String {
    let hashes = |texts: [&str; 2]| {
        let hash = |text| STANDARD.encode(Sha256::digest(text));
        texts
            .map(|text| format!("'sha256-{}'", hash(text)))
            .join(" ")
    };
    format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        hashes(scripts),
        hashes(styles)
    )
}

fn run_head(run: &RunHead) -> String {
    let tone = match run.verdict.tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Neutral => "neutral",
    };
    let heading = run.label.map(|label| {
        let text = format!("{label}: {}", run.title);
        element("h2", &text)
    });
    let notes = match run.notes.is_empty() {
        true => String::new(),
        false => format!("<h3>Notes</h3>{}", list("notes", &run.notes)),
    };
    format!(
        "<section class=\"run\">{}<div class=\"verdict {tone}\"><p><strong>{}</strong> {}</p><p>{}</p></div><p class=\"origin\">{}</p>\
         {notes}</section>",
        heading.unwrap_or_default(),
        escape(run.verdict.word),
        escape(&run.verdict.reason),
        escape(&run.verdict.counts),
        escape(&run.origin)
    )
}

/// Returns the sections. The charts are numbered in the order in which the data have them.
fn sections(sections: &[Section]) -> String {
    let mut chart = 0;
    let mut html = String::new();
    for section in sections {
        let wide = if section.wide { " class=\"wide\"" } else { "" };
        html.push_str(&format!(
            "<section id=\"{}\"{wide}>{}",
            section.id,
            element("h2", section.heading)
        ));
        for sentence in &section.sentences {
            html.push_str(&element("p", sentence));
        }
        for each in &section.charts {
            html.push_str(&figure(each, chart));
            chart += 1;
        }
        for each in &section.tables {
            html.push_str(&table(each));
        }
        html.push_str("</section>");
    }
    html
}

/// Returns the place of a chart, and that of the table with its numbers. The script fills both.
fn figure(chart: &Chart, number: usize) -> String {
    let (name, run, unit) = match chart {
        Chart::Lines(lines) => (&lines.name, None, lines.unit.text()),
        Chart::Percentiles(percentiles) => (&percentiles.name, None, Unit::Secs.text()),
        Chart::TimeLine(batches) => (&batches.name, batches.label, "one line a batch"),
        Chart::Sizes(batches) => (&batches.name, batches.label, "events"),
    };
    let run = run.map(|label| element("b", &format!("Run {label}")));
    let numbers = match chart {
        // Its section has a table of them, which is always open.
        Chart::Percentiles(_) => String::new(),
        _ => format!(
            "<details data-chart=\"{number}\"><summary>Numbers of this chart</summary></details>"
        ),
    };
    format!(
        "<figure><figcaption>{}{unit}</figcaption><div class=\"chart\" data-chart=\"{number}\" role=\"img\" \
         aria-label=\"Chart: {}. Its numbers are in the table below.\"></div>{numbers}</figure>",
        run.unwrap_or_default(),
        escape(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_a_template_is_not_read_again() {
        let filled = fill("<{{a}}|{{b}}>", &[("a", "{{b}}"), ("b", "2")]);
        assert_eq!(filled, "<{{b}}|2>");
    }

    #[test]
    fn the_policy_allows_nothing_but_its_own_scripts_and_styles() {
        let policy = policy(["", "b"], ["c", "d"]);
        // The SHA-256 of an empty text: FIPS 180-4, by any implementation.
        let empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        assert!(
            policy.contains(&format!("script-src {empty} 'sha256-")),
            "{policy}"
        );
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn no_asset_could_end_the_element_that_has_it() {
        for asset in [SCRIPT, UPLOT_SCRIPT] {
            assert!(!asset.contains("</script") && !asset.contains("<!--"));
        }
        for asset in [STYLE, UPLOT_STYLE] {
            assert!(!asset.contains("</style"));
        }
    }
}
