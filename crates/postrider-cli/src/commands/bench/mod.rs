//! `postrider bench`

mod kafka;
mod mqtt;
mod redis;
mod servers;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use postrider::{Code, Error};
use postrider_bench::actions::Actions;
use postrider_bench::drain::Drain;
use postrider_bench::encode::Encode;
use postrider_bench::growth::Growth;
use postrider_bench::latency::Latency;
use postrider_bench::layouts::Layouts;
use postrider_bench::write::Write;
use postrider_bench::{Report, actions, drain, encode, growth, latency, layouts, write};
use postrider_testkit::servers::mysql::Kind;

use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider bench drain                       how fast a backlog is delivered
  postrider bench drain --keys 20 --svg d.svg with few hot keys, and a chart
  postrider bench drain --db postgres         on a private server, if one is installed
  postrider bench publish --db postgres       from there to a private Kafka server
  postrider bench publish --db postgres --sink redis
  postrider bench latency --json              commit to acknowledgement, for programs";

/// Measure this machine and database, each figure next to its physical limit
///
/// Candidates run in turns in one process, on a temporary database. Compare the ratios; absolute figures
/// depend on the machine.
///
/// For the other databases it starts a private server, or uses the one in POSTRIDER_BENCH_URL: there it
/// creates schemas (on MySQL and MariaDB databases) postrider_bench_* and drops them afterwards. For Kafka it
/// also starts a private server, or uses the one in POSTRIDER_BENCH_KAFKA: there it creates topics
/// postrider-bench-* and deletes them afterwards. The same for streams of Redis and POSTRIDER_BENCH_REDIS,
/// and for topics of MQTT and POSTRIDER_BENCH_MQTT.
///
/// This command is in programs that are built with `--features bench`.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Bench {
    #[command(subcommand)]
    command: BenchCommand,

    /// Database to measure
    #[arg(long, global = true, value_enum, default_value = "sqlite")]
    db: Database,

    /// Runs of each contender
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repetitions: Option<u16>,

    /// Also write a chart to this SVG file
    #[arg(long, global = true, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Database {
    Sqlite,
    Postgres,
    Mysql,
    Mariadb,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Destination {
    /// Discards everything
    Null,
    /// PostgreSQL only
    Kafka,
}

/// The brokers that a backlog is published to.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Broker {
    Kafka,
    Redis,
    Mqtt,
}

/// An encoder with schemas, or one to compare it with.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EncoderName {
    Plain,
    Envelope,
    Avro,
    Protobuf,
    JsonSchema,
}

