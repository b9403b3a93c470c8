//! Tests of the tracking of holes.

use super::*;

const PATIENCE: Patience = Patience { list_after: Duration::from_secs(1), holes_max: 4 };
const SOON: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_secs(2);

/// Holes after a load, with the next poll already requested.
struct Story(Holes);

/// What a poll finds besides positions.
#[derive(Default)]
struct Told {
    left: Option<i64>,
    stamp: Option<u64>,
    horizon: Option<u64>,
    /// A name, or a name and since when it is quiet: "a" and "a:noon".
    writers: Option<&'static [&'static str]>,
    taken: i64,
    held: &'static [i64],
}

impl Story {
    fn from(done: &str) -> Self {
        Self(Holes::new(&done.parse().unwrap(), PATIENCE))
    }

    fn asks(&self, events_max: usize) -> Vec<(i64, i64)> {
        let ranges = self.0.ranges(events_max);
        ranges.first.into_iter().zip(ranges.last).collect()
    }

    fn look(&mut self, found: &[i64], reported: Told, now: Duration) -> Vec<(i64, i64)> {
        let found: Vec<Position> = found.iter().copied().map(Position::new).collect();
        let held: Vec<Position> = reported.held.iter().copied().map(Position::new).collect();
        let scan = Scan {
            asked: self.0.ranges(100),
            found: &found,
            left: reported.left.map(Position::new),
            stamp: reported.stamp,
            horizon: reported.horizon,
            writers: reported.writers.map(|names| names.iter().map(|name| writer(name)).collect()),
            taken: Position::new(reported.taken),
            held: &held,
        };
        self.0.apply(scan, now).into_iter().map(|(first, last)| (first.get(), last.get())).collect()
    }
}

fn writer(word: &str) -> (String, Option<String>) {
    let (name, quiet) = word.split_once(':').map_or((word, None), |(name, quiet)| (name, Some(quiet)));
    (name.to_owned(), quiet.map(str::to_owned))
}

const MAX: i64 = i64::MAX;

#[test]
fn a_missing_position_below_a_found_one_is_queried_again() {
    let mut story = Story::from("0");
    assert_eq!(story.asks(100), [(1, MAX)]);
    story.look(&[1, 2, 5, 6, 8], Told::default(), SOON);
    assert_eq!(story.asks(100), [(3, 4), (7, 7), (9, MAX)]);
    story.look(&[4], Told::default(), SOON);
    assert_eq!(story.asks(100), [(3, 3), (7, 7), (9, MAX)]);
    story.look(&[3, 7, 9], Told::default(), SOON);
    assert_eq!(story.asks(100), [(10, MAX)]);
}

#[test]
fn nothing_above_the_last_event_is_a_hole() {
    let mut story = Story::from("0");
    story.look(&[], Told::default(), SOON);
    assert_eq!((story.0.len(), story.asks(100)), (0, vec![(1, MAX)]));
}

#[test]
fn after_a_load_the_gaps_are_queried_in_order_and_within_the_limit() {
    let story = Story::from("4 6-8 20");
    assert_eq!(story.asks(100), [(5, 5), (9, 19), (21, MAX)]);
    assert_eq!(story.asks(12), [(5, 5), (9, 19)]);
    assert_eq!(story.asks(1), [(5, 5)]);
    assert!(!story.0.ranges(12).reach_the_tail());
}

#[test]
fn gaps_of_a_load_become_holes_where_no_event_was_found() {
    let mut story = Story::from("4 6-8 12");
    story.look(&[10, 11, 14], Told::default(), SOON);
    assert_eq!(story.asks(100), [(5, 5), (9, 9), (13, 13), (15, MAX)]);
}

#[test]
fn a_full_page_proves_nothing_about_later_positions() {
    let mut story = Story::from("0");
    story.look(&[2, 3], Told { left: Some(7), ..Told::default() }, SOON);
    assert_eq!(story.asks(100), [(1, 1), (4, 6), (7, MAX)]);
    // The hole 4-6 was not read to its end: this poll may not declare it dead.
    let reported = Told { left: Some(4), stamp: Some(9), horizon: Some(9), ..Told::default() };
    assert_eq!(story.look(&[], reported, SOON), [(1, 1)]);
    assert_eq!(story.asks(100), [(4, 6), (7, MAX)]);
}

#[test]
fn a_hole_dies_when_the_horizon_passes_its_stamp() {
    let mut story = Story::from("0");
    assert_eq!(story.look(&[3], Told { horizon: Some(50), ..Told::default() }, SOON), []);
    assert!(story.0.wants_stamp());
    let reported = Told { stamp: Some(60), horizon: Some(59), ..Told::default() };
    assert_eq!(story.look(&[], reported, SOON), []);
    assert!(!story.0.wants_stamp());
    assert_eq!(story.look(&[], Told { horizon: Some(60), ..Told::default() }, SOON), [(1, 2)]);
    assert_eq!(story.asks(100), [(4, MAX)]);
}

