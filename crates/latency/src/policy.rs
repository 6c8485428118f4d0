// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the scheduler treats the measuring threads: `other`, `fifo:80`, `rr:80`, `deadline:200us/1ms`.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use piste_reason::reason;
use serde::{Deserialize, Serialize};

use crate::system::{SchedulingAttributes, set_scheduling};

/// A scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// SCHED_OTHER, the policy of ordinary threads.
    Other,
    /// SCHED_FIFO: a real-time priority, from 1 to 99.
    Fifo(u8),
    /// SCHED_RR: the same; threads of one priority take turns.
    RoundRobin(u8),
    /// SCHED_DEADLINE: so much time on a CPU in each period.
    Deadline {
        /// Time on a CPU.
        runtime: Duration,
        /// Length of a period, and the time by which the thread must have had its share.
        period: Duration,
    },
}

impl Policy {
    /// Whether it comes before ordinary threads.
    pub fn is_realtime(self) -> bool {
        self != Policy::Other
    }

    /// Gives this thread the policy.
    pub(crate) fn apply(self) -> io::Result<()> {
        let mut attributes = SchedulingAttributes {
            struct_bytes: size_of::<SchedulingAttributes>() as u32,
            ..SchedulingAttributes::default()
        };
        match self {
            // The thread has it, or inherits what the user chose with chrt or nice.
            Policy::Other => return Ok(()),
            Policy::Fifo(priority) => {
                attributes.policy = libc::SCHED_FIFO.cast_unsigned();
                attributes.priority = priority.into();
            }
            Policy::RoundRobin(priority) => {
                attributes.policy = libc::SCHED_RR.cast_unsigned();
                attributes.priority = priority.into();
            }
            Policy::Deadline { runtime, period } => {
                attributes.policy = libc::SCHED_DEADLINE.cast_unsigned();
                attributes.runtime_ns = nanoseconds(runtime);
                attributes.deadline_ns = nanoseconds(period);
                attributes.period_ns = attributes.deadline_ns;
            }
        }
        set_scheduling(&attributes)
    }

    /// Why threads of this process may not use it, with what helps against that; `None` if they may. `join` as in [`crate::Plan`].
    pub fn refusal(self, join: &[PathBuf]) -> Option<String> {
        // In a thread of its own, which ends with it.
        let join = join.to_vec();
        let tried = std::thread::spawn(move || {
            for path in join {
                OpenOptions::new().write(true).open(path)?.write_all(b"0")?;
            }
            self.apply()
        });
        let tried = tried.join();
        let error = tried.expect("asking for a policy does not panic").err()?;
        Some(format!("{}{}", reason(&error), self.remedy(&error)))
    }

    /// What to do if the kernel refuses it.
    pub(crate) fn remedy(self, error: &io::Error) -> &'static str {
        match (self, error.raw_os_error()) {
            (Policy::Deadline { .. }, Some(libc::EPERM)) => {
                "; only root may use deadlines, and on chosen CPUs only while the kernel does not guarantee them: `sysctl -w kernel.sched_rt_runtime_us=-1`"
            }
            (Policy::Deadline { .. }, Some(libc::EBUSY)) => {
                "; other threads with deadlines need the time; ask for a shorter runtime"
            }
            (Policy::Deadline { .. }, Some(libc::EINVAL)) => {
                "; the runtime must be at least 1us and at most as long as the period, and the period at least 100us"
            }
            (_, Some(libc::EPERM)) => {
                "; run piste as root, or allow the user real-time priorities (`ulimit -r`, limits.conf: rtprio); in a control group, cpu.rt_runtime_us must not be 0"
            }
            _ => "",
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Other => f.write_str("other"),
            Policy::Fifo(priority) => write!(f, "fifo:{priority}"),
            Policy::RoundRobin(priority) => write!(f, "rr:{priority}"),
            Policy::Deadline { runtime, period } => {
                write!(f, "deadline:{}us/{}us", runtime.as_micros(), period.as_micros())
            }
        }
    }
}