// Without a doc comment: clap would show it instead of that of the command.
#[derive(Debug, Args)]
struct Events {
    /// Events in the backlog
    #[arg(long, default_value_t = Drain::default().events, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,
    /// Bytes of each payload
    #[arg(long, default_value_t = Drain::default().payload_bytes)]
    payload_bytes: usize,
    /// Number of keys; 0: a separate key for every event
    #[arg(long, default_value_t = 0)]
    keys: u64,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// How fast a backlog is delivered, compared with a paged SELECT and with row-by-row updates
    #[command(before_help = "Examples:\n  postrider bench drain --events 1000000 --keys 20")]
    Drain(Events),
    /// How fast a backlog reaches a broker, compared with its client publishing the same records alone
    ///
    /// With --encoders, the relay with each of these encoders into Kafka, compared with `plain`: the events have a payload of
    /// 334 bytes, an action and a separate key.
    #[command(
        before_help = "Examples:\n  postrider bench publish --db postgres --keys 20\n  postrider bench publish --db postgres --sink redis\n  postrider bench publish --db postgres --encoders avro,protobuf"
    )]
    Publish {
        #[command(flatten)]
        events: Events,
        /// Where events go
        #[arg(long, value_enum, default_value = "kafka")]
        sink: Broker,
        /// Compare these encoders with `plain`
        #[arg(long, value_enum, value_delimiter = ',', value_name = "ENCODER", conflicts_with_all = ["payload_bytes", "keys", "sink"])]
        encoders: Vec<EncoderName>,
    },
    /// Time from commit to acknowledgement at a steady rate
    #[command(before_help = "Examples:\n  postrider bench latency --rate 500 --seconds 10")]
    Latency {
        /// Transactions per second
        #[arg(long, default_value_t = Latency::default().rate, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        rate: u32,
        /// Seconds per run
        #[arg(long, default_value_t = Latency::default().seconds, value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
        /// Where events go
        #[arg(long, value_enum, default_value = "null")]
        sink: Destination,
    },
    /// How fast one core encodes events with schemas; needs no database
    #[command(before_help = "Examples:\n  postrider bench encode --events 1000000")]
    Encode {
        /// Events per run
        #[arg(long, default_value_t = Encode::default().events, value_parser = clap::value_parser!(u64).range(1..))]
        events: u64,
    },
    /// How much an event adds to the transaction that writes it
    #[command(before_help = "Examples:\n  postrider bench write --transactions 10000")]
    Write {
        /// Transactions per run
        #[arg(long, default_value_t = Write::default().transactions, value_parser = clap::value_parser!(u64).range(1..))]
        transactions: u64,
        /// Bytes of each payload
        #[arg(long, default_value_t = Write::default().payload_bytes)]
        payload_bytes: usize,
    },
    /// What an action costs, compared with the same statements by hand
    #[command(before_help = "Examples:\n  postrider bench actions --db postgres")]
    Actions {
        /// Executions per run
        #[arg(long, default_value_t = Actions::default().executions, value_parser = clap::value_parser!(u64).range(1..))]
        executions: u64,
    },
    /// How fast a backlog of each layout with a state per row is delivered, compared with row-by-row updates
    #[command(before_help = "Examples:\n  postrider bench layouts --db postgres --events 100000")]
    Layouts {
        /// Rows in the backlog
        #[arg(long, default_value_t = Layouts::default().rows, value_parser = clap::value_parser!(u64).range(1..))]
        events: u64,
        /// Bytes of each payload
        #[arg(long, default_value_t = Layouts::default().payload_bytes)]
        payload_bytes: usize,
    },
    /// Whether throughput stays the same as the table grows
    #[command(before_help = "Examples:\n  postrider bench growth --many 5000000")]
    Growth {
        /// Delivered events in the small table
        #[arg(long, default_value_t = Growth::default().few)]
        few: u64,
        /// Delivered events in the large table
        #[arg(long, default_value_t = Growth::default().many)]
        many: u64,
        /// Undelivered events after them
        #[arg(long, default_value_t = Growth::default().backlog, value_parser = clap::value_parser!(u64).range(1..))]
        backlog: u64,
    },
}

