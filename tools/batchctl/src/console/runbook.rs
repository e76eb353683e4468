//! The runbook, as this version has it.

use console::{Address, Content, Page, Problem};

const RUNBOOK: &str = include_str!("../../../../docs/runbook.md");

/// Returns the path of a section.
pub(super) fn path(heading: &str) -> String {
    format!("/runbook?section={}", anchor(heading))
}

/// Returns a heading as an address has it.
fn anchor(heading: &str) -> String {
    let letters = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '-' => Some(letter.to_ascii_lowercase()),
        _ => None,
    });
    letters.collect()
}

/// Returns the title and the text of a section, without those below it of the same level or a higher one.
pub(super) fn section(wanted: &str) -> Option<(&'static str, String)> {
    let mut lines = RUNBOOK.lines();
    let (level, title) = lines.by_ref().find_map(|line| {
        let (level, title) = heading(line)?;
        (anchor(title) == wanted).then_some((level, title))
    })?;
    let mut is_code = false;
    let text = lines.take_while(|line| {
        // A comment of a shell begins as a heading does.
        is_code ^= line.starts_with("```");
        is_code || heading(line).is_none_or(|(other, _)| other > level)
    });
    Some((title, Vec::from_iter(text).join("\n").trim().to_owned()))
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    (level > 0).then_some((level, title.strip_prefix(' ')?))
}

/// Returns the page of a section.
pub(super) fn page(address: &Address) -> Result<Page, Problem> {
    let wanted = address.field("section").unwrap_or("runbook");
    let missing = || Problem::NotFound(format!("`{wanted}`: the runbook has no such section"));
    let (title, text) = section(wanted).ok_or_else(missing)?;
    Ok(Page::new(format!("Runbook: {title}")).with("", Content::Lines(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_where_the_next_of_its_level_begins() {
        let (title, text) = section("batchesinerror").unwrap();
        assert_eq!(title, "BatchesInError");
        assert!(text.contains("### A lost load"), "{text}");
        assert!(!text.contains("## RecordsRejected"), "{text}");
        let (title, text) = section("a-lost-load").unwrap();
        assert_eq!(title, "A lost load");
        assert!(!text.contains("The manifest of the log is lost"), "{text}");
        assert!(
            section("before-an-incident")
                .unwrap()
                .1
                .contains("set_parameters()")
        );
        assert_eq!(section("nothing"), None);
    }
}