#[test]
fn a_stamp_does_not_apply_to_holes_of_the_same_poll() {
    let mut story = Story::from("0");
    let reported = Told { stamp: Some(60), horizon: Some(70), ..Told::default() };
    assert_eq!(story.look(&[3], reported, SOON), [], "the holes were noticed after the stamp");
    assert!(story.0.wants_stamp());
}

#[test]
fn a_filled_hole_is_not_declared_dead_by_the_poll_that_fills_it() {
    let mut story = Story::from("0");
    story.look(&[4], Told::default(), SOON);
    let reported = Told { stamp: Some(60), horizon: Some(70), ..Told::default() };
    assert_eq!(story.look(&[2], reported, SOON), [(1, 1), (3, 3)]);
}

#[test]
fn an_old_hole_dies_when_every_writer_from_its_time_has_finished() {
    let mut story = Story::from("0");
    story.look(&[3], Told::default(), SOON);
    assert!(!story.0.wants_writers(SOON), "it is young");
    assert!(story.0.wants_writers(LATER));
    let list = |writers| Told { writers: Some(writers), ..Told::default() };
    assert_eq!(story.look(&[], list(&["a", "b"]), LATER), []);
    assert_eq!(story.look(&[], list(&["b", "c"]), LATER), []);
    assert_eq!(story.look(&[], list(&["a", "c"]), LATER), [(1, 2)], "a came back, but it was over once");
}

/// A story with an old hole (1) behind "idle", and a younger one (5), as old as the first was, taken after the
/// sequence stood at `taken` in the first list.
fn two_holes_behind(idle: &'static [&'static str], taken: i64) -> Story {
    let mut story = Story::from("0");
    story.look(&[2], Told::default(), SOON);
    assert_eq!(story.look(&[3], Told { writers: Some(idle), taken, ..Told::default() }, LATER), []);
    story.look(&[4, 6], Told::default(), LATER);
    assert_eq!(story.asks(100), [(1, 1), (5, 5), (7, MAX)]);
    story
}

const MUCH_LATER: Duration = Duration::from_secs(4);

fn list(writers: &'static [&'static str]) -> Told {
    Told { writers: Some(writers), taken: 6, ..Told::default() }
}

#[test]
fn a_writer_that_was_idle_while_the_position_was_taken_keeps_only_older_holes_alive() {
    let mut story = two_holes_behind(&["idle:noon"], 4);
    assert_eq!(story.look(&[], list(&["idle:noon"]), MUCH_LATER), [(5, 5)]);
    assert_eq!(story.asks(100), [(1, 1), (7, MAX)], "it may have taken the first before it fell silent");
    assert_eq!(story.look(&[], list(&[]), MUCH_LATER), [(1, 1)]);
}

#[test]
fn a_writer_that_became_idle_after_the_position_was_taken_keeps_the_hole_alive() {
    let mut story = two_holes_behind(&["idle:noon"], 5);
    assert_eq!(story.look(&[], list(&["idle:noon"]), MUCH_LATER), []);
}

#[test]
fn a_writer_that_was_active_in_between_keeps_the_hole_alive() {
    let mut story = two_holes_behind(&["idle:noon"], 4);
    assert_eq!(story.look(&[], list(&["idle:one"]), MUCH_LATER), []);
    // That it is silent from now on does not help the hole of before.
    assert_eq!(story.look(&[], list(&["idle:one"]), MUCH_LATER), []);
}

#[test]
fn an_unknown_writer_keeps_the_hole_alive() {
    let mut story = two_holes_behind(&["idle"], 4);
    assert_eq!(story.look(&[], list(&["idle"]), MUCH_LATER), []);
    let mut story = two_holes_behind(&["idle:noon"], 4);
    assert_eq!(story.look(&[], list(&["idle"]), MUCH_LATER), []);
}

#[test]
fn a_hole_waits_for_the_active_writer_beside_the_idle_one() {
    let mut story = two_holes_behind(&["idle:noon"], 4);
    assert_eq!(story.look(&[], list(&["idle:noon", "busy"]), MUCH_LATER), []);
    assert_eq!(story.look(&[], list(&["idle:noon"]), MUCH_LATER), [(5, 5)]);
}

#[test]
fn an_old_hole_dies_at_once_without_writers() {
    let mut story = Story::from("0");
    story.look(&[3], Told::default(), SOON);
    assert_eq!(story.look(&[], Told { writers: Some(&[]), ..Told::default() }, LATER), [(1, 2)]);
}

