//! Renders pages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart::chart;
use crate::page::{Content, Field, FieldKind, Page, Search, Section, Table, Text, Tile, Tone};
use crate::site::Verb;
use crate::words::{shown, shown_lines};

/// What stands around every page.
pub(crate) struct Frame {
    /// The name of the stack.
    pub name: String,
    /// The paths of the main pages, with their names.
    pub menu: Vec<(String, String)>,
    /// The path and fields of this page.
    pub here: String,
    /// Whether the page changes by itself.
    pub is_live: bool,
}

/// Returns a whole document.
pub(crate) fn document(frame: &Frame, title: &str, content: &Markup) -> String {
    let path = frame.here.split('?').next().unwrap_or_default();
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown(title)) " · " (shown(&frame.name)) }
                link rel="stylesheet" href="/static/style.css";
                link rel="icon" href="data:,";
                @if frame.is_live { script src="/static/live.js" defer {} }
            }
            body {
                a.skip href="#content" { "Skip to content" }
                header {
                    p.stack { bdi { (shown(&frame.name)) } }
                    nav aria-label="Pages" {
                        @for (to, name) in &frame.menu {
                            a href=(to) aria-current=[(path == to).then_some("page")] { (name) }
                        }
                        form.end method="post" action="/sign-out" { button.plain { "Sign out" } }
                    }
                }
                main #content tabindex="-1" data-live=[frame.is_live.then_some(&frame.here)] { (content) }
                @if frame.is_live {
                    // Only a change of the connection is read out, not every new time.
                    footer { span #read { "Shows what was read last." } " " span #state role="status" {} }
                }
            }
        }
    };
    document.into_string()
}

/// Returns the content of a page.
pub(crate) fn page(page: &Page) -> Markup {
    html! {
        h1 { (shown(&page.title)) }
        @for part in &page.sections { (section(part)) }
    }
}

fn section(section: &Section) -> Markup {
    html! {
        section {
            @if !section.title.is_empty() { h2 { (shown(&section.title)) } }
            (content(&section.title, &section.content))
        }
    }
}

fn content(title: &str, content: &Content) -> Markup {
    html! {
        @match content {
            Content::Tiles(tiles) => ul.tiles { @for one in tiles { (tile(one)) } },
            Content::Facts(facts) => dl.facts {
                @for (name, value) in facts { div { dt { (shown(name)) } dd { (text(value)) } } }
            },
            Content::Table(table) => (self::table(title, table)),
            Content::Charts(charts) => div.charts { @for one in charts { (chart(one)) } },
            Content::Times(times) => ol.times {
                @for (at, what) in times { li { span.at { (shown(at)) } " " (text(what)) } }
            },
            Content::Notes(notes) => @for note in notes { p { (text(note)) } },
            Content::Lines(lines) => pre tabindex="0" { (shown_lines(lines)) },
            Content::Search(one) => (search(one)),
            Content::Verbs(verbs) => p.verbs { @for verb in verbs { (text(verb)) " " } },
        }
    }
}

fn tile(tile: &Tile) -> Markup {
    html! {
        li {
            span.name { (shown(&tile.name)) }
            span.value { (text(&tile.value)) }
            span.note { (shown(&tile.note)) }
        }
    }
}

fn table(title: &str, table: &Table) -> Markup {
    let name = if title.is_empty() { "Table" } else { title };
    html! {
        @if table.rows.is_empty() {
            p.quiet { (shown(&table.empty)) }
        } @else {
            // What scrolls must be reached with the keyboard.
            div.scroll tabindex="0" role="region" aria-label=(shown(name)) {
                table {
                    thead { tr { @for column in &table.columns { th scope="col" { (shown(column)) } } } }
                    tbody {
                        @for row in &table.rows { tr { @for cell in row { td { (text(cell)) } } } }
                    }
                }
            }
        }
    }
}

fn search(search: &Search) -> Markup {
    html! {
        form.fields method="get" action=(search.path) role="search" {
            @for one in &search.fields { (field(one)) }
            button { (search.button) }
        }
    }
}

fn field(field: &Field) -> Markup {
    let (name, id) = (&field.name, format!("field-{}", field.name));
    let about = (!field.about.is_empty()).then(|| format!("{id}-about"));
    html! {
        div.field {
            @match &field.kind {
                FieldKind::Check => label {
                    input type="checkbox" id=(id) name=(name) value="yes" checked[field.value == "yes"]
                        aria-describedby=[about.as_deref()];
                    " " (field.label)
                },
                FieldKind::Choice(words) => {
                    label for=(id) { (field.label) }
                    select id=(id) name=(name) aria-describedby=[about.as_deref()] {
                        @for word in words {
                            option value=(word) selected[*word == field.value] {
                                (if word.is_empty() { "any" } else { word })
                            }
                        }
                    }
                },
                FieldKind::Text => {
                    label for=(id) { (field.label) }
                    input type="text" id=(id) name=(name) value=(unchanged(&field.value)) autocomplete="off"
                        spellcheck="false" aria-describedby=[about.as_deref()];
                },
            }
            @if let Some(about) = &about { span.about id=(about) { (field.about) } }
        }
    }
}

