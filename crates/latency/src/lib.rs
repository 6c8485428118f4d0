// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring latency on this machine. A loop runs on each chosen CPU and measures, each time around, how long something took that should take
//! no time. What it found is counted in tables that are in memory before it begins, so that counting costs next to nothing.
//!
//! - [`Plan`], [`Running`]: what is measured; threads that measure it, and their results
//! - [`Clock`]: what the loops read the time from; `tsc`: the time stamp counter as one
//! - [`Policy`]: how the scheduler treats them; [`cpus`]: lists of CPUs
//! - `spin`: the loop that reads the clock again and again; `event`: what else it does in each turn; `pace`: when the next turn starts; `witness`: what
//!   explains a gap that it found
//! - [`traced`]: that loop with an event in each turn, and tracers that record it; `single`: events one at a time
//! - `timer`: the loop that sleeps; `wakeup`: the loop that another thread wakes
//! - [`tracer`]: the kernel's own tracers of latency
//! - [`Limit`], [`Crossing`]: values that are too long, and when they were
//! - [`tally`]: the tables; `over_time`: the largest values of each stretch of time; [`Summary`]: mean, percentiles and the like
//! - [`preflight`]: settings of the machine that cause latency
//! - [`prepare`]: changes settings of the machine for measuring, and restores them
//! - [`load`]: work that keeps the machine busy meanwhile
//! - [`layout`]: results in the formats of other tools
//!
//! Whoever shows the results (crates/cli) knows nothing of loops.

mod buckets;
mod clock;
pub mod cpus;
mod crossing;
mod event;
pub mod layout;
pub mod load;
mod over_time;
mod pace;
mod policy;
pub mod preflight;
pub mod prepare;
mod run;
mod single;
mod spin;
mod statistics;
mod system;
pub mod tally;
mod timer;
pub mod traced;
pub mod tracer;
#[cfg(target_arch = "x86_64")]
mod tsc;
mod wakeup;
mod witness;

pub use clock::{Clock, ClockChoice, ClockKind, FrequencySource};
pub use crossing::{Crossing, Limit};
pub use event::LoadedEvent;
pub use over_time::Stretch;
pub use policy::Policy;
pub use run::{Error, Loop, Measured, Plan, Running};
pub use spin::{Cause, Gap, Gaps};
pub use statistics::{PERCENTILES, Summary};
pub use wakeup::Woken;
pub use witness::Seen;
