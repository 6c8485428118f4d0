// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is of the C library: its files, and the functions of locks in a program that has the library in it, with those that languages put around
//! them. Whoever asks which function waits for a lock means none of these.

/// How the names of files begin: of the GNU library, of its parts before 2.34, of musl; and Piste's own, which stand before it.
const FILES: [&str; 6] = ["libc.so", "libc-2.", "libpthread", "ld-linux", "ld-musl-", "libpiste"];
/// How the names of functions begin: of the GNU library, musl, and the standard libraries of C++ and Rust.
const LOCKS: [&str; 12] = [
    "pthread_",
    "__pthread_",
    "___pthread_",
    "__lll_",
    "__futex_",
    "__timedwait",
    "__syscall_cp",
    "__gthread_",
    "mtx_",
    "cnd_",
    "std::",
    "<std::",
];

/// Whether the file at a path is the C library or a part of it.
pub(crate) fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    FILES.iter().any(|begin| name.starts_with(begin))
}

/// Whether a function is a lock's.
pub(crate) fn is_lock(function: &str) -> bool {
    function == "syscall" || LOCKS.iter().any(|begin| function.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_and_its_locks_are_known_by_their_names() {
        for path in [
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/libc-2.31.so",
            "/lib/libpthread-2.31.so",
            "/lib/ld-musl-x86_64.so.1",
        ] {
            assert!(is_file(path), "{path}");
        }
        for path in [
            "/usr/lib/libc++.so.1",
            "/usr/lib/libc-client.so.2007e",
            "/opt/libc.so/orders",
        ] {
            assert!(!is_file(path), "{path}");
        }
        assert!(is_lock("pthread_mutex_lock") && is_lock("std::mutex::lock()"));
        assert!(!is_lock("take_order") && !is_lock("my_pthread_lock"));
    }
}
