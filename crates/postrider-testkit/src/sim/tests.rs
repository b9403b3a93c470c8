//! Tests of the simulator: all promises are kept, injected bugs are found, and every situation occurs.

use super::{Bug, History, Tally, Trace, run};

/// Runs seeds on two threads. Returns the histories in the order of the seeds.
fn sweep(seeds: u64, bug: Option<Bug>) -> Vec<History> {
    let half = |offset: u64| {
        std::thread::spawn(move || {
            (offset..seeds).step_by(2).map(|seed| run(seed, bug, Trace::off())).collect::<Vec<_>>()
        })
    };
    let mut histories: Vec<History> =
        [half(0), half(1)].into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    histories.sort_by_key(|history| history.seed);
    histories
}

/// The situations that must occur in some history; otherwise the simulator does not test them.
const COVERAGE: &[&str] = &[
    "answer lost",
    "crash",
    "duplicate delivered",
    "event committed",
    "graceful shutdown",
    "history accepted",
    "history: calm",
    "history: isolation",
    "history: storm",
    "hole proven empty",
    "late commit",
    "lease taken away",
    "message delivered",
    "sink fault",
    "operator discards",
    "operator gives up",
    "operator replays",
    "operator retries",
    "operator retries a dead event",
    "operator skips",
    "outage, failing",
    "outage, reported",
    "outage, silent",
    "outcome unknown, it happened",
    "outcome unknown, nothing happened",
    "pause",
    "position rolled back",
    "process killed by an event",
    "publish timed out",
    "report: capacity limit over",
    "report: capacity limit reached",
    "report: breaker closed",
    "report: breaker opened",
    "report: term ended, fenced",
    "report: term ended, history changed",
    "report: term ended, lease expired",
    "report: term ended, lease lost",
    "report: parked rows changed",
    "report: term ended, parked rows changed",
    "report: term ended, released",
    "report: term ended, store failed",
    "report: halted",
    "report: leading, clean",
    "report: leading, unclean",
    "report: parked, behind",
    "report: parked, dead",
    "report: parked, expired",
    "report: parked, held",
    "report: failing",
    "report: parked, retry",
    "report: parked, unrouted",
    "report: paused",
    "report: possible duplicate",
    "report: resumed",
    "restore of everything",
    "restore of the events",
    "settle fenced",
    "settle stalled",
    "slow call",
    "store busy",
    "store failed",
    "takeover",
    "wall clock jumped back",
    "wall clock jumped forward",
    "zombie woken",
];

#[test]
fn every_history_keeps_every_promise_and_every_fault_occurs() {
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for history in sweep(10_000, None) {
        tally.merge(&history.tally);
        failures.extend(history.failure());
    }
    let missing: Vec<&&str> = COVERAGE.iter().filter(|what| tally.of(what) == 0).collect();
    assert!(failures.is_empty(), "{} seeds failed\n{}", failures.len(), failures.join("\n"));
    assert!(missing.is_empty(), "never occurred: {missing:?}\n{tally}");
    assert_eq!(tally.of("report: unknown"), 0, "a report has no name in the tally");
}

/// Histories that once broke a promise, or were taken for ones that do.
const KEPT: [u64; 1] = [
    // A replaced owner's message becomes visible after an operator has retried the event that the next owner gave up.
    1_000_850,
];

#[test]
fn kept_histories_keep_every_promise() {
    for seed in KEPT {
        let broken = run(seed, None, Trace::off()).broken;
        assert!(broken.is_empty(), "seed {seed}: {broken:?}");
    }
}

#[test]
fn one_seed_is_one_history() {
    for seed in 0..40 {
        let (first, second) = (run(seed, None, Trace::on()), run(seed, None, Trace::on()));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.tally, second.tally, "seed {seed}");
    }
}

#[test]
fn a_broken_promise_names_its_seed_and_how_to_replay_it() {
    let broken =
        sweep(50, Some(Bug::PublishTwice)).into_iter().find_map(|history| history.failure()).unwrap();
    assert!(broken.contains("replay: make sim SEED="), "{broken}");
}

/// The brain detects a sink that is not prefix safe although it claims to be.
#[test]
fn a_sink_that_is_not_prefix_safe_is_reported() {
    let histories = sweep(200, Some(Bug::FalsePrefix));
    assert!(histories.iter().any(|history| history.tally.of("report: order broken") > 0));
}

macro_rules! injected_bugs {
    ($($name:ident: $bug:ident;)+) => {
        $(#[test]
        fn $name() {
            assert_found(Bug::$bug);
        })+

        #[test]
        fn every_injected_bug_has_a_test() {
            assert_eq!(Bug::ALL, [$(Bug::$bug),+]);
        }
    };
}

injected_bugs! {
    a_claimer_that_reads_past_holes_loses_events: ClaimPastHoles;
    a_claimer_that_returns_uncommitted_rows_causes_phantoms: ShowUncommitted;
    a_sink_that_is_falsely_prefix_safe_breaks_the_order: FalsePrefix;
    a_settle_that_is_forgotten_breaks_conservation: ForgetSettle;
    a_driver_that_publishes_twice_causes_duplicates: PublishTwice;
    a_store_that_ignores_the_epoch_does_not_fence: IgnoreEpoch;
    a_settle_that_drops_parked_rows_breaks_conservation: DropParked;
    one_number_for_all_keys_breaks_isolation: OneKey;
    a_sink_that_blames_the_message_uses_up_attempts: BlameMessage;
    a_reply_that_never_arrives_breaks_liveness: LoseReply;
    a_claimer_that_does_not_check_history_skips_events: NoHistoryCheck;
    a_window_wider_than_promised_is_detected: WideWindow;
    a_store_that_ignores_its_budget_fills_the_memory: IgnoreBudget;
    a_settle_that_keeps_a_delivered_row_which_an_operator_changed_causes_duplicates: KeepDelivered;
    a_settle_that_hides_the_change_of_an_operator_breaks_the_order: HideChange;
    a_dead_event_that_is_retried_without_a_mark_breaks_the_order: DropMark;
}

/// The checker of the promise that the bug breaks must report it within this many seeds.
fn assert_found(bug: Bug) {
    let found =
        (0..12_000).find(|seed| run(*seed, Some(bug), Trace::off()).broken.contains_key(&bug.breaks()));
    assert!(found.is_some(), "{bug:?} was not found by the checker of {:?}", bug.breaks());
}
