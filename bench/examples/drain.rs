//! `cargo run --release -p postrider-bench --example drain -- EVENTS KEYS REPETITIONS`

use std::io::Write;

use postrider_bench::drain::{self, Drain};

// What the `postrider` binary uses: events are made in one thread and dropped in another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), postrider_bench::Error> {
    let number = |at, otherwise| std::env::args().nth(at).and_then(|a| a.parse().ok()).unwrap_or(otherwise);
    let drain = Drain {
        events: number(1, 200_000),
        keys: number(2, 0),
        repetitions: number(3, 5) as usize,
        ..Drain::default()
    };
    let drained = drain::sqlite(drain, |_| ()).await?;
    write!(std::io::stdout(), "{drained}")?;
    Ok(())
}