#[test]
fn a_new_hole_is_not_judged_by_the_writers_of_older_holes() {
    let mut story = Story::from("0");
    story.look(&[2], Told::default(), SOON);
    story.look(&[4], Told::default(), LATER);
    assert_eq!(story.look(&[], Told { writers: Some(&[]), ..Told::default() }, LATER), [(1, 1)]);
    assert_eq!(story.asks(100), [(3, 3), (5, MAX)]);
}

#[test]
fn too_many_holes_pause_the_tail_and_not_their_own_resolution() {
    let mut story = Story::from("0");
    story.look(&[2, 4, 6, 8], Told::default(), SOON);
    assert!(story.0.is_full());
    assert_eq!(story.asks(100), [(1, 1), (3, 3), (5, 5), (7, 7)]);
    story.look(&[5], Told::default(), SOON);
    assert_eq!(story.asks(100), [(1, 1), (3, 3), (7, 7), (9, MAX)]);
}

/// No list knows who wrote it; it is there all the same.
#[test]
fn a_hole_with_an_uncommitted_event_is_never_dead() {
    let mut story = Story::from("0");
    story.look(&[2, 4, 6], Told::default(), SOON);
    let held = Told { writers: Some(&[]), held: &[3], ..Told::default() };
    assert_eq!(story.look(&[], held, LATER), [(1, 1), (5, 5)]);
    assert!(story.look(&[], Told::default(), LATER).is_empty(), "there was no poll since");
    let nobody = Told { writers: Some(&[]), ..Told::default() };
    assert_eq!(story.look(&[], nobody, LATER), [(3, 3)]);
}

#[test]
fn a_writer_that_began_after_an_uncommitted_event_is_not_waited_for() {
    let mut story = Story::from("0");
    story.look(&[2], Told::default(), SOON);
    let reported = |writers, held| Told { writers: Some(writers), held, ..Told::default() };
    assert!(story.look(&[], reported(&["its own"], &[1]), LATER).is_empty());
    assert!(story.look(&[], reported(&["its own", "later"], &[1]), LATER).is_empty());
    assert_eq!(story.look(&[], reported(&["later"], &[]), LATER), [(1, 1)]);
}

#[test]
fn a_counter_that_is_reported_late_counts_from_then_on() {
    let mut story = Story::from("0");
    let reported = |taken| Told { writers: Some(&["a:noon"]), taken, ..Told::default() };
    story.look(&[1, 2, 4], Told::default(), SOON);
    assert!(story.look(&[], reported(MAX), LATER).is_empty());
    assert!(story.look(&[6], reported(4), LATER).is_empty(), "it may have taken the third");
    assert_eq!(story.look(&[], reported(6), 2 * LATER), [(5, 5)]);
}

#[test]
fn every_position_is_delivered_or_declared_dead_once_in_any_commit_order() {
    let mut seed = 11_u64;
    for _ in 0..300 {
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        // Who becomes visible when; never: rolled back at time 20.
        let visible_at: Vec<Option<u64>> = (0..40).map(|_| (random(4) > 0).then(|| random(20))).collect();
        let mut story = Story(Holes::new(&Intervals::default(), Patience { holes_max: 100, ..PATIENCE }));
        let (mut handed, mut buried) = (Vec::new(), Intervals::default());
        for time in 0..30_u64 {
            let asked = story.asks(3);
            let waiting = (1..=40_i64).filter(|p| {
                let at = visible_at[usize::try_from(*p - 1).unwrap()];
                at.is_some_and(|at| at <= time) && asked.iter().any(|(a, b)| a <= p && p <= b)
            });
            let mut found: Vec<i64> = waiting.take(4).collect();
            let left = (found.len() == 4).then(|| found.pop()).flatten();
            let horizon = (time > 20).then_some(1);
            let reported = Told { left, stamp: Some(1), horizon, ..Told::default() };
            let positions: Vec<Position> = found.iter().copied().map(Position::new).collect();
            let scan = Scan {
                asked: story.0.ranges(3),
                found: &positions,
                left: reported.left.map(Position::new),
                stamp: reported.stamp,
                horizon: reported.horizon,
                writers: None,
                taken: Position::ZERO,
                held: &[],
            };
            story.0.apply(scan, SOON).into_iter().for_each(|(a, b)| buried.insert_range(a, b));
            handed.extend(found);
        }
        let expected: Vec<i64> = (1..=40).filter(|p| visible_at[*p as usize - 1].is_some()).collect();
        assert!(handed.iter().all(|p| !buried.contains(Position::new(*p))), "{visible_at:?}");
        handed.sort_unstable();
        assert_eq!(handed, expected);
    }
}
