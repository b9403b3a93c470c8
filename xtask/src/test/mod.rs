//! `xtask test`: every test of the workspace, what was skipped and why, and one closing line of counts.
//!
//! 1. [`build`]: cargo builds the test programs
//! 2. [`schedule`]: each starts when it is built and there is a place for it
//! 3. [`job`]: it runs, and its output is stored
//! 4. [`count`]: its tests are counted
//! 5. [`second_run`]: a few failed tests run once more, alone

mod build;
mod count;
mod job;
mod schedule;
mod scratch;
mod second_run;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::drivers;
use crate::servers::{self, Missing};
use build::{Choice, Program, SIMULATOR, STORES};
use count::{Count, failed_tests};
use job::{Ended, Job};
use schedule::{DOC_TESTS, Needs, Schedule};
use scratch::Scratch;

/// The parts of the store tests that run again on every other version of PostgreSQL.
const ON_EVERY_POSTGRES: [&str; 3] =
    ["postgres::log::conformance::", "postgres::log::schema::", "postgres::log::write::"];

/// Printed when the run does not use cargo's build folder any more, except that of the simulator: `.ci/run` waits for it.
pub(crate) const NO_FURTHER_BUILDS: &str = "no further builds";

/// An event during a run.
enum Event {
    Built(Program),
    BuildEnded(Result<bool, String>),
    Ended(Needs, Ended),
}

/// Runs the tests and returns whether all passed. Arguments are `quick`, or those of `cargo test` (`xtask test -p
/// postrider -- lease`); with arguments, nothing runs again on other servers.
pub(crate) fn run(arguments: &[String]) -> Result<bool, String> {
    for (language, reason) in drivers::prepare() {
        println!("no drivers for {language}: {reason}");
    }
    let mut run = Run::new(arguments)?;
    for Missing { name, reason } in servers::prepare() {
        println!("SKIPPED: {name}: {reason}");
        run.count.skip(&name, &reason);
    }
    run.build();
    run.finish()?;
    run.repeat_failed()?;
    println!(
        "\n{} s, of which {} s until all was built; the longest programs:",
        run.seconds(),
        run.built_after
    );
    run.times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    for (name, took) in run.times.iter().take(12) {
        println!("{:>6} s  {name}", took.as_secs());
    }
    list(&run.count);
    let objection = objection(&run.count);
    if let Some(objection) = &objection {
        println!("\n{objection}");
    }
    println!("\n{}", run.count);
    Ok(objection.is_none())
}

/// A test run.
struct Run {
    choice: Choice,
    /// Whether tests run again on other servers.
    everywhere: bool,
    count: Count,
    schedule: Schedule<Job>,
    cores: usize,
    scratch: Scratch,
    events: (Sender<Event>, Receiver<Event>),
    began: Instant,
    built_after: u64,
    /// How long each program took.
    times: Vec<(String, Duration)>,
    /// The failed tests of programs, with what runs them again.
    failed: Vec<(Job, Vec<String>)>,
}

