//! Functions that cannot start: every command of `local` prints the reason and ends.

use crate::command_line::{EXIT_NOTHING_TO_SAY, local, refused};

/// A bootstrap that prints a reason to standard error and exits with 3. The number in the reason differs by process.
const NO_SUCH_LUCK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/e2e/bootstraps/no_such_luck.sh"
);
const LAST_WORDS: &str =
    "its cold start failed twice in the same way: exit status: 3: no such luck at port";

#[tokio::test]
async fn wrong_variables_of_either_function_end_the_command_before_anything_starts() {
    let wrong = [
        "--env=MAX_BATCH_SIZE=abc",
        "--env=VERIFY_DELAY=soon",
        "--env=DEDUP_WINDOW=-1",
        // With another executable too, because it reads the same variables.
        "--batch-processor",
        NO_SUCH_LUCK,
    ];
    for command in ["burst", "serve"] {
        let arguments = [&[command], &wrong[..]].concat();
        let err = refused(&arguments).await;
        let named = [
            "aggregator: `MAX_BATCH_SIZE`: wrong value: got `abc`, expected",
            "aggregator: `DEDUP_WINDOW`: wrong value: got `-1`, expected",
            "batch-processor: `MAX_BATCH_SIZE`: wrong value: got `abc`, expected",
            "batch-processor: `VERIFY_DELAY`: wrong value: got `soon`, expected",
            "batch-processor: `DEDUP_WINDOW`: wrong value: got `-1`, expected",
        ];
        for words in named {
            assert!(err.contains(words), "{words} is not in {err}");
        }
        // The output has the problems and one line before them, and no line of a stack or a process.
        assert_eq!(err.lines().count(), 1 + named.len(), "{err}");
    }
}

#[tokio::test]
async fn wrong_variables_of_a_redeploy_end_the_command_before_anything_starts() {
    let redeploy = "--redeploy-at=3600:INDEX_SHARDS=0,VERIFY_DELAY=9";
    let err = refused(&["burst", "--messages", "10", redeploy]).await;
    let words =
        "aggregator, redeployed after 3600 s: `INDEX_SHARDS`: wrong value: got `0`, expected";
    assert!(err.contains(words), "{err}");
    assert_eq!(err.lines().count(), 2, "{err}");
    let err = refused(&["burst", "--redeploy-at=5:ON_DUPLICATE=requeue"]).await;
    let words = "`--redeploy-at`: changes `ON_DUPLICATE`";
    assert!(err.contains(words), "{err}");
}

#[tokio::test]
async fn a_function_that_cannot_start_ends_a_burst_with_its_last_log_lines() {
    for function in ["aggregator", "batch-processor"] {
        let flag = format!("--{function}");
        let mut arguments = vec!["burst", "--messages", "300", "--sweep-every", "1"];
        arguments.extend([flag.as_str(), NO_SUCH_LUCK]);
        let err = refused(&arguments).await;
        let words = format!("error: {function}: {LAST_WORDS}");
        assert!(err.contains(&words), "{words} is not in {err}");
    }
}

#[tokio::test]
async fn a_function_that_cannot_start_ends_a_stack_that_serves() {
    let mut arguments = vec!["serve", "--sweep-every", "1"];
    arguments.extend(["--batch-processor", NO_SUCH_LUCK]);
    let (code, out, err) = local(&arguments).await;
    assert_eq!(code, Some(EXIT_NOTHING_TO_SAY), "{out}\n{err}");
    assert!(out.contains("INPUT_QUEUE_URL"), "it was up: {out}");
    let words = format!("error: batch-processor: {LAST_WORDS}");
    assert!(err.contains(&words), "{words} is not in {err}");
}
