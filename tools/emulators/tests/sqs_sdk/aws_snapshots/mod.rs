//! What AWS was seen to do. LocalStack runs its tests against AWS too, and publishes what AWS returned. Each test here states
//! facts of such a test, and names it. `docs/emulators.md` lists the facts that this server does not model.
//!
//! Source: the repository `localstack/localstack` at 8b9a79f0 (23 March 2026), folder `tests/aws/services/sqs`: `test_sqs.py`
//! with `test_sqs.snapshot.json`, and `test_sqs_move_task.py` with `test_sqs_move_task.snapshot.json`. A test is named with the
//! day on which its snapshot was recorded. `validated` means that the test has no snapshot, and that its assertions were run
//! against AWS.

mod attributes;
mod handles;
mod move_tasks;
mod queues;
mod refusals;
