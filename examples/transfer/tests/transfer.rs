//! The example as a user runs it: without a crash, killed after every line, and with a crash at every step of the saga.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use postrider::action::{AcrossShards, EventPersister, Performed};
use postrider::inbox::Inbox;
use postrider::{BoxFuture, Outbox, Shard};
use postrider_testkit::{CrashPoints, eventually, eventually_blocking};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use transfer_example::actions::{NewAccount, OpenAccounts, Order, StartTransfer};
use transfer_example::{bank, saga};
use uuid::Uuid;

const OUTPUT: [&str; 8] = [
    "opened the accounts",
    "started the transfers",
    "done: 30",
    "refused: 20",
    "Ann has 70",
    "Bob has 130",
    "Eve has 0",
    "all together: 200",
];

/// The files of both shards.
fn files(folder: &Path) -> [PathBuf; 2] {
    [folder.join("0.0.db"), folder.join("0.1.db")]
}

/// Runs the program, and kills it after this many lines if that is less than all. Returns the lines.
fn run(folder: &Path, lines_max: usize) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfer"));
    let mut child = command.args(files(folder)).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(lines_max).map(Result::unwrap).collect();
    if lines.len() == lines_max {
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        assert!(child.wait().unwrap().success());
    }
    lines
}

#[test]
fn the_money_arrives_or_comes_back_however_often_the_program_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let letters = ["letters: 3"];
    let expected: Vec<&str> = OUTPUT.into_iter().chain(letters).collect();
    assert_eq!(run(folder.path(), usize::MAX), expected);
    // Again: every request is a duplicate.
    assert_eq!(run(folder.path(), usize::MAX), expected);

    for lines in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), lines);
        run(folder.path(), lines);
        let output = run(folder.path(), usize::MAX);
        assert_eq!(output[..8], OUTPUT, "killed after {lines} lines");
        assert_eq!(output[8], letters[0], "killed after {lines} lines");
    }
}

/// Dies before and after the events of an action are written, both within its transaction.
struct Mortal(CrashPoints);

impl EventPersister<SqlitePool> for Mortal {
    fn persist<'a>(
        &'a self,
        tx: &'a mut Transaction<'static, Sqlite>,
        performed: &'a Performed,
    ) -> BoxFuture<'a, postrider::Result<()>> {
        Box::pin(async move {
            let name = &performed.action.name;
            self.0.reach(&format!("{name}: the rows are written"));
            EventPersister::<SqlitePool>::persist(&Outbox::new(), tx, performed).await?;
            self.0.reach(&format!("{name}: the events are written"));
            Ok(())
        })
    }
}

/// Two payers on both shards, three payees: one open, one closed, one that does not exist.
struct World {
    accounts: Vec<NewAccount>,
    orders: Vec<(Uuid, Order)>,
    files: bank::Files,
}

impl World {
    fn new(folder: &Path) -> Self {
        let shards = [Shard::DEFAULT, Shard::new(0, 1).unwrap()];
        let account = |shard: Shard, owner: &str, is_open| NewAccount {
            id: shard.new_id(),
            owner: owner.to_owned(),
            balance: 100,
            is_open,
        };
        let accounts = vec![
            account(shards[0], "Ann", true),
            account(shards[1], "Bob", true),
            account(shards[1], "Eve", false),
        ];
        let (ann, bob, eve) = (accounts[0].id, accounts[1].id, accounts[2].id);
        let orders = [(ann, bob, 30), (ann, eve, 20), (bob, ann, 7), (bob, shards[0].new_id(), 5)];
        let orders = orders.map(|(payer, payee, amount)| (Uuid::now_v7(), Order { payer, payee, amount }));
        let files = shards.into_iter().zip(files(folder)).collect();
        Self { accounts, orders: orders.to_vec(), files }
    }