/// Returns a value as an attribute has it, so that a browser sends what came: ids may have any character. Control characters are
/// written as numbers; a line break would end an event that the page is sent in.
fn unchanged(value: &str) -> PreEscaped<String> {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '&' | '<' | '>' | '"' => escaped += &format!("&#{};", character as u32),
            control if control.is_ascii_control() => escaped += &format!("&#{};", control as u32),
            other => escaped.push(other),
        }
    }
    PreEscaped(escaped)
}

/// Returns the form of a verb.
pub(crate) fn verb(verb: &Verb) -> Markup {
    html! {
        h1 { (verb.title) }
        p { (verb.about) }
        form.fields.wide method="post" action=(format!("/do/{}", verb.name)) {
            @for one in &verb.fields { (field(one)) }
            button.main { @if verb.asks { "Show what it would do" } @else { (verb.title) } }
        }
    }
}

/// Returns the list of verbs.
pub(crate) fn verbs(verbs: &[Verb]) -> Markup {
    html! {
        h1 { "Do" }
        dl.verbs {
            @for one in verbs {
                div {
                    dt { a href=(format!("/do/{}", one.name)) { (one.title) } }
                    dd { (one.about) }
                }
            }
        }
    }
}

/// Returns a form that asks who does it, and why.
pub(crate) fn confirm(action: &str, by: &str) -> Markup {
    html! {
        form.fields.wide method="post" action=(action) {
            (field(&Field::text("why", "Why", "The reason, for the note in the batch record, if the command writes one")))
            (field(&Field::text("by", "Who", "Your name, for the same note").with(by)))
            button.act { "Do it" }
        }
    }
}

/// Returns a button that has a job stopped.
pub(crate) fn stop(action: &str) -> Markup {
    html! { form method="post" action=(action) { button { "Stop" } } }
}

/// Returns an error.
pub(crate) fn problem(title: &str, message: &str) -> Markup {
    html! {
        h1 { (title) }
        p.bad role="alert" { (shown(message)) }
    }
}

fn text(text: &Text) -> Markup {
    let words = shown(&text.words);
    let class = match text.tone {
        Tone::Plain => None,
        Tone::Quiet => Some("quiet"),
        Tone::Good => Some("good"),
        Tone::Warning => Some("warning"),
        Tone::Bad => Some("bad"),
        Tone::Code => Some("code"),
    };
    // Only paths of the console are links: words of a producer or a sink lead nowhere.
    let link = text.link.as_deref();
    let link = link.filter(|path| {
        path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\")
    });
    html! {
        @match link {
            Some(path) => a class=[class] href=(path) { bdi { (words) } },
            None => bdi class=[class] { (words) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_as_text() {
        let markup = "<script>alert(1)</script>\"' onload=x";
        let facts = vec![(markup.to_owned(), Text::from(markup))];
        let table = Table {
            columns: vec![markup.to_owned()],
            rows: vec![vec![Text::link(markup, "/a?b=\"><script>")]],
            empty: String::new(),
        };
        let shown = Page::new(markup)
            .with(markup, Content::Facts(facts))
            .with(markup, Content::Table(table))
            .with("", Content::Lines(markup.to_owned()));
        let html = page(&shown).into_string();
        assert!(
            !html.contains("<script>") && !html.contains("\"' onload"),
            "{html}"
        );
        assert_eq!(
            html.matches("&lt;script&gt;alert(1)&lt;/script&gt;")
                .count(),
            9,
            "{html}"
        );
    }

    #[test]
    fn a_field_has_the_value_that_came() {
        let one = Field::text("id", "Id", "").with("\"><script>&\r\n\u{202e}");
        let html = field(&one).into_string();
        let value = "value=\"&#34;&#62;&#60;script&#62;&#38;&#13;&#10;\u{202e}\"";
        assert!(html.contains(value), "{html}");
    }

    #[test]
    fn only_paths_of_the_console_are_links() {
        for to in [
            "https://example.com",
            "//example.com",
            "javascript:alert(1)",
            "data:,x",
        ] {
            let html = text(&Text::link("words", to)).into_string();
            assert_eq!(html, "<bdi>words</bdi>", "{to}");
        }
        let html = text(&Text::link("words", "/batches")).into_string();
        assert_eq!(html, "<a href=\"/batches\"><bdi>words</bdi></a>");
    }
}
