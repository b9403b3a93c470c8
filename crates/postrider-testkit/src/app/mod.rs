//! For the tests of applications.

#[cfg(feature = "actions")]
mod actions;
#[cfg(feature = "sqlite")]
mod crash;
mod crash_points;
mod emitted;
mod expected;
mod handler_test;
#[cfg(feature = "sqlite")]
mod outbox;
#[cfg(feature = "sqlite")]
mod relay;

#[cfg(feature = "actions")]
pub use actions::{MemoryDatabase, MemoryError, MemoryRepository, MemoryTransaction};
#[cfg(feature = "sqlite")]
pub use crash::{Crash, CrashTest};
pub use crash_points::CrashPoints;
pub use emitted::Emitted;
pub use expected::Expected;
pub use handler_test::{Handled, HandlerTest};
#[cfg(feature = "sqlite")]
pub use outbox::TestOutbox;
#[cfg(feature = "sqlite")]
pub use relay::{Remaining, TestRelay};
