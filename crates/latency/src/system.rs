// SPDX-License-Identifier: MIT OR Apache-2.0
//! What neither the standard library nor rustix has: the time stamp counter, scheduling policies, and the counters of one thread.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;

/// The time stamp counter of this CPU. The processor may read it a little earlier than the program says; two reads of one thread keep their
/// order.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn time_stamp_counter() -> u64 {
    // SAFETY: the instruction touches no memory. Linux lets every program execute it unless the program itself has asked for a signal
    // instead (PR_SET_TSC), which Piste does not.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The time stamp counter, if this kind of processor has one.
pub(crate) fn any_time_stamp_counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    return Some(time_stamp_counter());
    #[cfg(not(target_arch = "x86_64"))]
    return None;
}

/// `struct sched_attr` of the kernel, in its first version.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct SchedulingAttributes {
    pub(crate) struct_bytes: u32,
    pub(crate) policy: u32,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    pub(crate) runtime_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) period_ns: u64,
}

const _: () = assert!(size_of::<SchedulingAttributes>() == 48);

/// Gives this thread another scheduling policy.
pub(crate) fn set_scheduling(attributes: &SchedulingAttributes) -> io::Result<()> {
    assert_eq!(attributes.struct_bytes as usize, size_of::<SchedulingAttributes>());
    let this_thread: libc::pid_t = 0;
    let no_flags: libc::c_uint = 0;
    // SAFETY: the kernel reads `struct_bytes` bytes at the address, which are those of the borrowed structure (asserted above).
    let set = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            this_thread,
            std::ptr::from_ref(attributes),
            no_flags,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the kernel counts for each thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadCounters {
    /// How often the thread lost its CPU, or gave it away.
    pub(crate) switches: u64,
    /// Page faults, whether or not a disk was read.
    pub(crate) page_faults: u64,
}

/// Those of this thread.
pub(crate) fn thread_counters() -> ThreadCounters {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes a `struct rusage` at most, and the address is that of one.
    let got = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(got, 0, "the kernel knows RUSAGE_THREAD since Linux 2.6.26");
    // SAFETY: it is a structure of integers, for which zeros are a value, and the kernel has written it.
    let usage = unsafe { usage.assume_init() };
    let sum = |one: libc::c_long, other: libc::c_long| one.cast_unsigned() + other.cast_unsigned();
    ThreadCounters {
        switches: sum(usage.ru_nvcsw, usage.ru_nivcsw),
        page_faults: sum(usage.ru_minflt, usage.ru_majflt),
    }
}
