//! Tests of the tracking of holes.

use super::*;

const PATIENCE: Patience = Patience { list_after: Duration::from_secs(1), holes_max: 4 };
const SOON: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_secs(2);

/// The holes of a claimer whose scans ask for up to 100 events.
struct Claimer(Holes);

/// What a scan reports besides the events found.
#[derive(Default)]
struct Facts {
    left: Option<i64>,
    stamp: Option<u64>,
    horizon: Option<u64>,
    /// A name, or a name and an idle token: "a" and "a:noon".
    writers: Option<&'static [&'static str]>,
    assigned_up_to: i64,
    held: &'static [i64],
}

impl Claimer {
    fn from(done: &str) -> Self {
        Self(Holes::new(&done.parse().unwrap(), PATIENCE))
    }

    fn asks(&self, events_max: usize) -> Vec<(i64, i64)> {
        let ranges = self.0.ranges(events_max);
        ranges.first.into_iter().zip(ranges.last).collect()
    }

    fn scan(&mut self, found: &[i64], facts: Facts, now: Duration) -> Vec<(i64, i64)> {
        self.scan_up_to(100, found, facts, now)
    }

    fn scan_up_to(
        &mut self,
        events_max: usize,
        found: &[i64],
        facts: Facts,
        now: Duration,
    ) -> Vec<(i64, i64)> {
        let found: Vec<Position> = found.iter().copied().map(Position::new).collect();
        let held: Vec<Position> = facts.held.iter().copied().map(Position::new).collect();
        let scan = Scan {
            asked: self.0.ranges(events_max),
            found: &found,
            left: facts.left.map(Position::new),
            stamp: facts.stamp,
            horizon: facts.horizon,
            writers: facts.writers.map(|names| names.iter().map(|name| writer(name)).collect()),
            assigned_up_to: Position::new(facts.assigned_up_to),
            held: &held,
        };
        self.0.apply(scan, now).into_iter().map(|(first, last)| (first.get(), last.get())).collect()
    }
}

fn writer(word: &str) -> (String, Option<String>) {
    let (name, token) = word.split_once(':').map_or((word, None), |(name, token)| (name, Some(token)));
    (name.to_owned(), token.map(str::to_owned))
}

const MAX: i64 = i64::MAX;

#[test]
fn a_missing_position_below_a_found_one_is_asked_for_again() {
    let mut claimer = Claimer::from("0");
    assert_eq!(claimer.asks(100), [(1, MAX)]);
    claimer.scan(&[1, 2, 5, 6, 8], Facts::default(), SOON);
    assert_eq!(claimer.asks(100), [(3, 4), (7, 7), (9, MAX)]);
    claimer.scan(&[4], Facts::default(), SOON);
    assert_eq!(claimer.asks(100), [(3, 3), (7, 7), (9, MAX)]);
    claimer.scan(&[3, 7, 9], Facts::default(), SOON);
    assert_eq!(claimer.asks(100), [(10, MAX)]);
}

#[test]
fn nothing_above_the_last_event_is_a_hole() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[], Facts::default(), SOON);
    assert_eq!((claimer.0.len(), claimer.asks(100)), (0, vec![(1, MAX)]));
}

#[test]
fn after_a_load_the_gaps_are_asked_for_in_order_and_not_more_than_fit() {
    let claimer = Claimer::from("4 6-8 20");
    assert_eq!(claimer.asks(100), [(5, 5), (9, 19), (21, MAX)]);
    assert_eq!(claimer.asks(12), [(5, 5), (9, 19)]);
    assert_eq!(claimer.asks(1), [(5, 5)]);
    assert!(!claimer.0.ranges(12).reach_the_tail());
}

#[test]
fn gaps_of_a_load_become_holes_where_no_event_was_found() {
    let mut claimer = Claimer::from("4 6-8 12");
    claimer.scan(&[10, 11, 14], Facts::default(), SOON);
    assert_eq!(claimer.asks(100), [(5, 5), (9, 9), (13, 13), (15, MAX)]);
}

#[test]
fn a_full_page_proves_nothing_about_later_positions() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[2, 3], Facts { left: Some(7), ..Facts::default() }, SOON);
    assert_eq!(claimer.asks(100), [(1, 1), (4, 6), (7, MAX)]);
    // The hole 4-6 was not read to its end, so this scan cannot declare it empty.
    let facts = Facts { left: Some(4), stamp: Some(9), horizon: Some(9), ..Facts::default() };
    assert_eq!(claimer.scan(&[], facts, SOON), [(1, 1)]);
    assert_eq!(claimer.asks(100), [(4, 6), (7, MAX)]);
}

