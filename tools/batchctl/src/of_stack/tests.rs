use async_trait::async_trait;
use aws::{BatchCatalogue, Summaries};
use protocol::batch::Listing;
use protocol::ids::BatchId;
use protocol::time::Timestamp;
use serde_json::json;
use shared::memory::Fakes;
use shared::ports::{Overdue, PortError};

use super::*;
use crate::fake_service::service;
use crate::interrupt::Stop;
use crate::outcome::Kept;

fn error_of(words: &[&str]) -> Option<String> {
    let parsed = Words::try_parse_from(["batchctl"].iter().chain(words));
    parsed.err().map(|error| error.to_string())
}

#[test]
fn what_must_be_selected_is_named_with_the_word_for_all() {
    let error = error_of(&["redrive", "--from", "dead-letters"]).unwrap();
    assert!(error.contains("<--where <JMESPATH>|--all>"), "{error}");
    for verb in [&["pause", "--for", "1h"][..], &["resume"]] {
        let error = error_of(verb).unwrap();
        let scope = "<--source <ARN>|--key <KEY>|--all>";
        assert!(error.contains(scope), "{error}");
        let parsed = |more: &[&str]| error_of(&[verb, more].concat()).is_none();
        assert!(parsed(&["--source", "arn:q", "--key", "k"]) && parsed(&["--all"]));
        assert!(!parsed(&["--all", "--key", "k"]));
    }
}

#[test]
fn a_redrive_needs_a_filter_or_the_word_all() {
    let parsed = |more: &[&str]| {
        error_of(&[&["redrive", "--from", "dead-letters"], more].concat()).is_none()
    };
    assert!(!parsed(&[]));
    assert!(parsed(&["--all"]));
    assert!(parsed(&["--where", "body.a == 'b'"]));
    assert!(!parsed(&["--where", "body["]));
    assert!(!parsed(&["--all", "--where", "body"]));
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn fakes() -> Fakes {
    Fakes::at(Timestamp::from_ms(1_000_000_000))
}

/// Returns why the words are not run.
fn usage_of(line: &str) -> String {
    match command_of(&words(line)).err() {
        Some(Failure::Usage(problem)) => problem,
        other => panic!("{line}: {other:?}"),
    }
}

#[tokio::test]
async fn text_and_json_of_a_command_are_kept() {
    let (service, kept) = (service(&fakes(), &[]), Kept::default());
    let (interrupt, output) = (Interrupt::never(), Output::Kept(&kept));
    for line in ["pauses", "pauses"] {
        let done = run_words(&service, &words(line), &interrupt, output).await;
        assert_eq!(done.unwrap(), Done::Yes);
    }
    assert_eq!(kept.text(), "no pauses\nno pauses\n");
    let value = json!({"done": true, "pauses": [], "underWay": []});
    assert_eq!(kept.value(), Some(value));
    assert_eq!((kept.told(), kept.progress()), (Vec::new(), None));
}

#[tokio::test]
async fn a_wrong_option_is_told_as_on_the_command_line_without_colours() {
    let (service, kept) = (service(&fakes(), &[]), Kept::default());
    let (interrupt, output) = (Interrupt::never(), Output::Kept(&kept));
    let wrong = words("retry --colour");
    let ended = run_words(&service, &wrong, &interrupt, output).await;
    let Err(Failure::Usage(problem)) = ended else {
        panic!("{ended:?}");
    };
    assert!(problem.starts_with("unexpected argument '--colour' found"));
    assert!(problem.contains("Usage: batchctl retry"), "{problem}");
    assert!(!problem.contains('\x1b'), "{problem:?}");
    assert_eq!(kept.text(), "");
    for line in [
        "",
        "no-command",
        "list --help",
        "--version",
        "pauses --json",
    ] {
        assert!(!usage_of(line).is_empty());
    }
}

#[test]
fn what_is_only_for_the_command_line_is_no_command() {
    for line in [
        "watch",
        "config schema",
        "console",
        "pauses --stack a",
        "pauses --env-file a",
        "pauses --config a",
    ] {
        let problem = usage_of(line);
        assert!(problem.starts_with("un"), "{problem}");
    }
}

/// A catalogue that never replies.
struct Silent;

#[async_trait]
impl BatchCatalogue for Silent {
    async fn listed(&self, _: Listing, _: Option<Timestamp>) -> Result<Vec<Overdue>, PortError> {
        std::future::pending().await
    }

    async fn summaries(&self, _: &[BatchId]) -> Result<Summaries, PortError> {
        std::future::pending().await
    }

    async fn complete(&self, _: Timestamp) -> Result<Summaries, PortError> {
        std::future::pending().await
    }

    async fn of_log(&self) -> Result<Vec<BatchId>, PortError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_command_that_cannot_say_how_far_it_got_is_given_up_at_a_stop() {
    let mut service = service(&fakes(), &[]);
    service.catalogue = std::sync::Arc::new(Silent);
    let (stop, interrupt) = Interrupt::manual();
    stop.stop();
    let ended = run_words(&service, &words("list"), &interrupt, Output::Nothing).await;
    assert!(matches!(ended, Err(Failure::GivenUp)), "{ended:?}");
}

#[test]
fn what_a_command_runs_with_can_be_shared_by_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Service>();
    is_shared::<Kept>();
    is_shared::<Stop>();
    is_shared::<Interrupt>();
    is_shared::<Result<Done, Failure>>();
}
