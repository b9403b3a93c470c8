//! Which programs run concurrently, and which is next.
//!
//! A machine has two places per core, and a program takes one: it mostly waits for servers, for the expiry of leases
//! and for retries. A program that computes all the time takes two places, and one that must run alone takes all. While
//! the compiler runs, it has half of the places.

use super::build::SIMULATOR;

/// Places per core.
const PLACES_PER_CORE: usize = 2;

/// The needs of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needs {
    /// How long it takes when it runs alone. The longest starts first.
    pub(super) seconds: u32,
    /// How many places it takes.
    pub(super) places: usize,
    /// How many of its tests run at a time, per core.
    pub(super) threads_per_core: usize,
    /// It needs further results of the build, in addition to its own program.
    pub(super) whole_build: bool,
}

/// A program that is not in the list: short, with one place.
const SHORT: Needs = Needs { seconds: 1, places: 1, threads_per_core: 1, whole_build: false };

const fn waits(seconds: u32) -> Needs {
    Needs { seconds, ..SHORT }
}

const fn computes(seconds: u32) -> Needs {
    Needs { seconds, places: 2, ..SHORT }
}

/// Programs that take long. The measured times are in `docs/figures/test-loop.md`.
const LIST: [(&str, Needs); 17] = [
    // Two thirds of all tests, on servers that they share.
    ("postrider/stores", Needs { seconds: 350, places: 2, threads_per_core: 2, whole_build: false }),
    ("postrider-cli/cli", waits(150)),
    ("postrider-cli/destinations", waits(118)),
    ("postrider-sinks/kafka", waits(106)),
    ("postrider-sinks/network", waits(100)),
    ("postrider-sinks/rabbitmq", waits(60)),
    ("postrider-sinks/nats", waits(20)),
    // It starts the examples; cargo does not know this dependency.
    ("postrider-sinks/processes", Needs { whole_build: true, ..waits(20) }),
    // It starts cargo for programs that must not compile.
    ("postrider-derive/derive", Needs { whole_build: true, ..computes(19) }),
    ("postrider-testkit/servers", waits(28)),
    ("postrider-writers-example/writers", waits(11)),
    ("postrider-testkit/app", waits(10)),
    ("postrider-consumers-example/kafka", waits(9)),
    // Built in its own profile, then thousands of histories.
    (SIMULATOR, Needs { whole_build: true, ..computes(45) }),
    ("postrider/languages", waits(5)),
    // Short, but first: other compilers wait until it has left cargo's build folder.
    (DOC_TESTS, Needs { whole_build: true, ..computes(u32::MAX) }),
    // Alone, at the end: sixteen writers fill the machine for a fixed time, and readers must keep up with them.
    ("postrider/storm", Needs { places: usize::MAX, ..waits(0) }),
];

/// The name of the doc tests of all packages.
pub(super) const DOC_TESTS: &str = "doc tests";

/// The needs of a program. A program that runs again on another server is called `name on server`, and is short.
pub(super) fn needs(name: &str) -> Needs {
    LIST.iter().find(|(listed, _)| *listed == name).map_or(SHORT, |(_, needs)| *needs)
}

/// The programs that wait for a place.
#[derive(Debug)]
pub(super) struct Schedule<J> {
    places: usize,
    taken: usize,
    building: bool,
    waiting: Vec<(Needs, J)>,
}

impl<J> Schedule<J> {
    /// Nothing waits, and the build has begun.
    pub(super) fn new(cores: usize) -> Self {
        Self { places: cores * PLACES_PER_CORE, taken: 0, building: true, waiting: Vec::new() }
    }

    pub(super) fn add(&mut self, needs: Needs, job: J) {
        let needs = Needs { places: needs.places.min(self.places), ..needs };
        self.waiting.push((needs, job));
        // A stable sort: programs with the same time stay in order.
        self.waiting.sort_by_key(|(needs, _)| std::cmp::Reverse(needs.seconds));
    }

    /// The longest program that can start now. One that needs more places than are free gets the next ones: shorter
    /// programs do not start before it, because the run ends with the longest.
    pub(super) fn next(&mut self) -> Option<(Needs, J)> {
        let open = if self.building { self.places.div_ceil(2) } else { self.places };
        let free = open.saturating_sub(self.taken);
        let may_start =
            |(needs, _): &(Needs, J)| needs.places <= open && !(needs.whole_build && self.building);
        let next = self.waiting.iter().position(may_start)?;
        if self.waiting[next].0.places > free {
            return None;
        }
        let next = self.waiting.remove(next);
        self.taken += next.0.places;
        Some(next)
    }

    pub(super) fn ended(&mut self, needs: Needs) {
        self.taken -= needs.places;
    }

    pub(super) fn build_ended(&mut self) {
        self.building = false;
    }

    /// Whether nothing runs, nothing waits, and the build has ended.
    pub(super) fn is_over(&self) -> bool {
        !self.building && self.taken == 0 && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(schedule: &mut Schedule<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| schedule.next()).map(|(_, job)| job).collect()
    }

    #[test]
    fn the_longest_begin_first_and_fill_the_places() {
        let mut schedule = Schedule::new(1);
        schedule.build_ended();
        for (job, seconds) in [("a", 1), ("b", 9), ("c", 5)] {
            schedule.add(waits(seconds), job);
        }
        assert_eq!(names(&mut schedule), ["b", "c"]);
        schedule.ended(waits(9));
        assert_eq!(names(&mut schedule), ["a"]);
    }

    #[test]
    fn a_computing_program_takes_two_places_and_no_shorter_one_starts_before_it() {
        let mut schedule = Schedule::new(2);
        schedule.build_ended();
        for (job, needs) in [("a", waits(9)), ("b", computes(8)), ("c", computes(7)), ("d", waits(1))] {
            schedule.add(needs, job);
        }
        assert_eq!(names(&mut schedule), ["a", "b"]);
        schedule.ended(waits(9));
        assert_eq!(names(&mut schedule), ["c"]);
        schedule.ended(computes(8));
        assert_eq!(names(&mut schedule), ["d"]);
    }

    #[test]
    fn a_program_that_must_run_alone_holds_no_others_back_while_the_build_runs() {
        let mut schedule = Schedule::new(2);
        schedule.add(Needs { places: usize::MAX, ..waits(9) }, "alone");
        schedule.add(SHORT, "short");
        assert_eq!(names(&mut schedule), ["short"], "half of the places are open");
        schedule.build_ended();
        assert_eq!(names(&mut schedule), [] as [&str; 0]);
        schedule.ended(SHORT);
        assert_eq!(names(&mut schedule), ["alone"]);
    }

    #[test]
    fn the_compiler_has_half_of_the_places_while_it_works() {
        let mut schedule = Schedule::new(2);
        for job in ["a", "b", "c"] {
            schedule.add(SHORT, job);
        }
        schedule.add(Needs { whole_build: true, ..waits(9) }, "whole");
        assert_eq!(names(&mut schedule), ["a", "b"]);
        schedule.build_ended();
        assert_eq!(names(&mut schedule), ["whole", "c"]);
        assert!(!schedule.is_over());
    }

    #[test]
    fn a_program_that_wants_more_than_the_machine_has_gets_all_of_it() {
        let mut schedule = Schedule::new(1);
        schedule.build_ended();
        schedule.add(Needs { places: 64, ..SHORT }, "a");
        let (needs, _) = schedule.next().unwrap();
        assert_eq!(needs.places, 2);
        schedule.ended(needs);
        assert!(schedule.is_over());
    }
}