#[test]
fn a_hole_is_empty_when_the_horizon_passes_its_stamp() {
    let mut claimer = Claimer::from("0");
    assert_eq!(claimer.scan(&[3], Facts { horizon: Some(50), ..Facts::default() }, SOON), []);
    assert!(claimer.0.wants_stamp());
    let facts = Facts { stamp: Some(60), horizon: Some(59), ..Facts::default() };
    assert_eq!(claimer.scan(&[], facts, SOON), []);
    assert!(!claimer.0.wants_stamp());
    assert_eq!(claimer.scan(&[], Facts { horizon: Some(60), ..Facts::default() }, SOON), [(1, 2)]);
    assert_eq!(claimer.asks(100), [(4, MAX)]);
}

#[test]
fn a_stamp_does_not_count_for_holes_of_the_same_scan() {
    let mut claimer = Claimer::from("0");
    let facts = Facts { stamp: Some(60), horizon: Some(70), ..Facts::default() };
    assert_eq!(claimer.scan(&[3], facts, SOON), [], "the holes were noticed after the stamp");
    assert!(claimer.0.wants_stamp());
}

#[test]
fn a_filled_hole_is_not_declared_empty_by_the_scan_that_fills_it() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[4], Facts::default(), SOON);
    let facts = Facts { stamp: Some(60), horizon: Some(70), ..Facts::default() };
    assert_eq!(claimer.scan(&[2], facts, SOON), [(1, 1), (3, 3)]);
}

#[test]
fn an_old_hole_is_empty_when_every_writer_of_its_time_has_ended() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[3], Facts::default(), SOON);
    assert!(!claimer.0.wants_writers(SOON), "it is young");
    assert!(claimer.0.wants_writers(LATER));
    let list = |writers| Facts { writers: Some(writers), ..Facts::default() };
    assert_eq!(claimer.scan(&[], list(&["a", "b"]), LATER), []);
    assert_eq!(claimer.scan(&[], list(&["b", "c"]), LATER), []);
    assert_eq!(
        claimer.scan(&[], list(&["a", "c"]), LATER),
        [(1, 2)],
        "a is listed again, but it had ended once"
    );
}

/// An old hole (1) behind "idle", and a younger one (5); the sequence was at `assigned_up_to` in the first list.
fn two_holes_behind(idle: &'static [&'static str], assigned_up_to: i64) -> Claimer {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[2], Facts::default(), SOON);
    assert_eq!(
        claimer.scan(&[3], Facts { writers: Some(idle), assigned_up_to, ..Facts::default() }, LATER),
        []
    );
    claimer.scan(&[4, 6], Facts::default(), LATER);
    assert_eq!(claimer.asks(100), [(1, 1), (5, 5), (7, MAX)]);
    claimer
}

const MUCH_LATER: Duration = Duration::from_secs(4);

fn list(writers: &'static [&'static str]) -> Facts {
    Facts { writers: Some(writers), assigned_up_to: 6, ..Facts::default() }
}

#[test]
fn a_writer_that_was_idle_while_the_position_was_taken_keeps_only_older_holes_open() {
    let mut claimer = two_holes_behind(&["idle:noon"], 4);
    assert_eq!(claimer.scan(&[], list(&["idle:noon"]), MUCH_LATER), [(5, 5)]);
    assert_eq!(claimer.asks(100), [(1, 1), (7, MAX)], "it may have taken the first before it became idle");
    assert_eq!(claimer.scan(&[], list(&[]), MUCH_LATER), [(1, 1)]);
}

#[test]
fn a_writer_that_became_idle_after_the_position_was_taken_keeps_the_hole_open() {
    let mut claimer = two_holes_behind(&["idle:noon"], 5);
    assert_eq!(claimer.scan(&[], list(&["idle:noon"]), MUCH_LATER), []);
}

#[test]
fn a_writer_that_was_active_in_between_keeps_the_hole_open() {
    let mut claimer = two_holes_behind(&["idle:noon"], 4);
    assert_eq!(claimer.scan(&[], list(&["idle:one"]), MUCH_LATER), []);
    // That it is idle from now on proves nothing about the earlier hole.
    assert_eq!(claimer.scan(&[], list(&["idle:one"]), MUCH_LATER), []);
}

#[test]
fn a_writer_without_an_idle_token_keeps_the_hole_open() {
    let mut claimer = two_holes_behind(&["idle"], 4);
    assert_eq!(claimer.scan(&[], list(&["idle"]), MUCH_LATER), []);
    let mut claimer = two_holes_behind(&["idle:noon"], 4);
    assert_eq!(claimer.scan(&[], list(&["idle"]), MUCH_LATER), []);
}

#[test]
fn a_hole_waits_for_a_busy_writer_next_to_an_idle_one() {
    let mut claimer = two_holes_behind(&["idle:noon"], 4);
    assert_eq!(claimer.scan(&[], list(&["idle:noon", "busy"]), MUCH_LATER), []);
    assert_eq!(claimer.scan(&[], list(&["idle:noon"]), MUCH_LATER), [(5, 5)]);
}