impl Bench {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let progress = |what: &str| context.output.say(what);
        let report = self.measure(progress).map_err(|error| {
            Error::new(Code::BenchFailed, "the benchmark did not finish").with_source(error)
        })?;
        if let Some(file) = &self.svg {
            std::fs::write(file, report.svg()).map_err(|error| {
                Error::new(Code::OutputFailed, format!("cannot write {}", file.display())).with_source(error)
            })?;
        }
        if context.output.is_json() { context.output.json(&report) } else { context.output.text(&report) }
    }

    fn measure(&self, progress: impl Fn(&str)) -> Result<Report, postrider_bench::Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let repetitions = |otherwise: usize| self.repetitions.map_or(otherwise, usize::from);
        match self.command {
            BenchCommand::Drain(Events { events, payload_bytes, keys }) => {
                let repetitions = repetitions(Drain::default().repetitions);
                let drain = Drain { events, payload_bytes, keys, repetitions };
                match self.db {
                    Database::Sqlite => runtime.block_on(drain::sqlite(drain, progress)),
                    Database::Postgres => {
                        runtime.block_on(drain::postgres(&servers::postgres_url()?, drain, progress))
                    }
                    Database::Mysql | Database::Mariadb => {
                        let server = servers::MySql::find(self.kind())?;
                        runtime.block_on(drain::mysql(server.name, &server.url, drain, progress))
                    }
                }
            }
            BenchCommand::Publish { ref events, sink, ref encoders } => match (self.db, sink) {
                (Database::Postgres, Broker::Kafka) => {
                    kafka::publish(&runtime, events, encoders, self.repetitions.map(usize::from), progress)
                }
                (Database::Postgres, Broker::Mqtt) => {
                    mqtt::publish(&runtime, events, self.repetitions.map(usize::from), progress)
                }
                (Database::Postgres, Broker::Redis) => {
                    redis::publish(&runtime, events, self.repetitions.map(usize::from), progress)
                }
                _ => Err("this benchmark runs on PostgreSQL only: add --db postgres".into()),
            },
            BenchCommand::Latency { rate, seconds, sink } => {
                let repetitions = repetitions(Latency::default().repetitions);
                let latency = Latency { rate, seconds, repetitions };
                match (self.db, sink) {
                    (Database::Sqlite, Destination::Null) => {
                        runtime.block_on(latency::sqlite(latency, progress))
                    }
                    (Database::Postgres, Destination::Null) => {
                        runtime.block_on(latency::postgres(&servers::postgres_url()?, latency, progress))
                    }
                    (Database::Postgres, Destination::Kafka) => kafka::latency(&runtime, latency, progress),
                    (Database::Mysql | Database::Mariadb, Destination::Null) => {
                        let server = servers::MySql::find(self.kind())?;
                        runtime.block_on(latency::mysql(server.name, &server.url, latency, progress))
                    }
                    (_, Destination::Kafka) => {
                        Err("to Kafka this benchmark runs on PostgreSQL only: add --db postgres".into())
                    }
                }
            }
            BenchCommand::Encode { events } => {
                let repetitions = repetitions(Encode::default().repetitions);
                encode::run(&Encode { events, repetitions }, progress)
            }
            BenchCommand::Write { transactions, payload_bytes } => {
                let repetitions = repetitions(Write::default().repetitions);
                let write = Write { transactions, payload_bytes, repetitions };
                match self.db {
                    Database::Sqlite => write::sqlite(&write, progress),
                    Database::Postgres => {
                        runtime.block_on(write::postgres(&servers::postgres_url()?, &write, progress))
                    }
                    Database::Mysql | Database::Mariadb => {
                        let server = servers::MySql::find(self.kind())?;
                        runtime.block_on(write::mysql(server.name, &server.url, &write, progress))
                    }
                }
            }
            BenchCommand::Actions { executions } => {
                let actions =
                    Actions { executions, repetitions: repetitions(Actions::default().repetitions) };
                match self.db {
                    Database::Sqlite => runtime.block_on(actions::sqlite(&actions, progress)),
                    Database::Postgres => {
                        runtime.block_on(actions::postgres(&servers::postgres_url()?, &actions, progress))
                    }
                    Database::Mysql | Database::Mariadb => {
                        let server = servers::MySql::find(self.kind())?;
                        runtime.block_on(actions::mysql(server.name, &server.url, &actions, progress))
                    }
                }
            }
            BenchCommand::Layouts { events, payload_bytes } => {
                let repetitions = repetitions(Layouts::default().repetitions);
                let layouts = Layouts { rows: events, payload_bytes, repetitions };
                match self.db {
                    Database::Postgres => {
                        let server = servers::DurablePostgres::find()?;
                        runtime.block_on(layouts::postgres(&server.url, layouts, progress))
                    }
                    Database::Sqlite => runtime.block_on(layouts::sqlite(layouts, progress)),
                    Database::Mysql | Database::Mariadb => {
                        let server = servers::MySql::durable(self.kind())?;
                        runtime.block_on(layouts::mysql(server.name, &server.url, layouts, progress))
                    }
                }
            }
            BenchCommand::Growth { few, many, backlog } => {
                let repetitions = repetitions(Growth::default().repetitions);
                let growth = Growth { few, many, backlog, repetitions };
                match self.db {
                    Database::Sqlite => runtime.block_on(growth::sqlite(growth, progress)),
                    Database::Postgres => {
                        runtime.block_on(growth::postgres(&servers::postgres_url()?, growth, progress))
                    }
                    Database::Mysql | Database::Mariadb => {
                        let server = servers::MySql::find(self.kind())?;
                        runtime.block_on(growth::mysql(server.name, &server.url, growth, progress))
                    }
                }
            }
        }
    }

    /// MySQL or MariaDB, which share a protocol.
    fn kind(&self) -> Kind {
        if matches!(self.db, Database::Mysql) { Kind::MySql } else { Kind::MariaDb }
    }
}
