//! Tests of the report: what its text says, and what a browser draws of it.

mod browser;
mod drawn;
mod records;
mod text;