#[test]
fn an_old_hole_is_empty_immediately_if_there_are_no_writers() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[3], Facts::default(), SOON);
    assert_eq!(claimer.scan(&[], Facts { writers: Some(&[]), ..Facts::default() }, LATER), [(1, 2)]);
}

#[test]
fn a_list_for_old_holes_does_not_count_for_a_young_one() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[2], Facts::default(), SOON);
    claimer.scan(&[4], Facts::default(), LATER);
    assert_eq!(claimer.scan(&[], Facts { writers: Some(&[]), ..Facts::default() }, LATER), [(1, 1)]);
    assert_eq!(claimer.asks(100), [(3, 3), (5, MAX)]);
}

#[test]
fn at_the_limit_of_holes_only_the_holes_are_read() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[2, 4, 6, 8], Facts::default(), SOON);
    assert!(claimer.0.is_full());
    assert_eq!(claimer.asks(100), [(1, 1), (3, 3), (5, 5), (7, 7)]);
    claimer.scan(&[5], Facts::default(), SOON);
    assert_eq!(claimer.asks(100), [(1, 1), (3, 3), (7, 7), (9, MAX)]);
}

/// Even if its writer is in no list.
#[test]
fn a_hole_with_an_uncommitted_event_is_never_dead() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[2, 4, 6], Facts::default(), SOON);
    let held = Facts { writers: Some(&[]), held: &[3], ..Facts::default() };
    assert_eq!(claimer.scan(&[], held, LATER), [(1, 1), (5, 5)]);
    assert!(claimer.scan(&[], Facts::default(), LATER).is_empty(), "it was not queried again");
    let none = Facts { writers: Some(&[]), ..Facts::default() };
    assert_eq!(claimer.scan(&[], none, LATER), [(3, 3)]);
}

#[test]
fn a_hole_with_an_uncommitted_event_does_not_wait_for_later_writers() {
    let mut claimer = Claimer::from("0");
    claimer.scan(&[2], Facts::default(), SOON);
    let facts = |writers, held| Facts { writers: Some(writers), held, ..Facts::default() };
    assert!(claimer.scan(&[], facts(&["owner"], &[1]), LATER).is_empty());
    assert!(claimer.scan(&[], facts(&["owner", "later"], &[1]), LATER).is_empty());
    assert_eq!(claimer.scan(&[], facts(&["later"], &[]), LATER), [(1, 1)]);
}

#[test]
fn a_position_that_is_facts_late_counts_from_then_on() {
    let mut claimer = Claimer::from("0");
    let facts = |assigned_up_to| Facts { writers: Some(&["a:noon"]), assigned_up_to, ..Facts::default() };
    claimer.scan(&[1, 2, 4], Facts::default(), SOON);
    assert!(claimer.scan(&[], facts(MAX), LATER).is_empty());
    assert!(claimer.scan(&[6], facts(4), LATER).is_empty(), "it may have taken the third");
    assert_eq!(claimer.scan(&[], facts(6), 2 * LATER), [(5, 5)]);
}

#[test]
fn every_position_is_handed_out_or_declared_empty_once_in_any_order_of_commits() {
    let mut seed = 11_u64;
    for _ in 0..300 {
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        // When each position becomes visible; `None`: it is rolled back at time 20.
        let visible_at: Vec<Option<u64>> = (0..40).map(|_| (random(4) > 0).then(|| random(20))).collect();
        let mut claimer = Claimer(Holes::new(&Intervals::default(), Patience { holes_max: 100, ..PATIENCE }));
        let (mut handed, mut empty) = (Vec::new(), Intervals::default());
        for time in 0..30_u64 {
            let asked = claimer.asks(3);
            let waiting = (1..=40_i64).filter(|p| {
                let at = visible_at[usize::try_from(*p - 1).unwrap()];
                at.is_some_and(|at| at <= time) && asked.iter().any(|(a, b)| a <= p && p <= b)
            });
            let mut found: Vec<i64> = waiting.take(4).collect();
            let left = (found.len() == 4).then(|| found.pop()).flatten();
            let horizon = (time > 20).then_some(1);
            let facts = Facts { left, stamp: Some(1), horizon, ..Facts::default() };
            for (first, last) in claimer.scan_up_to(3, &found, facts, SOON) {
                empty.insert_range(Position::new(first), Position::new(last));
            }
            handed.extend(found);
        }
        let expected: Vec<i64> = (1..=40).filter(|p| visible_at[*p as usize - 1].is_some()).collect();
        assert!(handed.iter().all(|p| !empty.contains(Position::new(*p))), "{visible_at:?}");
        handed.sort_unstable();
        assert_eq!(handed, expected);
    }
}
