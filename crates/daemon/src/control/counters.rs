// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether programs can read the processor's counters, which is tried here, on this process.

use std::io;

use perf_event::events::Software;
use perf_event::{Builder, Sampler};
use piste_reason::reason;

use crate::contexts::{Contexts, WrongContext};

/// Checks the counters among contexts that are asked for. What is no context is for others to say.
///
/// # Errors
/// The first counter that a program here could not read, and why.
pub(super) fn check(names: &[String]) -> Result<(), WrongContext> {
    let Ok(contexts) = Contexts::of(names) else {
        return Ok(());
    };
    for (name, kind, config) in contexts.counters() {
        try_one(kind, config).map_err(|why| WrongContext {
            name: name.to_owned(),
            allowed: format!(
                "what the kernel counts (perf:thread:task-clock, page-faults, context-switches and others), because {why}"
            ),
        })?;
    }
    Ok(())
}

/// Opens a counter as a program does, and reads it: its type and config are those of perf_event_open(2).
fn try_one(kind: u32, config: u64) -> Result<u64, String> {
    let why = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            "this processor, or the virtual machine that it belongs to, does not offer this counter".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "users may not use counters on this system (sysctl kernel.perf_event_paranoid)".to_owned()
        }
        _ => format!("this counter cannot be opened: {}", reason(error)),
    };
    let mut builder = Builder::new(Software::DUMMY);
    builder.exclude_kernel(true).exclude_hv(true).pinned(true);
    (builder.attrs_mut().type_, builder.attrs_mut().config) = (kind, config);
    let sampler: io::Result<Sampler> = builder.build().and_then(|mut counter| {
        counter.enable()?;
        counter.sampled(1)
    });
    let sampler = sampler.map_err(|error| why(&error))?;
    read(&sampler).ok_or_else(|| {
        "the kernel does not let programs read the processor's counters (/sys/bus/event_source/devices/cpu/rdpmc), or none is free".to_owned()
    })
}

/// Without a system call; none if that cannot be.
fn read(sampler: &Sampler) -> Option<u64> {
    sampler.read_user().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel has no register for it: so the program could not read it, although it can be opened.
    #[test]
    fn a_counter_that_is_in_no_register_is_refused() {
        const SOFTWARE: u32 = 1;
        const PAGE_FAULTS: u64 = 2;
        let refused = try_one(SOFTWARE, PAGE_FAULTS);
        assert!(refused.unwrap_err().contains("does not let programs read"));
    }

    #[test]
    fn a_counter_that_there_is_none_of_is_refused_with_the_reason() {
        const NO_SUCH_TYPE: u32 = 0xffff;
        let refused = try_one(NO_SUCH_TYPE, 0);
        assert!(refused.unwrap_err().contains("does not offer"));
    }

    #[test]
    fn only_counters_of_the_processor_are_tried() {
        let names = ["vtid", "perf:thread:context-switches", "no such context"];
        assert_eq!(check(&names.map(str::to_owned)), Ok(()));
    }
}
