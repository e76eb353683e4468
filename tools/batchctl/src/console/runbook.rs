//! The runbook, as this version has it.

use clap::ArgAction;
use console::{Address, Content, Page, Problem, Text, Tone};
use sinks::percent_encoded;

use super::verbs::is_verb;
use crate::of_stack;

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
    Ok(add(Page::new(format!("Runbook: {title}")), "", &text, &[]))
}

/// Adds the text of a section to a page. Below each block of commands are links to where the console does the same, and at the end
/// those to other sections. `known` are variables of the commands, with their values.
pub(super) fn add(mut page: Page, title: &str, text: &str, known: &[(&str, &str)]) -> Page {
    let mut title = title.to_owned();
    let mut shown = 0;
    for (block, end) in blocks(text) {
        let links = Vec::from_iter(commands(block).filter_map(|command| link(&command, known)));
        if !links.is_empty() {
            let lines = text[shown..end].trim_matches('\n').to_owned();
            page = page.with(std::mem::take(&mut title), Content::Lines(lines));
            page = page.with("", Content::Verbs(links));
            shown = end;
        }
    }
    let rest = text[shown..].trim_matches('\n');
    if !rest.is_empty() {
        page = page.with(title, Content::Lines(rest.to_owned()));
    }
    let sections = sections(text);
    match sections.is_empty() {
        true => page,
        false => page.with("", Content::Verbs(sections)),
    }
}

/// Returns the blocks of commands, each with the place in the text where it ends. Those that need AWS are left out.
fn blocks(text: &str) -> impl Iterator<Item = (&str, usize)> {
    const BEGIN: &str = "```sh\n";
    const END: &str = "\n```";
    let begins = text.match_indices(BEGIN);
    let blocks = begins.filter_map(|(at, _)| {
        let begin = at + BEGIN.len();
        let length = text[begin..].find(END)?;
        Some((&text[begin..begin + length], begin + length + END.len()))
    });
    blocks.filter(|(block, _)| !block.starts_with("# AWS only"))
}

fn commands(block: &str) -> impl Iterator<Item = String> {
    let joined = block.replace("\\\n", " ");
    let commands = joined.lines().filter(|line| line.starts_with("batchctl "));
    Vec::from_iter(commands.map(str::to_owned)).into_iter()
}

/// Returns links to the sections that a text names.
fn sections(text: &str) -> Vec<Text> {
    let mut found: Vec<Text> = Vec::new();
    for (at, _) in text.match_indices("](#") {
        let anchor = text[at + 3..].split(')').next().unwrap_or_default();
        if let Some((title, _)) = section(anchor) {
            let link = Text::link(title, path(title));
            if !found.contains(&link) {
                found.push(link);
            }
        }
    }
    found
}

/// Returns a link to where the console does what a command line says; `None` if it does not. A variable that is not known is left out.
fn link(line: &str, known: &[(&str, &str)]) -> Option<Text> {
    let mut filled = line.to_owned();
    for (name, value) in known {
        filled = filled.replace(&format!("\"${name}\""), value);
    }
    let words = shlex::split(&filled)?;
    let words = words.into_iter().filter(|word| !word.starts_with('$'));
    // What the page leaves open is missing.
    let definition = of_stack::definition().ignore_errors(true);
    let matches = definition.clone().try_get_matches_from(words).ok()?;
    let (name, options) = matches.subcommand()?;
    let command = definition.find_subcommand(name)?;
    let changes = is_verb(command);
    let path = match name {
        _ if changes => format!("/do/{name}"),
        "list" => "/batches".to_owned(),
        "show" => "/batch".to_owned(),
        "find" => "/event".to_owned(),
        "pauses" => "/overview".to_owned(),
        "dedup" => "/dedup".to_owned(),
        _ => return None,
    };
    let mut fields = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let given = options.value_source(id);
        if given != Some(clap::parser::ValueSource::CommandLine) {
            continue;
        }
        let values = options.get_raw(id).into_iter().flatten();
        let values = Vec::from_iter(values.map(|value| value.to_string_lossy()));
        let value = match argument.get_action() {
            ArgAction::SetTrue => "yes".to_owned(),
            _ => values.join(" "),
        };
        let field = match changes {
            true => id.to_owned(),
            // The fields of a page that reads.
            false if argument.get_long().is_none() => "id".to_owned(),
            false => id.replace('_', "-"),
        };
        fields.push(format!("{field}={}", percent_encoded(&value)));
    }
    let shown = line.strip_prefix("batchctl ")?.replace(" --yes", "");
    let path = format!("{path}?{}", fields.join("&"));
    Some(Text::link(shown, path).tone(Tone::Code))
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

    fn path_of(line: &str) -> Option<String> {
        link(line, &[("BATCH", "0192")])?.link
    }

    #[test]
    fn a_command_leads_to_its_form_or_to_the_page_that_shows_the_same() {
        let pause = "batchctl pause --all --for 2h --yes --why 'the sink is down'";
        let found = link(pause, &[]).unwrap();
        assert_eq!(found.words, "pause --all --for 2h --why 'the sink is down'");
        let path = found.link.unwrap();
        assert!(path.starts_with("/do/pause?"), "{path}");
        for field in ["all=yes", "length=2h"] {
            assert!(path.contains(field), "{path}");
        }
        let listed = path_of("batchctl list --status error").unwrap();
        assert_eq!(listed, "/batches?status=error");
        let shown = path_of(r#"batchctl show "$BATCH""#).unwrap();
        assert_eq!(shown, "/batch?id=0192");
        let unknown = path_of(r#"batchctl find "$EVENT_ID""#).unwrap();
        assert_eq!(unknown, "/event?");
        let conflicts = "batchctl redrive --from quarantine --where \"contains(reason, 'x')\"";
        let expected = "/do/redrive?from=quarantine&where=contains%28reason%2C%20%27x%27%29";
        assert_eq!(path_of(conflicts).unwrap(), expected);
        assert_eq!(path_of("batchctl watch"), None);
    }

    #[test]
    fn every_command_of_an_incident_has_a_link() {
        let without = ["watch", "console", "config"];
        for (block, _) in blocks(RUNBOOK) {
            for line in commands(block) {
                let name = line.split(' ').nth(1).unwrap_or_default();
                assert!(
                    without.contains(&name) || path_of(&line).is_some(),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn a_section_is_shown_whole_with_links_between() {
        let text = "a\n\n```sh\nbatchctl list\n```\n\nb, see [c](#the-sink-is-down)";
        let page = add(Page::new("x"), "t", text, &[]);
        let words = page.sections.iter().map(|section| match &section.content {
            Content::Lines(lines) => lines.clone(),
            Content::Verbs(links) => links[0].link.clone().unwrap(),
            other => panic!("{other:?}"),
        });
        let expected = [
            "a\n\n```sh\nbatchctl list\n```",
            "/batches?",
            "b, see [c](#the-sink-is-down)",
            "/runbook?section=the-sink-is-down",
        ];
        assert_eq!(Vec::from_iter(words), expected);
    }
}
