// SPDX-License-Identifier: MIT OR Apache-2.0
//! What neither the standard library nor rustix has: the time stamp counter, scheduling policies, the counters of one thread, and functions of
//! libraries that are loaded.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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

/// The functions of crates/bench/src/measured/turn.h.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFunctions {
    /// `piste_bench_turn`
    pub(crate) record: extern "C" fn(u32),
    /// `piste_bench_turn_is_recorded`
    pub(crate) is_recorded: extern "C" fn() -> c_int,
}

/// Loads a library with these functions. It is never unloaded.
///
/// # Errors
/// Why that is not possible, as a sentence without its end.
pub(crate) fn load_event(library: &Path) -> Result<EventFunctions, String> {
    let path = CString::new(library.as_os_str().as_bytes()).map_err(|_| "a path has no zero byte")?;
    // SAFETY: the path ends with a zero byte. The library's constructors are those of a tracer, which any program may run.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err(format!("cannot load the library with the event: {}", loader_error()));
    }
    let record = function(handle, c"piste_bench_turn")?;
    let is_recorded = function(handle, c"piste_bench_turn_is_recorded")?;
    // SAFETY: crates/bench/src/measured/turn.h declares the functions with these types, both files are of this version of Piste, and the library stays loaded.
    Ok(unsafe {
        EventFunctions {
            record: std::mem::transmute::<*mut c_void, extern "C" fn(u32)>(record),
            is_recorded: std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(is_recorded),
        }
    })
}

fn function(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: `library` is a library that is loaded, and the name ends with a zero byte.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    match address.is_null() {
        false => Ok(address),
        true => Err(format!("the library with the event lacks {}", name.to_string_lossy())),
    }
}

/// Why the last library could not be loaded.
fn loader_error() -> String {
    // SAFETY: it returns null or a text that is valid until the next call in this thread.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "unknown".into(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}
