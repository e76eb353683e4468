//! Texts and tables as HTML.

use super::model::{Cell, Column, Table};

/// Returns a text as HTML, also for the value of an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            letter => html.push(letter),
        }
    }
    html
}

/// Returns JSON as the content of a `script` element. Only a `<` could end the element, and JSON has it in texts only.
pub(super) fn json_in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Returns an element with this text.
pub(super) fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escape(text))
}

/// Returns a list of texts, or nothing if there are none.
pub(super) fn list(class: &str, texts: &[String]) -> String {
    if texts.is_empty() {
        return String::new();
    }
    let items: String = texts.iter().map(|text| element("li", text)).collect();
    format!("<ul class=\"{class}\">{items}</ul>")
}

/// Returns a table. The first cell of a row names the row. A table that is wider than the screen scrolls.
pub(super) fn table(table: &Table) -> String {
    let head: String = table.columns.iter().map(head_cell).collect();
    let rows: String = table.rows.iter().map(|row| body_row(table, row)).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption>{caption}</caption>\
         <thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>",
        caption = escape(&table.caption)
    )
}

fn head_cell(column: &Column) -> String {
    format!(
        "<th scope=\"col\"{}>{}</th>",
        class_of(column),
        escape(&column.name)
    )
}

fn body_row(table: &Table, row: &[Cell]) -> String {
    let cells = row.iter().zip(&table.columns).enumerate();
    let cells: String = cells
        .map(|(position, (cell, column))| match cell {
            Cell::Text(text) if position == 0 => {
                format!("<th scope=\"row\">{}</th>", escape(text))
            }
            Cell::Text(text) => format!("<td{}>{}</td>", class_of(column), escape(text)),
            // An attribute `style` would not be allowed by the page's policy.
            Cell::Bar(percent) => format!(
                "<td class=\"bar\"><svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect width=\"{percent:.2}\" height=\"1\"/></svg></td>"
            ),
        })
        .collect();
    format!("<tr>{cells}</tr>")
}

fn class_of(column: &Column) -> &'static str {
    if column.name.is_empty() {
        // The column of the bars.
        " class=\"bar\""
    } else if column.number {
        " class=\"number\""
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_become_elements_or_leave_an_attribute() {
        assert_eq!(
            escape(r#"<b title="x" id='y'>&"#),
            "&lt;b title=&quot;x&quot; id=&#39;y&#39;&gt;&amp;"
        );
    }

    #[test]
    fn no_text_in_json_ends_the_script_that_has_it() {
        let json = serde_json::to_string("</script><!-- <script>").unwrap();
        let inlined = json_in_script(&json);
        assert!(!inlined.contains('<'), "{inlined}");
        let text: String = serde_json::from_str(&inlined).unwrap();
        assert_eq!(text, "</script><!-- <script>");
    }

    #[test]
    fn a_table_names_its_rows_and_columns() {
        let html = table(&Table {
            caption: "Cost <now>".into(),
            columns: vec![Column::text("purpose"), Column::number("dollars")],
            rows: vec![vec![Cell::text("writes"), Cell::text("1")]],
        });
        for part in [
            "<caption>Cost &lt;now&gt;</caption>",
            "<th scope=\"col\" class=\"number\">dollars</th>",
            "<th scope=\"row\">writes</th><td class=\"number\">1</td>",
        ] {
            assert!(html.contains(part), "{html}");
        }
    }
}
