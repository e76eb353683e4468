//! Pages as data. What makes a page knows a stack; what renders it knows HTML.

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// The parts of the page, from the top.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its heading; empty for none.
    pub title: String,
    /// What it shows.
    pub content: Content,
}

/// What a section shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Numbers that are seen at a glance.
    Tiles(Vec<Tile>),
    /// Values with their names.
    Facts(Vec<(String, Text)>),
    /// Rows with the same columns.
    Table(Table),
    /// Lines over time.
    Charts(Vec<Chart>),
    /// Times in their order, each with what happened or will happen.
    Times(Vec<(String, Text)>),
    /// Sentences.
    Notes(Vec<Text>),
    /// A text with its own line breaks.
    Lines(String),
    /// Fields that lead to another view of a page.
    Search(Search),
    /// Links to verbs, with some of their fields filled in.
    Verbs(Vec<Text>),
}

/// A number with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// Its name.
    pub name: String,
    /// The number, or a word.
    pub value: Text,
    /// What is said below it.
    pub note: String,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Text>>,
    /// What is said if there are no rows.
    pub empty: String,
}

/// A line over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What the line is about.
    pub name: String,
    /// The unit of the values.
    pub unit: String,
    /// Seconds before now, and values; the oldest first.
    pub points: Vec<(f64, f64)>,
}

/// Fields of an address.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The path that it leads to.
    pub path: String,
    /// The fields, with their values now.
    pub fields: Vec<Field>,
    /// The word on the button.
    pub button: String,
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in the request.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// What may be written there.
    pub about: String,
    /// What is chosen or written.
    pub kind: FieldKind,
    /// Its value at first.
    pub value: String,
}

/// How a value is given.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// A text of one line.
    Text,
    /// One of some words; the empty one is no choice.
    Choice(Vec<String>),
    /// `yes`, or nothing.
    Check,
}

/// A text, which may be a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    /// The words, as they came: whatever they have in them is shown as text.
    pub words: String,
    /// A path of the console, which begins with `/`.
    pub link: Option<String>,
    /// How it looks.
    pub tone: Tone,
}

/// How a text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As any text.
    #[default]
    Plain,
    /// In the background.
    Quiet,
    /// As it should be.
    Good,
    /// Somebody should look.
    Warning,
    /// Somebody must act.
    Bad,
    /// In letters of one width, as ids are.
    Code,
}

impl Page {
    /// Returns a page without sections.
    pub fn new(title: impl Into<String>) -> Page {
        Page {
            title: title.into(),
            sections: Vec::new(),
        }
    }

    /// Adds a section at the end.
    #[must_use]
    pub fn with(mut self, title: impl Into<String>, content: Content) -> Page {
        self.sections.push(Section {
            title: title.into(),
            content,
        });
        self
    }
}

impl Text {
    /// Returns a text that leads to a path of the console.
    pub fn link(words: impl Into<String>, path: impl Into<String>) -> Text {
        Text {
            words: words.into(),
            link: Some(path.into()),
            tone: Tone::Plain,
        }
    }

    /// Returns the text with another look.
    #[must_use]
    pub fn tone(self, tone: Tone) -> Text {
        Text { tone, ..self }
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(words: T) -> Text {
        Text {
            words: words.into(),
            ..Text::default()
        }
    }
}

impl Field {
    /// Returns a field for a text.
    pub fn text(name: &str, label: &str, about: &str) -> Field {
        Field {
            name: name.to_owned(),
            label: label.to_owned(),
            about: about.to_owned(),
            kind: FieldKind::Text,
            value: String::new(),
        }
    }

    /// Returns a field with this kind.
    #[must_use]
    pub fn of_kind(self, kind: FieldKind) -> Field {
        Field { kind, ..self }
    }

    /// Returns a field with this value at first.
    #[must_use]
    pub fn with(self, value: impl Into<String>) -> Field {
        Field {
            value: value.into(),
            ..self
        }
    }
}