impl Run {
    #[allow(clippy::disallowed_methods, reason = "the duration of the run is printed at its end")]
    fn new(arguments: &[String]) -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            choice: Choice::new(arguments),
            everywhere: arguments.is_empty(),
            count: Count::default(),
            schedule: Schedule::new(cores),
            cores,
            scratch: Scratch::new()?,
            events: channel(),
            began: Instant::now(),
            built_after: 0,
            times: Vec::new(),
            failed: Vec::new(),
        })
    }

    fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Starts the build, which reports each program.
    fn build(&self) {
        let (choice, events) = (self.choice.clone(), self.events.0.clone());
        std::thread::spawn(move || {
            let result = build::build(&choice, |program| _ = events.send(Event::Built(program)));
            _ = events.send(Event::BuildEnded(result));
        });
    }

    /// Runs the built programs until all have ended.
    fn finish(&mut self) -> Result<(), String> {
        while !self.schedule.is_over() {
            while let Some((needs, job)) = self.schedule.next() {
                self.start(needs, job)?;
            }
            match self.events.1.recv().map_err(|e| e.to_string())? {
                Event::Built(program) => self.add(&program),
                Event::BuildEnded(result) => {
                    self.built_after = self.seconds();
                    self.schedule.build_ended();
                    self.built(result);
                }
                Event::Ended(needs, ended) => {
                    self.schedule.ended(needs);
                    self.read(ended);
                }
            }
        }
        Ok(())
    }

    /// The build has ended: adds the jobs that cargo builds and runs itself.
    fn built(&mut self, result: Result<bool, String>) {
        if result != Ok(true) {
            println!("{}", result.err().unwrap_or_else(|| "not everything could be built".to_owned()));
            self.count.enter(None);
            self.count.fail("the build");
            self.no_further_builds();
            return;
        }
        let mut jobs = Vec::new();
        if self.choice.has_doc_tests() {
            jobs.push(Job::command(DOC_TESTS, self.choice.doc_tests()));
        } else {
            self.no_further_builds();
        }
        if self.choice.has_simulator() {
            jobs.push(Job::command(SIMULATOR, Choice::simulator()));
        }
        for job in jobs {
            self.schedule.add(schedule::needs(&job.name), job);
        }
    }

    fn no_further_builds(&self) {
        println!("   {:>4} s  {NO_FURTHER_BUILDS}", self.seconds());
    }

    /// Adds a program that was built, and the same on other servers.
    fn add(&mut self, program: &Program) {
        if program.name == SIMULATOR && self.choice.has_simulator() {
            return;
        }
        let threads = schedule::needs(&program.name).threads_per_core * self.cores;
        let mut jobs = vec![Job::of(program, threads, &self.choice.arguments_of(program))];
        if self.everywhere && program.name == STORES {
            let versions = servers::postgres::VERSIONS.iter().filter(|version| version.is_there());
            jobs.extend(
                versions.map(|version| Job::on_postgres(program, threads, version.major, &ON_EVERY_POSTGRES)),
            );
        }
        for job in jobs {
            self.schedule.add(schedule::needs(&job.name), job);
        }
    }

    fn start(&mut self, needs: Needs, job: Job) -> Result<(), String> {
        let (folder, events) = (self.scratch.folder()?, self.events.0.clone());
        println!("   {:>4} s  begins: {}", self.seconds(), job.name);
        std::thread::spawn(move || _ = events.send(Event::Ended(needs, job.run(&folder))));
        Ok(())
    }

    /// Shows the output of a program, and counts its tests.
    fn read(&mut self, ended: Ended) {
        if ended.name == DOC_TESTS {
            self.no_further_builds();
        }
        println!("\n== {} ({} s)", ended.name, ended.took.as_secs());
        self.count.enter(ended.place.as_deref());
        for line in ended.stdout.lines() {
            if self.count.read(line) {
                println!("{line}");
            }
        }
        print!("{}", ended.stderr);
        match &ended.status {
            Ok(status) if status.success() => {}
            Ok(status) => println!("{}: {status}", ended.name),
            Err(reason) => println!("{}: {reason}", ended.name),
        }
        let succeeded = ended.status.is_ok_and(|status| status.success());
        self.count.leave(&ended.name, succeeded);
        self.times.push((ended.name, ended.took));
        if let Some(job) = ended.again
            && !succeeded
        {
            self.failed.push((*job, failed_tests(&ended.stdout)));
        }
    }

    /// Runs failed tests once more, one after the other with nothing else on the machine, if that is allowed.
    fn repeat_failed(&mut self) -> Result<(), String> {
        let failed = std::mem::take(&mut self.failed);
        let named: usize = failed.iter().map(|(_, tests)| tests.len()).sum();
        if named != self.count.failed() || !second_run::is_allowed(&failed) {
            return Ok(());
        }
        for (job, tests) in failed {
            for test in tests {
                let name =
                    job.place.as_ref().map_or_else(|| test.clone(), |place| format!("{place}: {test}"));
                println!("\n{name} failed; second run, alone");
                let ended = job.only(&[test]).run(&self.scratch.folder()?);
                print!("{}{}", ended.stdout, ended.stderr);
                if second_run::has_passed(&ended) {
                    self.count.passed_alone(&name);
                }
            }
        }
        Ok(())
    }
}

fn list(count: &Count) {
    if !count.skips().is_empty() {
        println!("\nskipped:");
        for skip in count.skips() {
            println!("  {}: {}", skip.name, skip.reason);
        }
    }
    if !count.unstable().is_empty() {
        println!(
            "\nunstable, failed next to others and passed alone; each one is to be explained and fixed:"
        );
        for name in count.unstable() {
            println!("  {name}");
        }
    }
    if !count.failures().is_empty() {
        println!("\nfailed:");
        for name in count.failures() {
            println!("  {name}");
        }
    }
}

/// Why the run failed; `None` if it did not.
fn objection(count: &Count) -> Option<String> {
    if count.failed() > 0 {
        return Some("the build, a program or tests failed; see above".to_owned());
    }
    let require_all = std::env::var("REQUIRE_ALL").is_ok_and(|value| value == "1");
    let skipped = "REQUIRE_ALL=1 requires every test, but some were skipped".to_owned();
    (require_all && count.skipped() > 0).then_some(skipped)
}
