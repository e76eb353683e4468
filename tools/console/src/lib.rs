//! Serves pages about a running stack to a browser on the same machine.
//!
//! A [`Site`] knows the stack, and makes [`Page`]s as data; `batchctl` and `local` have one each. This crate knows HTML and HTTP:
//! who may look (`guard`), what is read and how often (`reading`), and what is being done (`jobs`). It decides nothing about a
//! stack. Everything that comes from messages is text: nothing on a page can be a link, markup or script of theirs.

#![warn(missing_docs)]

mod chart;
mod doing;
mod guard;
mod html;
mod jobs;
mod page;
mod reading;
mod server;
mod site;
mod state;
mod words;

pub use async_trait::async_trait;
pub use page::{Chart, Content, Field, FieldKind, Page, Search, Section, Table, Text, Tile, Tone};
pub use server::{Console, router};
pub use site::{Address, Course, Operator, Plan, Problem, Site, Verb};
pub use state::Options;
