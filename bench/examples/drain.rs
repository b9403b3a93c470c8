//! `cargo run --release -p postrider-bench --example drain -- EVENTS KEYS REPETITIONS`

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), postrider_bench::Error> {
    let number = |at: usize, otherwise: u64| {
        std::env::args().nth(at).and_then(|a| a.parse().ok()).unwrap_or(otherwise)
    };
    let drain = postrider_bench::drain::Drain {
        events: number(1, 200_000),
        keys: number(2, 0),
        repetitions: number(3, 5) as usize,
        ..Default::default()
    };
    let drained = postrider_bench::drain::sqlite(drain, |_| ()).await?;
    let text = serde_json::to_string_pretty(&drained)?;
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}