    /// One life of the program: it does what it can, until everything is done or a point ends it.
    async fn live(self: &Arc<Self>, points: &CrashPoints) {
        for (_, file) in &self.files {
            if file.exists() {
                // The dead process has no lease any more.
                rusqlite::Connection::open(file)
                    .unwrap()
                    .execute("DELETE FROM postrider_leases", [])
                    .unwrap();
            }
        }
        let shards = bank::open(&self.files).await.unwrap();
        let executor = bank::executor(&shards, Mortal(points.clone())).unwrap();
        let relay = bank::relay(&self.files, || points.watch(saga::handlers(&executor))).await.unwrap();
        let (world, handle) = (self.clone(), relay.handle());
        let clients = tokio::spawn(async move {
            let open = executor.call::<OpenAccounts>(world.accounts.clone());
            open.across_shards(AcrossShards::Copies).execute().await.unwrap();
            for (request, order) in &world.orders {
                let call = executor.call::<StartTransfer>(*order);
                call.execute_once(&Inbox::new(), "clients", *request).await.unwrap();
                handle.wake();
            }
        });
        // A crash unwinds the task.
        let is_alive = clients.await.is_ok();
        let (world, of_process) = (self.clone(), points.clone());
        let ends = move || !is_alive || of_process.has_crashed() || world.is_done();
        let waits = || eventually_blocking("everything is done, or the process is dead", ends);
        tokio::task::spawn_blocking(waits).await.unwrap();
        if points.has_crashed() {
            drop(relay);
        } else {
            relay.shutdown().await.unwrap();
        }
        for (shard, _) in &self.files {
            shards.get(*shard).close().await;
        }
    }

    /// The sum of a number over both shards.
    fn sum(&self, sql: &str) -> i64 {
        let of = |(_, file): &(Shard, PathBuf)| {
            let db = rusqlite::Connection::open(file).unwrap();
            db.busy_timeout(Duration::from_secs(30)).unwrap();
            db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        self.files.iter().map(of).sum()
    }

    fn is_done(&self) -> bool {
        let waiting = "SELECT (SELECT COUNT(*) FROM transfers WHERE state = 'started')";
        self.sum("SELECT COUNT(*) FROM transfers") == 4
            && self.sum(waiting) == 0
            && self.sum("SELECT COUNT(*) FROM letters") == 3
    }

    /// The books balance, and everything happened once.
    fn check(&self, crash: &str) {
        let of = |owner: &str| {
            self.sum(&format!("SELECT COALESCE(SUM(balance), 0) FROM accounts WHERE owner = '{owner}'"))
        };
        assert_eq!([of("Ann"), of("Bob"), of("Eve")], [77, 123, 100], "{crash}");
        let states = |state: &str| {
            self.sum(&format!("SELECT COALESCE(SUM(amount), 0) FROM transfers WHERE state = '{state}'"))
        };
        assert_eq!([states("done"), states("refused"), states("started")], [37, 25, 0], "{crash}");
        assert_eq!(self.sum("SELECT COUNT(*) FROM receipts WHERE is_accepted"), 2, "{crash}");
        assert_eq!(self.sum("SELECT COUNT(*) FROM receipts WHERE NOT is_accepted"), 2, "{crash}");
        assert_eq!(self.sum("SELECT COUNT(*) FROM letters"), 3, "{crash}");
    }
}

/// The process dies between the two commits of `OpenAccounts`: shard 0.0 has the account of Ann, and the events of all three.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_that_were_opened_in_two_parts_get_one_letter_each() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let shards = bank::open(&world.files).await.unwrap();
    let executor = bank::executor(&shards, Outbox::new()).unwrap();
    let open = async || {
        let call = executor.call::<OpenAccounts>(world.accounts.clone());
        call.across_shards(AcrossShards::Copies).execute().await.unwrap();
    };
    open().await;
    let undone = "DELETE FROM accounts; DELETE FROM postrider_events; DELETE FROM postrider_actions";
    rusqlite::Connection::open(&world.files[1].1).unwrap().execute_batch(undone).unwrap();

    let relay = bank::relay(&world.files, || saga::handlers(&executor)).await.unwrap();
    open().await;
    relay.wake();
    // Three events of the first action, and two of the second one.
    let handled = "SELECT COUNT(*) FROM postrider_inbox";
    eventually("every event is handled", async || world.sum(handled) == 5).await;
    relay.shutdown().await.unwrap();
    assert_eq!(world.sum("SELECT COUNT(*) FROM accounts"), 3);
    assert_eq!(world.sum("SELECT COUNT(*) FROM letters"), 3);
}

/// Longer than ten attempts, after which the default policy gives an event up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_waits_for_a_shard_that_is_away_however_long_that_takes() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let shards = bank::open(&world.files).await.unwrap();
    let executor = bank::executor(&shards, Outbox::new()).unwrap();
    let open = executor.call::<OpenAccounts>(world.accounts.clone());
    open.across_shards(AcrossShards::Copies).execute().await.unwrap();
    let relay = bank::relay(&world.files, || saga::handlers(&executor)).await.unwrap();
    relay.wake();
    eventually("every account has its letter", async || world.sum("SELECT COUNT(*) FROM letters") == 3).await;

    let [first, second] = files(folder.path()).map(|file| {
        let db = rusqlite::Connection::open(file).unwrap();
        db.busy_timeout(Duration::from_secs(30)).unwrap();
        db
    });
    second.execute("ALTER TABLE accounts RENAME TO accounts_away", []).unwrap();
    executor.execute::<StartTransfer>(world.orders[0].1).await.unwrap();
    relay.wake();
    let attempts = "SELECT COALESCE(MAX(attempts), 0) FROM postrider_parked WHERE state = 'retry'";
    let failed = async || first.query_row(attempts, [], |row| row.get::<_, i64>(0)).unwrap() > 10;
    eventually("the step has failed more than ten times", failed).await;
    assert_eq!(world.sum("SELECT COUNT(*) FROM receipts"), 0);

    second.execute("ALTER TABLE accounts_away RENAME TO accounts", []).unwrap();
    let done = "SELECT COUNT(*) FROM transfers WHERE state = 'done'";
    eventually("the transfer is done", async || world.sum(done) == 1).await;
    relay.shutdown().await.unwrap();
    assert_eq!(world.sum("SELECT SUM(balance) FROM accounts"), 300);
    assert_eq!(world.sum("SELECT COUNT(*) FROM receipts"), 1);
}

#[tokio::test]
async fn a_transfer_of_nothing_or_less_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let shards = bank::open(&world.files).await.unwrap();
    let executor = bank::executor(&shards, Outbox::new()).unwrap();
    let open = executor.call::<OpenAccounts>(world.accounts.clone());
    open.across_shards(AcrossShards::Copies).execute().await.unwrap();
    let (payer, payee) = (world.accounts[0].id, world.accounts[1].id);
    for amount in [0, -1, i64::MIN] {
        let refused = executor.execute::<StartTransfer>(Order { payer, payee, amount }).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("a transfer of {amount} is not possible"));
    }
    assert_eq!(world.sum("SELECT SUM(balance) FROM accounts"), 300);
    assert_eq!(world.sum("SELECT COUNT(*) FROM transfers"), 0);
}

/// Two lives on the same files, the first of which ends at this point. Returns whether it was reached.
async fn survive(point: &str, time: u32) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let (world, points) = (Arc::new(World::new(folder.path())), CrashPoints::new());
    points.crash_at(point, time);
    world.live(&points).await;
    let has_crashed = points.has_crashed();
    points.restart();
    world.live(&points).await;
    world.check(&format!("{point}, time {time}"));
    has_crashed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_step_of_the_saga_leaves_books_that_balance() {
    let folder = tempfile::tempdir().unwrap();
    let (world, points) = (Arc::new(World::new(folder.path())), CrashPoints::new());
    world.live(&points).await;
    world.check("no crash");
    let points = points.reached();
    let times = |step: &str| points[&format!("{step}: the events are written")];
    // On each shard that takes part; the other steps are on one.
    assert_eq!((times("OpenAccounts"), times("StartTransfer")), (2, 4));
    let effects = [times("Receive"), times("Finish"), times("Refund"), times("Welcome")];
    assert_eq!(effects, [4, 2, 2, 3]);
    // The relay delivered three events twice, because both shards have a copy.
    assert!(points["before the call"] >= effects.iter().sum::<u32>() + 3, "{points:?}");

    let crashes =
        points.into_iter().flat_map(|(point, times)| (1..=times).map(move |time| (point.clone(), time)));
    let (mut running, limit) = (JoinSet::new(), Arc::new(Semaphore::new(4)));
    for (point, time) in crashes {
        let limit = limit.clone();
        running.spawn(async move {
            let _turn = limit.acquire().await.unwrap();
            survive(&point, time).await
        });
    }
    let crashed = running.join_all().await.into_iter().filter(|crashed| *crashed).count();
    // Each point, except perhaps those that a retry reached once more in the first run.
    assert!(crashed >= 2 * (6 + 11) + 2 * 14, "{crashed}");
}
